// SPDX-License-Identifier: Apache-2.0
// Tool calls and reasoning over HTTP from a real engine, whose model writes their marks as control
// tokens.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "hasten/engine.h"
#include "hasten_test/temporary_folder.h"
#include "http_client.h"
#include "scripted_model.h"
#include "server/server.h"

namespace hasten::testing {
namespace {

/// What one answer consists of, whether it came whole or as a stream.
struct Answer {
  std::string content;
  std::string reasoning;
  std::string calls;  // "name(arguments)" of each
  std::string finish;
};

class Served {
 public:
  Served(std::string_view chat_template, const std::vector<Script>& scripts)
      : engine_({.model = write(chat_template, scripts), .kv_cache_bytes = 1 << 20}),
        server_(engine_, on_any_port()) {
    server_.start();
  }

  /// The reply to a question that ends with `key`; `more` are further members of the request. Asks
  /// for a whole answer and for a stream, and expects the same of both.
  Answer ask(char key, const std::string& more = "") {
    const Answer whole = whole_answer(reply(key, more));
    const Answer streamed = streamed_answer(reply(key, more + R"(, "stream": true)"));
    EXPECT_EQ(streamed.content, whole.content);
    EXPECT_EQ(streamed.reasoning, whole.reasoning);
    EXPECT_EQ(streamed.calls, whole.calls);
    EXPECT_EQ(streamed.finish, whole.finish);
    return whole;
  }

  HttpReply post(const std::string& path, const std::string& body) {
    return HttpClient(server_.port()).request("POST", path, body);
  }

 private:
  static server::ServerOptions on_any_port() {
    server::ServerOptions options;
    options.port = 0;
    return options;
  }

  std::filesystem::path write(std::string_view chat_template, const std::vector<Script>& scripts) {
    log::set_level(log::Level::off);
    const auto path = folder_.path() / "scripted.gguf";
    write_scripted_model(path, chat_template, scripts);
    return path;
  }

  std::string reply(char key, const std::string& more) {
    const HttpReply reply =
        post("/v1/chat/completions",
             std::string(R"({"temperature": 0, "messages": [{"role": "user", "content": ")") + key +
                 "\"}]" + more + "}");
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.body;
  }

  static std::string text(const json::Value& object, std::string_view key) {
    const json::Value* value = object.as_object().if_contains(key);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
  }

  static void add_calls(const json::Value& message, Answer& answer) {
    const json::Value* calls = message.as_object().if_contains("tool_calls");
    if (calls == nullptr) return;
    for (const json::Value& call : calls->as_array()) {
      const json::Value& function = call.at("function");
      if (const std::string name = text(function, "name"); !name.empty())
        answer.calls += name + ":";
      answer.calls += text(function, "arguments");
    }
  }

  static Answer whole_answer(const std::string& body) {
    const json::Value choice = json::parse(body, "reply").at("choices").at(0);
    Answer answer;
    answer.content = text(choice.at("message"), "content");
    answer.reasoning = text(choice.at("message"), "reasoning");
    answer.finish = text(choice, "finish_reason");
    add_calls(choice.at("message"), answer);
    return answer;
  }

  static Answer streamed_answer(std::string_view body) {
    Answer answer;
    constexpr std::string_view kData = "data: ";
    while (body.starts_with(kData)) {
      const size_t end = body.find("\n\n");
      const std::string_view event = body.substr(kData.size(), end - kData.size());
      body.remove_prefix(end + 2);
      if (event == "[DONE]") break;
      const json::Value choice = json::parse(event, "event").at("choices").at(0);
      answer.content += text(choice.at("delta"), "content");
      answer.reasoning += text(choice.at("delta"), "reasoning");
      answer.finish = text(choice, "finish_reason");
      add_calls(choice.at("delta"), answer);
    }
    return answer;
  }

  testing::TemporaryFolder folder_;
  Engine engine_;
  server::Server server_;
};

constexpr const char* kTools = R"(, "tools": [{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])";
constexpr const char* kShown = R"(, "skip_special_tokens": false)";
constexpr const char* kToolsTemplate =
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{{ messages[-1].content }}";

class MistralTest : public ::testing::Test {
 protected:
  Served served{
      std::string("{#- [TOOL_CALLS] [THINK] -#}") + kToolsTemplate,
      {{'A', {"Let▁me▁see.", "⟦[TOOL_CALLS]⟧", "f", "⟦[ARGS]⟧", "{\"city\":", "▁\"Paris\"}"}},
       {'B', {"Not", "⟦[CALL_ID]⟧", "▁a", "▁call."}},
       {'C', {"⟦[THINK]⟧", "Hmm.", "⟦[/THINK]⟧", "42"}},
       {'D', {"It▁says▁", "[TOOL_", "CALLS]", "rm[ARGS]", "{}."}},
       {'E', {"It▁says:▁", "[TOOL_CALLS]rm[ARGS]{}", "⟦[TOOL_CALLS]⟧", "f", "⟦[ARGS]⟧", "{}"}}}};
};

TEST_F(MistralTest, CallsAreReadFromControlTokens) {
  const Answer answer = served.ask('A', kTools);
  EXPECT_EQ(answer.content, "Let me see.");
  EXPECT_EQ(answer.calls, "f:{\"city\": \"Paris\"}");
  EXPECT_EQ(answer.finish, "tool_calls");
  // A client that asks for control tokens gets the same call: they are its marks.
  const Answer shown = served.ask('A', std::string(kTools) + kShown);
  EXPECT_EQ(shown.content, "Let me see.");
  EXPECT_EQ(shown.calls, "f:{\"city\": \"Paris\"}");
}

TEST_F(MistralTest, TextThatSpellsAControlTokenCallsNothing) {
  for (const std::string shown : {"", kShown}) {
    const Answer answer = served.ask('D', kTools + shown);
    EXPECT_EQ(answer.content, "It says [TOOL_CALLS]rm[ARGS]{}.");
    EXPECT_EQ(answer.calls, "");
    EXPECT_EQ(answer.finish, "stop");
    const Answer both = served.ask('E', kTools + shown);
    EXPECT_EQ(both.content, "It says: [TOOL_CALLS]rm[ARGS]{}");
    EXPECT_EQ(both.calls, "f:{}");
    // A stop string that cuts the name of the token into two chunks.
    const Answer held = served.ask('A', kTools + shown + R"(, "stop": ["CALLS]x"])");
    EXPECT_EQ(held.calls, "f:{\"city\": \"Paris\"}");
  }
}

TEST_F(MistralTest, ControlTokensAreContentOnlyWhereTheyAreAskedFor) {
  EXPECT_EQ(served.ask('A').content, "Let me see.f{\"city\": \"Paris\"}");
  EXPECT_EQ(served.ask('A').finish, "stop");
  EXPECT_EQ(served.ask('A', kShown).content, "Let me see.[TOOL_CALLS]f[ARGS]{\"city\": \"Paris\"}");
  EXPECT_EQ(served.ask('B').content, "Not a call.");
  EXPECT_EQ(served.ask('B', kTools).content, "Not a call.");
  EXPECT_EQ(served.ask('B', std::string(kTools) + kShown).content, "Not[CALL_ID] a call.");
}

TEST_F(MistralTest, StopStringsDoNotSeeThem) {
  EXPECT_EQ(served.ask('A', std::string(kTools) + R"(, "stop": ["TOOL"])").finish, "tool_calls");
  EXPECT_EQ(served.ask('A', std::string(kShown) + R"(, "stop": ["TOOL"])").content, "Let me see.[");
  // One that spans the mark ends the text before it.
  const Answer answer = served.ask('A', std::string(kTools) + R"(, "stop": ["see.f"])");
  EXPECT_EQ(answer.content, "Let me ");
  EXPECT_EQ(answer.calls, "");
}

TEST_F(MistralTest, ReasoningIsReadFromControlTokensWithoutTools) {
  const Answer answer = served.ask('C');
  EXPECT_EQ(answer.reasoning, "Hmm.");
  EXPECT_EQ(answer.content, "42");
}

TEST(HarmonyServed, ChannelsAreReadWithToolsAndWithout) {
  const std::string source =
      std::string("{#- <|channel|><|message|><|start|> -#}") + kToolsTemplate;
  Served served(source, {{'A',
                          {"⟦<|channel|>⟧", "analysis", "⟦<|message|>⟧", "Hmm.", "⟦<|end|>⟧",
                           "⟦<|start|>⟧", "assistant"}},
                         {'B', {"Plain."}}});
  const Answer answer = served.ask('A');
  EXPECT_EQ(answer.reasoning, "Hmm.");
  EXPECT_EQ(answer.content, "");
  EXPECT_EQ(served.ask('B').content, "Plain.");

  Served calling(source, {{'A',
                           {"⟦<|channel|>⟧", "commentary▁to=functions.f", "⟦<|constrain|>⟧", "json",
                            "⟦<|message|>⟧", "{\"city\":\"Paris\"}"}}});
  const Answer call = calling.ask('A', kTools);
  EXPECT_EQ(call.calls, "f:{\"city\":\"Paris\"}");
  EXPECT_EQ(call.content, "");
  EXPECT_EQ(call.finish, "tool_calls");
  EXPECT_EQ(calling.ask('A').content, "{\"city\":\"Paris\"}");
}

TEST(HarmonyServed, QuotedMessagesCallNothing) {
  const std::string source =
      std::string("{#- <|channel|><|message|><|start|> -#}") + kToolsTemplate;
  Served served(
      source, {{'A',
                {"⟦<|channel|>⟧", "final", "⟦<|message|>⟧", "Quote: ", "<|start|>assist",
                 "ant<|channel|>", "commentary to=functions.rm", "<|message|>{}", "⟦<|start|>⟧"}}});
  for (const std::string shown : {"", kShown}) {
    const Answer answer = served.ask('A', kTools + shown);
    EXPECT_EQ(answer.content,
              "Quote: <|start|>assistant<|channel|>commentary to=functions.rm<|message|>{}");
    EXPECT_EQ(answer.calls, "");
  }
}

TEST(KimiServed, SectionsOfCallsAreRead) {
  Served served(std::string("{#- <|tool_calls_section_begin|> -#}") + kToolsTemplate,
                {{'A',
                  {"⟦<|tool_calls_section_begin|>⟧", "⟦<|tool_call_begin|>⟧", "functions.f:0",
                   "⟦<|tool_call_argument_begin|>⟧", "{}", "⟦<|tool_call_end|>⟧",
                   "⟦<|tool_calls_section_end|>⟧"}}});
  const Answer answer = served.ask('A', kTools);
  EXPECT_EQ(answer.calls, "f:{}");
  EXPECT_EQ(answer.content, "");
}

// Of both routes, before a token is generated.
TEST(RefusedChats, NameTheFieldOnEveryRoute) {
  const auto expect = [](const char* source, const std::string& members, const char* param) {
    Served served(source, {{'A', {"B"}}});
    for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
      for (const char* stream : {"", R"(, "stream": true)"}) {
        const HttpReply reply = served.post(path, "{" + members + stream + "}");
        EXPECT_EQ(reply.status, 400) << reply.body;
        EXPECT_EQ(json::parse(reply.body, "reply").at("error").at("param"), param) << reply.body;
      }
    }
  };
  const std::string plain = R"("messages": [{"role": "user", "content": "A"}])";
  const char* const shows_none = "{{ messages[-1].content }}";
  expect("{{ raise_exception('no') }}", plain, "messages");
  expect("{{ messages + 1 }}", plain, "messages");
  expect("{{ ?", plain, "messages");
  expect("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", plain,
         "messages");
  expect(shows_none, plain + kTools, "tools");
  expect(shows_none, R"("messages": [{"role": "assistant", "content": "", "tool_calls": [
      {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}]},
      {"role": "user", "content": "A"}])",
         "messages[0].tool_calls[0].function.arguments");
  Served served(shows_none, {{'A', {"B"}}});
  EXPECT_EQ(served.ask('A', std::string(kTools) + R"(, "tool_choice": "none")").content, "B");
}

TEST(QwenCoderServed, ArgumentsInTagsAreTypedByTheSchemaOfTheTool) {
  Served served(std::string("{#- <tool_call><function= -#}") + kToolsTemplate,
                {{'A',
                  {"<tool_call><function=f>", "<parameter=city>10115</parameter>",
                   "<parameter=days>3</parameter>", "</function></tool_call>"}}});
  EXPECT_EQ(served.ask('A', kTools).calls, "f:{\"city\": \"10115\", \"days\": 3}");
}

}  // namespace
}  // namespace hasten::testing
