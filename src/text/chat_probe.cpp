// SPDX-License-Identifier: Apache-2.0
// The probes: conversations whose words are recognised in what the template makes of them.
#include "text/chat_probe.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hasten::text {
namespace {

// Words that no template contains by itself.
constexpr std::string_view kUser = "probe-user-a1", kOtherUser = "other-user-g7";
constexpr std::string_view kSystem = "probe-system-b2";
constexpr std::string_view kTool = "probe_tool_c3", kOtherTool = "probe_tool_d4";
constexpr std::string_view kResult = "probe-result-e5", kValue = "probe-value-f6";
constexpr std::string_view kArguments = R"({"probe_key": "probe-value-f6"})";

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

json::Object message(std::string_view role, json::Value content) {
  return {{"role", role}, {"content", std::move(content)}};
}

/// One call; its id has the nine characters that some templates insist on.
json::Object call(std::string_view name, std::string_view id, json::Value arguments) {
  return {{"id", id},
          {"type", "function"},
          {"function", json::Object{{"name", name}, {"arguments", std::move(arguments)}}}};
}

json::Object turn(json::Value content, json::Array calls) {
  json::Object result = message("assistant", std::move(content));
  result["tool_calls"] = std::move(calls);
  return result;
}

json::Object result_of(std::string_view name, std::string_view id, json::Value content) {
  json::Object result = message("tool", std::move(content));
  result["name"] = name;
  result["tool_call_id"] = id;
  return result;
}

json::Array described_tools() {
  // Some templates add the description to their text, and fail where there is none.
  const json::Object key{{"type", "string"}, {"description", "probe"}};
  const json::Object parameters{{"type", "object"},
                                {"properties", json::Object{{"probe_key", key}}},
                                {"required", json::Array{"probe_key"}}};
  return {json::Object{
      {"type", "function"},
      {"function",
       json::Object{{"name", kTool}, {"description", "probe"}, {"parameters", parameters}}}}};
}

json::Value object_arguments() { return json::Object{{"probe_key", kValue}}; }

/// Whether `longer` is `text` with something put in at one place, such as an empty thought.
bool is_inserted_into(std::string_view longer, std::string_view text) {
  const auto ahead = std::ranges::mismatch(text, longer).in1 - text.begin();
  const auto behind =
      std::mismatch(text.rbegin(), text.rend(), longer.rbegin(), longer.rend()).first -
      text.rbegin();
  return longer.size() >= text.size() && ahead + behind >= std::ssize(text);
}

}  // namespace

std::optional<std::string> Prober::rendered(const json::Array& messages, const json::Value& tools,
                                            const json::Object& extra,
                                            bool add_generation_prompt) const {
  try {
    return chat_.render_as_given(messages, tools, add_generation_prompt, extra).text;
  } catch (const Error& error) {
    const bool is_over_limit = error.code() == ErrorCode::resource_exhausted;
    if (is_over_limit || error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

std::string Prober::doubt(const Capabilities& capabilities) const {
  if (capabilities.ignores_users)
    return "makes the same prompt whatever users say: no words of theirs reach the model";
  const auto said = [&](std::string_view role, std::string_view text) {
    return message(role, content(text, capabilities));
  };
  const json::Array plain{said("user", kUser)};
  // Templates that are only for tools fail without them.
  const json::Value tools = rendered(plain) ? json::Value() : json::Value(described_tools());
  if (!rendered(plain, tools)) return {};
  const auto after_system = [&](std::string_view text) {
    return json::Array{said("system", kSystem), said("user", text)};
  };
  const auto second_question = [&](std::string_view text) {
    return json::Array{said("user", "hi"), said("assistant", "so"), said("user", text)};
  };
  // Not by finding the words: a template may print them otherwise, such as in capitals.
  const auto leaves_out = [&](const auto& conversation) {
    const std::optional<std::string> first = rendered(conversation(kUser), tools);
    return first && first == rendered(conversation(kOtherUser), tools);
  };
  try {
    (void)chat_.render_as_given(second_question(kUser), tools, true, {});
  } catch (const Error& error) {
    const bool is_over_limit = error.code() == ErrorCode::resource_exhausted;
    if (is_over_limit || error.code() == ErrorCode::internal) throw;
    std::string_view why = error.what();
    for (const std::string_view known : {"the chat template ", "refused the conversation: "})
      if (why.starts_with(known)) why.remove_prefix(known.size());
    return fmt::format("fails for a second question: {}", why);
  }
  const bool not_after_system = leaves_out(after_system), not_second = leaves_out(second_question);
  if (!not_after_system && !not_second) return {};
  return fmt::format("leaves out what the user says {}{}{}: the model never sees it",
                     not_after_system ? "after a system message" : "",
                     not_after_system && not_second ? " and " : "",
                     not_second ? "after an answer" : "");
}

std::string Prober::attempt(const json::Array& messages, const json::Value& tools,
                            const json::Object& extra, bool add_generation_prompt) const {
  return rendered(messages, tools, extra, add_generation_prompt).value_or("");
}

std::string Prober::attempt_call(const json::Array& messages) const {
  std::string text = attempt(messages, described_tools());
  return text.empty() ? attempt(messages) : text;
}

json::Value Prober::content(std::string_view text, const Capabilities& so_far) const {
  if (so_far.string_content) return json::Value(text);
  return json::Array{json::Object{{"type", "text"}, {"text", text}}};
}

bool Prober::renders() const {
  const json::Array parts{json::Object{{"type", "text"}, {"text", kUser}}};
  return !attempt({message("user", json::Value(kUser))}).empty() ||
         !attempt({message("user", parts)}).empty();
}

void Prober::probe_content(Capabilities& result) const {
  const json::Array parts{json::Object{{"type", "text"}, {"text", kUser}}};
  const std::string typed = attempt({message("user", parts)});
  // A template that prints the list itself shows its keys.
  result.typed_content = has(typed, kUser) && !has(typed, "'text'") && !has(typed, "\"text\"");
  result.string_content =
      !result.typed_content || has(attempt({message("user", json::Value(kUser))}), kUser);
}

void Prober::probe_tools(Capabilities& result) const {
  const json::Object user = message("user", content(kUser, result));
  const json::Value answer = content(kResult, result);
  const json::Value text = content("", result);
  constexpr std::string_view kId = "abcdefgh1", kOtherId = "abcdefgh2";
  const auto one_call = [&](const json::Value& said, const json::Value& arguments) {
    return attempt_call(
        {user, turn(said, {call(kTool, kId, arguments)}), result_of(kTool, kId, answer)});
  };

  result.tools = has(attempt({user}, described_tools()), kTool);
  // Some templates look for calls only where the content is null, others cannot print null.
  const std::string silent_object = one_call(nullptr, object_arguments());
  const std::string silent_text = one_call(nullptr, json::Value(kArguments));
  const auto or_silent = [&](const std::string& said, const std::string& silent) {
    return has(said, kValue) || silent.empty() ? said : silent;
  };
  const std::string from_object = or_silent(one_call(text, object_arguments()), silent_object);
  const std::string from_text = or_silent(one_call(text, json::Value(kArguments)), silent_text);
  // An object that the template merely adds to its text shows Python's quotes.
  const bool object_works = has(from_object, kValue) && !has(from_object, "{'probe_key'");
  const bool text_works = has(from_text, kArguments);
  result.object_arguments = object_works || !text_works;
  result.tool_calls = object_works || text_works;
  const json::Value arguments =
      result.object_arguments ? object_arguments() : json::Value(kArguments);
  result.tool_results = has(result.object_arguments ? from_object : from_text, kResult);
  const std::string& silent = result.object_arguments ? silent_object : silent_text;
  result.null_content = has(silent, kValue) && !has(silent, "None");
  const json::Value said = result.null_content ? json::Value() : text;
  const json::Array both{call(kTool, kId, arguments), call(kOtherTool, kOtherId, arguments)};
  const std::string parallel = attempt_call({user, turn(said, both), result_of(kTool, kId, answer),
                                             result_of(kOtherTool, kOtherId, answer)});
  const size_t first = parallel.find(kValue);
  result.parallel_tool_calls = result.tool_calls && has(parallel, kOtherTool) &&
                               first != std::string::npos &&
                               parallel.find(kValue, first + 1) != std::string::npos;
}

void Prober::probe(Capabilities& result) const {
  result = {};
  const AnswerFormat format = detect_answer_format(chat_.source());
  result.reasoning = format.reasoning;
  result.call_format = format.tool_calls;
  // What most take, where the trials end before it is known.
  result.string_content = result.object_arguments = true;
  probe_content(result);
  probe_tools(result);
  const json::Object user = message("user", content(kUser, result));
  const json::Array with_system{message("system", content(kSystem, result)), user};
  // Templates that are only for tools fail without them.
  const json::Value tools = attempt({user}).empty() ? described_tools() : json::Value();
  result.system_role = has(attempt(with_system, tools), kSystem);
  result.thinking_switch = attempt({user}, {}, {{"enable_thinking", true}}) !=
                           attempt({user}, {}, {{"enable_thinking", false}});
  result.generation_prompt =
      attempt({user}, tools).size() > attempt({user}, tools, {}, false).size();
  probe_reasoning(result);
  probe_user(result);
}

void Prober::probe_user(Capabilities& result) const {
  const json::Object system = message("system", content(kSystem, result));
  const auto as_parts = [](std::string_view text) {
    return json::Array{json::Object{{"type", "text"}, {"text", text}}};
  };
  const auto has_bit = [](int form, int bit) { return (form >> bit & 1) != 0; };
  bool renders = false;
  // With a system message or not, as parts or as text, with tools or not, after another turn or
  // not.
  for (int form = 0; form < 16; ++form) {
    const auto prompt = [&](std::string_view text) {
      const auto as_given = [&](std::string_view said) {
        return has_bit(form, 1) ? json::Value(as_parts(said)) : json::Value(said);
      };
      const json::Object user = message("user", as_given(text));
      json::Array messages;
      if (has_bit(form, 0)) messages.push_back(system);
      messages.push_back(user);
      if (has_bit(form, 3)) {
        messages.push_back(message("assistant", as_given("so")));
        messages.push_back(user);
      }
      return rendered(messages, has_bit(form, 2) ? json::Value(described_tools()) : json::Value());
    };
    const std::optional<std::string> first = prompt(kUser);
    if (!first) continue;
    // Not by finding the words: a template may print them otherwise, such as in capitals.
    if (first != prompt(kOtherUser)) return;
    renders = true;
  }
  result.ignores_users = renders;
}

void Prober::probe_reasoning(Capabilities& result) const {
  const json::Object user = message("user", content(kUser, result));
  for (const std::string_view key : {"reasoning_content", "reasoning", "thinking"}) {
    // The last turn, since templates drop what was thought before the last question; one that calls
    // a tool, since some print reasoning only there.
    json::Object said = message("assistant", content("so", result));
    said[key] = kValue;
    json::Object calls =
        turn(content("so", result),
             {call(kTool, "abcdefgh1",
                   result.object_arguments ? json::Value(json::Object()) : json::Value("{}"))});
    const auto called = [&](const json::Object& caller) {
      return attempt_call({user, caller, result_of(kTool, "abcdefgh1", content(kResult, result))});
    };
    const std::string without = called(calls);
    calls[key] = kValue;
    const std::string with = called(calls);
    if (has(attempt({user, said}, {}, {}, false), kValue) || has(with, kValue)) {
      result.reasoning_key = key;
      if (key == "reasoning_content") return;  // as clients call it: nothing is renamed
      result.reasoning_or_content = with.empty() && !without.empty();
      const std::string earlier = attempt({user, said, user});
      const std::string plain = attempt({user, message("assistant", content("so", result)), user});
      result.reasoning_with_calls = !has(earlier, kValue) && !is_inserted_into(earlier, plain);
      return;
    }
  }
}

}  // namespace hasten::text
