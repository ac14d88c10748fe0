// SPDX-License-Identifier: Apache-2.0
// Tests of the answer parser: formats, every way to cut the text, broken calls.
#include "text/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/json_scanner.h"

namespace hasten::text {
namespace {

constexpr AnswerFormat kHermes{.tool_calls = ToolCallFormat::hermes, .reasoning = true};
constexpr AnswerFormat kLlama{.tool_calls = ToolCallFormat::llama3};
constexpr AnswerFormat kMistral{.tool_calls = ToolCallFormat::mistral};
constexpr AnswerFormat kPlain{};

/// Events in one line: content as it is, (reasoning), {index name arguments}.
std::string described(const std::vector<ChatEvent>& events) {
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
        EXPECT_EQ(event.id.size(), 9U) << event.id;
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
std::vector<ChatEvent> joined(const std::vector<ChatEvent>& events) {
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

std::string parsed(const AnswerFormat& format, const std::string& text, size_t chunk) {
  const auto parser = make_answer_parser(format, 1);
  std::vector<ChatEvent> events;
  const auto add = [&](const std::vector<ChatEvent>& more) {
    events.insert(events.end(), more.begin(), more.end());
  };
  for (size_t at = 0; at < text.size(); at += chunk) add(parser->push(text.substr(at, chunk)));
  add(parser->finish());
  return described(joined(events));
}

/// The result is the same however the text is cut.
void expect_parsed(const AnswerFormat& format, const std::string& text,
                   const std::string& expected) {
  for (size_t chunk = 1; chunk <= text.size(); ++chunk)
    ASSERT_EQ(parsed(format, text, chunk), expected) << text << "\nin chunks of " << chunk;
}

TEST(AnswerParser, Hermes) {
  expect_parsed(kHermes, "Hello <b>you</b>.\n", "Hello <b>you</b>.\n");
  expect_parsed(kHermes,
                "Let me see. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]} }\n"
                "</tool_call>",
                "Let me see. {0 f}[0 {\"a\": [1, \"}\"]}]");
  expect_parsed(kHermes,
                "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                "<tool_call>{\"arguments\": {\"x\": 1.5}, \"name\": \"g\"}</tool_call> bye",
                "{0 f}[0 {}]{1 g}[1 {\"x\": 1.5}]bye");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"now\"}</tool_call>", "{0 now}[0 {}]");
  expect_parsed(kHermes,
                "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
                "{0 f}[0 {\"a\": 1}]");
}

TEST(AnswerParser, BrokenCallsAreContent) {
  for (const char* text : {"<tool_call>no json</tool_call>", "<tool_call>{\"name\" 1}</tool_call>",
                           "<tool_call>{\"arguments\": 1}", "<tool_call>", "<tool_", "a <tool_cal",
                           "<tool_call>{}</tool_call>", "<tool_call>{\"name\": 5}",
                           "<tool_call>{\"name\": \"f\"", "<tool_call>[1]"})
    expect_parsed(kHermes, text, text);
  // A call that breaks, or is cut off, after it began keeps what was sent.
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1} oops",
                "{0 f}[0 {\"a\": 1}]oops");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"long",
                "{0 f}[0 {\"a\": \"long]");
}

TEST(AnswerParser, Llama3) {
  expect_parsed(kLlama, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "{0 f}[0 {\"a\": 1}]");
  expect_parsed(kLlama,
                "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
                "\"parameters\": {\"b\": null}}",
                "{0 f}[0 {}]{1 g}[1 {\"b\": null}]");
  expect_parsed(kLlama, "The object {\"name\": 1} is text", "The object {\"name\": 1} is text");
  expect_parsed(kLlama, "{\"name\": \"Bob\", \"age\": 5}", "{\"name\": \"Bob\", \"age\": 5}");
  expect_parsed(kLlama, "<|python_tag|>print(1)", "<|python_tag|>print(1)");
}

TEST(AnswerParser, Mistral) {
  expect_parsed(kMistral,
                "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, "
                "{\"name\": \"g\", \"arguments\": {}}]",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  expect_parsed(kMistral, "Hi [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]",
                "Hi {0 f}[0 {}]");
  expect_parsed(kMistral, "[TOOL_CALLS][]", "[TOOL_CALLS][]");
  expect_parsed(kMistral, "[TOOLS] are fine", "[TOOLS] are fine");
}

TEST(AnswerParser, Reasoning) {
  expect_parsed(kHermes, "<think>\nFirst.\n\nThen.\n</think>\n\nAnswer.",
                "(First.\n\nThen.)Answer.");
  expect_parsed(kHermes, "<think></think>Yes", "Yes");
  expect_parsed(kHermes,
                "<think>\nhm <tool_call></think><tool_call>{\"name\": \"f\", \"arguments\": "
                "{}}</tool_call>",
                "(hm <tool_call>){0 f}[0 {}]");
  expect_parsed(kHermes, "<think>cut off", "(cut off)");
  expect_parsed(kHermes, "I <think> so </think>", "I <think> so </think>");
  expect_parsed(kPlain, "<think>x</think>", "<think>x</think>");
  AnswerFormat inside = kHermes;
  inside.starts_in_reasoning = true;
  expect_parsed(inside, "So.\n</think>\nYes", "(So.)Yes");
  EXPECT_TRUE(ends_in_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends_in_reasoning("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_reasoning(""));
}

TEST(AnswerParser, ContentIsNotHeldBack) {
  const auto parser = make_answer_parser(kHermes, 1);
  EXPECT_EQ(described(parser->push("Hello")), "Hello");
  EXPECT_EQ(described(parser->push(" a < b")), " a < b");
  EXPECT_EQ(described(parser->push(" <tool")), " ");  // may become a marker
  EXPECT_EQ(described(parser->push("box>")), "<toolbox>");
  EXPECT_EQ(described(parser->push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"")),
            "{0 f}[0 {\"a\"]");
  EXPECT_EQ(described(parser->push(": 1")), "[0 : 1]");
}

TEST(AnswerFormat, IsFoundInTheTemplate) {
  EXPECT_EQ(detect_answer_format("… <tool_call> …").tool_calls, ToolCallFormat::hermes);
  EXPECT_EQ(detect_answer_format("[TOOL_CALLS]").tool_calls, ToolCallFormat::mistral);
  EXPECT_EQ(detect_answer_format("<|python_tag|>").tool_calls, ToolCallFormat::llama3);
  EXPECT_EQ(detect_answer_format("<tool_call><function=x>").tool_calls, ToolCallFormat::none);
  EXPECT_EQ(detect_answer_format("plain").tool_calls, ToolCallFormat::none);
  EXPECT_TRUE(detect_answer_format("<think>").reasoning);
}

/// "done", "broken" or "more" after the whole text.
std::string scanned(std::string_view text) {
  JsonScanner scanner;
  auto status = JsonScanner::Status::more;
  for (const char c : text) status = scanner.feed(c);
  return status == JsonScanner::Status::done     ? "done"
         : status == JsonScanner::Status::broken ? "broken"
                                                 : "more";
}

TEST(JsonScanner, FollowsTheGrammar) {
  for (const char* text : {"{}", "[]", "{\"a\": [1, -2.5e+3, true, null, \"\\u00e9\\n\"]}", "\"x\"",
                           " [ [ ] , { } ] "})
    EXPECT_NE(scanned(text), "broken") << text;
  EXPECT_EQ(scanned("{\"a\": {\"b\": [0]}}"), "done");
  for (const char* text : {"{", "[1", "{\"a\"", "{\"a\":", "[1,", "\"x"})
    EXPECT_EQ(scanned(text), "more") << text;
  for (const char* text : {"{a", "[1,]", "{\"a\" 1", "{\"a\": 1,}", "[01]", "[1.]", "[+1]", "[tru]",
                           "[\"\\x", "[\"\\u00g", "[\"\n", "{]", "[}", "[1 2", "{,", "[1e]", "}"})
    EXPECT_EQ(scanned(text), "broken") << text;
  EXPECT_EQ(scanned(std::string(JsonScanner::kMaxDepth, '[')), "more");
  EXPECT_EQ(scanned(std::string(JsonScanner::kMaxDepth + 1, '[')), "broken");
}

}  // namespace
}  // namespace hasten::text
