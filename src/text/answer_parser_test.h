// SPDX-License-Identifier: Apache-2.0
// What an answer parser makes of a text, however it is cut, in one line.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/tool_calls.h"

namespace hasten::text {

inline const AnswerFormat kHermes{.tool_calls = ToolCallFormat::hermes, .reasoning = true};
inline const AnswerFormat kLlama{.tool_calls = ToolCallFormat::llama3};
inline const AnswerFormat kMistral{.tool_calls = ToolCallFormat::mistral};
inline const AnswerFormat kPlain{};

inline AnswerFormat calls(ToolCallFormat format) { return {.tool_calls = format}; }

/// Events in one line: content as it is, (reasoning), {index name arguments}.
inline std::string described(const std::vector<ChatEvent>& events) {
  std::string result;
  for (const ChatEvent& event : events) {
    switch (event.kind) {
      case ChatEvent::Kind::content:
        result += event.text;
        break;
      case ChatEvent::Kind::reasoning:
        result += "(" + event.text + ")";
        break;
      case ChatEvent::Kind::tool_call:
        EXPECT_TRUE(event.id.size() == 9 || event.id.find(event.name) != std::string::npos)
            << event.id;
        result += "{" + std::to_string(event.index) + " " + event.name + "}";
        break;
      case ChatEvent::Kind::tool_arguments:
        result += "[" + std::to_string(event.index) + " " + event.text + "]";
        break;
    }
  }
  return result;
}

/// Neighbouring events of one kind joined, since cutting the text cuts them.
inline std::vector<ChatEvent> joined(const std::vector<ChatEvent>& events) {
  std::vector<ChatEvent> result;
  for (const ChatEvent& event : events) {
    const bool extends = !result.empty() && result.back().kind == event.kind &&
                         result.back().index == event.index &&
                         event.kind != ChatEvent::Kind::tool_call;
    if (extends) {
      result.back().text += event.text;
    } else {
      result.push_back(event);
    }
  }
  return result;
}

inline std::string parsed(const AnswerFormat& format, const std::string& text, size_t chunk,
                          const std::shared_ptr<const ToolSchemas>& tools = nullptr) {
  const auto parser = make_answer_parser(format, tools, 1);
  std::vector<ChatEvent> events;
  const auto add = [&](const std::vector<ChatEvent>& more) {
    events.insert(events.end(), more.begin(), more.end());
  };
  for (size_t at = 0; at < text.size(); at += chunk) add(parser->push(text.substr(at, chunk)));
  add(parser->finish());
  return described(joined(events));
}

/// The result is the same however the text is cut.
inline void expect_parsed(const AnswerFormat& format, const std::string& text,
                          const std::string& expected,
                          const std::shared_ptr<const ToolSchemas>& tools = nullptr) {
  for (size_t chunk = 1; chunk <= text.size(); ++chunk)
    ASSERT_EQ(parsed(format, text, chunk, tools), expected) << text << "\nin chunks of " << chunk;
}

/// The result when everything in ⟦ ⟧ is a special token that is left out of the text, or shown.
inline std::string parsed_hidden(const AnswerFormat& format, std::string text, size_t chunk,
                                 bool shown = false) {
  constexpr std::string_view kOpen = "⟦", kClose = "⟧";
  const auto parser = make_answer_parser(format, nullptr, 1);
  std::vector<ChatEvent> events;
  const auto add = [&](const std::vector<ChatEvent>& more) {
    events.insert(events.end(), more.begin(), more.end());
  };
  std::vector<SpecialToken> hidden;
  std::string plain;
  const auto flush = [&] {
    add(parser->push(plain, hidden));
    plain.clear();
    hidden.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with(kOpen)) {
      const size_t end = rest.find(kClose);
      const auto name = rest.substr(kOpen.size(), end - kOpen.size());
      hidden.push_back({static_cast<int64_t>(plain.size()), std::string(name), shown});
      if (shown) plain += name;
      at += end + kClose.size();
    } else {
      plain += text[at++];
    }
    if (plain.size() + hidden.size() >= chunk) flush();
  }
  flush();
  add(parser->finish());
  return described(joined(events));
}

inline void expect_parsed_hidden(const AnswerFormat& format, const std::string& text,
                                 const std::string& expected) {
  for (size_t chunk = 1; chunk <= text.size(); ++chunk)
    ASSERT_EQ(parsed_hidden(format, text, chunk), expected) << text << "\nin chunks of " << chunk;
}

/// The format in a vocabulary that has these control tokens.
inline AnswerFormat with_tokens(AnswerFormat format, std::vector<std::string> names) {
  format.control_tokens = std::move(names);
  return format;
}

}  // namespace hasten::text
