// SPDX-License-Identifier: Apache-2.0
// Every field of OpenAI's requests: its range from edge to edge, and the error beyond it.
#include "server/openai_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "base/error.h"

namespace hasten::server {
namespace {

const RequestBounds kBounds{.limits = {}, .vocab_size = 1000, .context = 4096};

std::string chat_body(std::string_view members) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "hi"}}], {}}})", members);
}
std::string completion_body(std::string_view members) {
  return fmt::format(R"({{"prompt": "hi", {}}})", members);
}

ChatRequest chat(std::string_view members) {
  return parse_chat_request(chat_body(members), kBounds);
}
CompletionRequest completion(std::string_view members) {
  return parse_completion_request(completion_body(members), kBounds);
}

/// The error of a parse; fails the test when there is none.
template <class Parse>
Error error_of(const Parse& parse, std::string_view what) {
  try {
    parse();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << what;
  return {ErrorCode::internal, "accepted", "accepted"};
}

struct FieldCase {
  const char* name;
  std::vector<const char*> good;
  std::vector<const char*> bad;  // besides the kinds that the field's own kind excludes
  char kind;                     // n number, i integer, b boolean, s string, a array, o object
};

// Values at the edge of each range, and just beyond.
const std::string kLongSalt = "\"" + std::string(257, 's') + "\"";
const FieldCase kShared[] = {
    {"temperature",
     {"0", "0.0", "1", "100", "1e-300"},
     {"-0.001", "100.001", "-1e308", "1e308"},
     'n'},
    {"top_p", {"1", "0.5", "1e-300"}, {"0", "-0.1", "1.0001", "2"}, 'n'},
    {"min_p", {"0", "1"}, {"-0.001", "1.001"}, 'n'},
    {"typical_p", {"1", "0.2"}, {"0", "-1", "1.001"}, 'n'},
    {"repetition_penalty", {"0.1", "1", "10"}, {"0", "-1", "10.01"}, 'n'},
    {"presence_penalty", {"-2", "2"}, {"-2.001", "2.001"}, 'n'},
    {"frequency_penalty", {"-2", "2"}, {"-2.001", "2.001"}, 'n'},
    {"top_k",
     {"-1", "0", "40", "2147483647", "3.0"},
     {"-2", "2147483648", "1.5", "9223372036854775808", "1e30"},
     'i'},
    {"seed",
     {"-9223372036854775808", "9223372036854775807", "0"},
     {"9223372036854775808", "-9223372036854775809", "1e300", "0.5"},
     'i'},
    {"n", {"1", "16"}, {"0", "-1", "17", "2147483648", "1.1"}, 'i'},
    {"max_tokens", {"16", "2147483647"}, {"-1", "2147483648", "1e19", "2.5"}, 'i'},
    {"min_tokens", {"0", "4"}, {"-1", "4097", "9223372036854775808"}, 'i'},
    {"ignore_eos", {"true", "false"}, {}, 'b'},
    {"skip_special_tokens", {"true", "false"}, {}, 'b'},
    {"stream", {"true", "false"}, {}, 'b'},
    {"stop_token_ids", {"[]", "[0, 999]"}, {"[1000]", "[-1]", "[\"a\"]", "[1.5]", "[null]"}, 'a'},
    {"logit_bias",
     {"{}", "{\"0\": -100, \"999\": 100}"},
     {"{\"1000\": 1}", "{\"-1\": 1}", "{\"a\": 1}", "{\"\": 1}", "{\"1x\": 1}", "{\"1\": 100.1}",
      "{\"1\": \"x\"}", "{\"99999999999999999999\": 1}"},
     'o'},
    {"stop", {"\"a\"", "[]", "[\"a\", \"b\"]"}, {"\"\"", "[\"\"]", "[1]", "[null]", "[[]]"}, 'S'},
    {"model", {"\"fake\"", "\"\""}, {}, 's'},
    {"cache_salt", {"\"\"", "\"our group\""}, {kLongSalt.c_str()}, 's'},
    {"priority", {"-1000", "0", "1000"}, {"-1001", "1001", "1e19", "0.5"}, 'i'},
    {"program_id", {"\"\"", "\"agent 7\""}, {kLongSalt.c_str()}, 's'},
    {"program_calls_left", {"0", "1000000"}, {"-1", "1000001", "0.5"}, 'i'},
    {"deadline_ms", {"1", "604800000"}, {"0", "-1", "604800001", "1.5"}, 'i'},
};
const FieldCase kChatOnly[] = {
    {"max_tokens", {"1"}, {"0"}, 'i'},
    {"max_completion_tokens", {"1", "2147483647"}, {"0", "-1", "2147483648"}, 'i'},
    {"logprobs", {"true", "false"}, {}, 'b'},
    {"top_logprobs", {"0"}, {"-1", "21", "1"}, 'i'},  // 1 needs "logprobs": true
    {"parallel_tool_calls", {"true"}, {}, 'b'},
    {"add_generation_prompt", {"false"}, {}, 'b'},
    {"continue_final_message", {"false"}, {"true"}, 'b'},
    {"chat_template_kwargs", {"{\"enable_thinking\": false}"}, {}, 'o'},
    {"tools", {"[]"}, {"[1]"}, 'a'},
    {"tool_choice",
     {"\"auto\"", "\"none\""},
     {"\"required\"", "\"maybe\"", "{\"type\": \"function\"}"},
     'T'},
    {"response_format",
     {"{\"type\": \"text\"}"},
     {"{\"type\": \"json_object\"}", "{\"type\": \"json_schema\"}", "{\"type\": \"xml\"}", "{}"},
     'o'},
};
const FieldCase kCompletionOnly[] = {
    {"max_tokens", {"1"}, {"0"}, 'i'},          {"logprobs", {"0", "20"}, {"-1", "21"}, 'i'},
    {"best_of", {"1"}, {"0", "2", "17"}, 'i'},  {"echo", {"true"}, {}, 'b'},
    {"add_special_tokens", {"false"}, {}, 'b'}, {"parse_special", {"true"}, {}, 'b'},
    {"suffix", {"\"\""}, {"\"end\""}, 's'},
};

/// JSON texts of every kind that a field of `kind` must refuse.
std::vector<std::string> wrong_kinds(char kind) {
  const std::pair<char, const char*> samples[] = {
      {'n', "0.75"}, {'b', "true"}, {'s', "\"1\""}, {'a', "[1, []]"}, {'o', "{\"a\": 1}"}};
  std::vector<std::string> wrong;
  for (const auto& [of, text] : samples) {
    const bool same = of == kind || (of == 'n' && kind == 'i') ||
                      (kind == 'S' && (of == 's' || of == 'a')) ||
                      (kind == 'T' && (of == 's' || of == 'o'));
    if (!same) wrong.emplace_back(text);
  }
  return wrong;
}

template <class Parse>
int sweep(std::span<const FieldCase> cases, const Parse& parse) {
  int refused = 0;
  for (const FieldCase& field : cases) {
    const auto member = [&](std::string_view value) {
      return fmt::format("\"{}\": {}", field.name, value);
    };
    for (const char* good : field.good) EXPECT_NO_THROW(parse(member(good))) << member(good);
    EXPECT_NO_THROW(parse(member("null"))) << field.name;
    std::vector<std::string> bad = wrong_kinds(field.kind);
    bad.insert(bad.end(), field.bad.begin(), field.bad.end());
    for (const std::string& value : bad) {
      const Error error = error_of([&] { parse(member(value)); }, member(value));
      EXPECT_TRUE(error.param().starts_with(field.name)) << member(value) << ": " << error.param();
      EXPECT_TRUE(error.code() == ErrorCode::invalid_argument ||
                  error.code() == ErrorCode::unsupported)
          << member(value);
      ++refused;
    }
    // What JSON has not is no value at all.
    for (const char* value : {"NaN", "Infinity", "-Infinity", "1e999", "0x1", "'1'", "01", "+1"}) {
      const Error error = error_of([&] { parse(member(value)); }, member(value));
      EXPECT_TRUE(error.code() == ErrorCode::invalid_data || error.param().starts_with(field.name))
          << member(value) << error.what();
      ++refused;
    }
  }
  return refused;
}

TEST(OpenAiRequestTest, EveryFieldIsHeldToItsKindAndRange) {
  int refused = sweep(kShared, chat);
  refused += sweep(kShared, completion);
  refused += sweep(kChatOnly, chat);
  refused += sweep(kCompletionOnly, completion);
  EXPECT_GT(refused, 500);
  RecordProperty("refused", refused);
}

TEST(OpenAiRequestTest, FillsTheRequest) {
  const ChatRequest parsed = chat(R"(
      "model": "m", "stream": true, "stream_options": {"include_usage": true},
      "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "typical_p": 0.8,
      "repetition_penalty": 1.1, "presence_penalty": 0.25, "frequency_penalty": -0.25,
      "seed": -1, "n": 3, "max_completion_tokens": 7, "max_tokens": 9, "min_tokens": 2,
      "stop": ["x", "yz"], "stop_token_ids": [5], "ignore_eos": true,
      "skip_special_tokens": false, "logit_bias": {"7": -100}, "logprobs": true,
      "cache_salt": "ours", "program_id": "p", "program_calls_left": 2, "priority": -3, "deadline_ms": 1500,
      "top_logprobs": 4, "unknown_field": [1, 2], "user": "someone", "metadata": {}
  )");
  const Request& request = parsed.common.request;
  EXPECT_EQ(parsed.common.model, "m");
  EXPECT_TRUE(parsed.common.stream);
  EXPECT_TRUE(parsed.common.include_usage);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(request.sampling.typical_p, 0.8F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(request.sampling.presence_penalty, 0.25F);
  EXPECT_EQ(request.sampling.frequency_penalty, -0.25F);
  EXPECT_EQ(request.sampling.seed, std::optional<uint64_t>(~uint64_t{0}));
  EXPECT_EQ(request.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{7, -100.0F}}));
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(request.stop_tokens, std::vector<int32_t>{5});
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_TRUE(request.show_special);
  EXPECT_EQ(request.logprobs, 4);
  EXPECT_EQ(request.cache_salt, "ours");
  EXPECT_EQ(request.priority, 3);  // lower is more urgent there, larger is here
  EXPECT_EQ(request.deadline_us, 1'500'000);
  EXPECT_EQ(request.program_id, "p");
  EXPECT_EQ(request.program_calls_left, 2);
  EXPECT_EQ(chat("\"a\": 1").common.request.program_calls_left, -1);
  EXPECT_EQ(chat("\"a\": 1").common.request.max_tokens, 0);
  EXPECT_EQ(chat("\"top_k\": -1").common.request.sampling.top_k, 0);
  EXPECT_GT(chat("\"top_p\": 1e-300").common.request.sampling.top_p, 0.0F);
  EXPECT_EQ(completion("\"a\": 1").common.request.max_tokens, 16);
}

TEST(OpenAiRequestTest, RefusesWhatItCannotHonour) {
  for (const char* name :
       {"functions", "function_call", "structured_outputs", "guided_json", "guided_regex",
        "guided_choice", "guided_grammar", "grammar", "json_schema", "chat_template"}) {
    const Error error = error_of([&] { chat(fmt::format("\"{}\": \"x\"", name)); }, name);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.param(), name);
  }
  EXPECT_EQ(error_of([] { chat(R"("stream_options": {"include_usage": true})"); }, "").param(),
            "stream_options");
  EXPECT_EQ(error_of([] { chat(R"("max_tokens": 3, "min_tokens": 4)"); }, "").param(),
            "min_tokens");
}

TEST(OpenAiRequestTest, SaysThatNoTokensGoWithEcho) {
  const Error error = error_of([] { completion(R"("max_tokens": 0)"); }, "");
  EXPECT_EQ(error.param(), "max_tokens");
  EXPECT_NE(std::string(error.what()).find("0 with echo"), std::string::npos) << error.what();
}

TEST(OpenAiRequestTest, NamesThePartOfTheConversationAtFault) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": "hi"})", "messages"},
      {R"({"messages": ["hi"]})", "messages[0]"},
      {R"({"messages": [{}]})", "messages[0].role"},
      {R"({"messages": [{"role": "king", "content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": 1, "content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [5]}]})", "messages[0].content[0]"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "messages[0].content[0].text"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]})",
       "messages[0].tool_calls[0].function"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}]})",
       "messages[0].tool_calls[0].function.name"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b",
           "tool_call_id": 5}]})",
       "messages[1].tool_call_id"},
  };
  for (const auto& [body, param] : cases) {
    EXPECT_EQ(error_of([&] { parse_chat_request(body, kBounds); }, body).param(), param) << body;
  }
  const std::pair<const char*, const char*> tools[] = {
      {R"([{"type": "web_search"}])", "tools[0].type"},
      {R"([{"type": "function"}])", "tools[0].function"},
      {R"([{"type": "function", "function": {}}])", "tools[0].function.name"},
      {R"([{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name"},
      {R"([{"type": "function", "function": {"name": "a", "parameters": []}}])",
       "tools[0].function.parameters"},
  };
  for (const auto& [list, param] : tools) {
    EXPECT_EQ(error_of([&] { chat(fmt::format("\"tools\": {}", list)); }, list).param(), param);
  }
}

TEST(OpenAiRequestTest, HandsTheConversationOnAsItCame) {
  const ChatRequest parsed = parse_chat_request(
      R"({"messages": [{"role":"user","content":[{"type":"text","text":"a"}],"x":1}],
          "tools": [{"type":"function","function":{"name":"f","parameters":{}}}],
          "chat_template_kwargs": {"enable_thinking":false}})",
      kBounds);
  EXPECT_EQ(parsed.chat.messages,
            R"([{"role":"user","content":[{"type":"text","text":"a"}],"x":1}])");
  EXPECT_EQ(parsed.chat.tools, R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  EXPECT_EQ(parsed.chat.template_arguments, R"({"enable_thinking":false})");
  const ChatRequest none =
      chat(R"("tools": [{"type":"function","function":{"name":"f"}}], "tool_choice": "none")");
  EXPECT_EQ(none.chat.tools, "");
}

TEST(OpenAiRequestTest, TellsOtherMediaFromSlips) {
  const auto error = [](std::string_view type) {
    const std::string body = fmt::format(
        R"({{"messages": [{{"role":"user","content":[{{"type":"{}","text":"a"}}]}}]}})", type);
    return error_of([&] { parse_chat_request(body, kBounds); }, body);
  };
  EXPECT_EQ(error("image_url").code(), ErrorCode::unsupported);
  EXPECT_EQ(error("txt").code(), ErrorCode::invalid_argument);
  EXPECT_EQ(
      std::string(error("txt").what()),
      "messages[0].content[0].type is \"txt\"; what a model reads is a part of type \"text\"");
}

TEST(OpenAiRequestTest, TemplateArgumentsAreNoFieldsOfTheRequest) {
  for (const char* field : {"messages", "tools"}) {
    const std::string own = fmt::format(R"("chat_template_kwargs": {{"{}": false}})", field);
    const Error error = error_of([&] { chat(own); }, own);
    EXPECT_EQ(error.param(), "chat_template_kwargs");
    EXPECT_NE(std::string(error.what()).find(field), std::string::npos);
  }
  EXPECT_TRUE(chat("\"n\": 1").chat.add_generation_prompt);
  for (const char* where : {R"("add_generation_prompt": false)",
                            R"("chat_template_kwargs": {"add_generation_prompt": false})"})
    EXPECT_FALSE(chat(where).chat.add_generation_prompt) << where;
}

TEST(OpenAiRequestTest, CountsBeforeItLooks) {
  const Limits limits;
  const auto repeat = [](std::string_view item, int64_t count) {
    std::string list;
    for (int64_t i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::string(item);
    return "[" + list + "]";
  };
  const auto param = [](const std::string& body) {
    return error_of([&] { parse_chat_request(body, kBounds); }, body.substr(0, 60)).param();
  };
  const std::string message = R"({"role":"user","content":"a"})";
  EXPECT_NO_THROW(
      parse_chat_request("{\"messages\":" + repeat(message, limits.messages) + "}", kBounds));
  EXPECT_EQ(param("{\"messages\":" + repeat(message, limits.messages + 1) + "}"), "messages");
  EXPECT_EQ(param(chat_body("\"tools\":" + repeat("1", limits.tools + 1))), "tools");
  EXPECT_EQ(std::string(error_of([] { chat("\"stop\": 5"); }, "stop").what()),
            "stop must be a string or an array of strings");
  EXPECT_EQ(param(chat_body("\"stop\":" + repeat("\"a\"", limits.stop_strings + 1))), "stop");
  EXPECT_NO_THROW(chat("\"stop\": \"" + std::string(256, 'a') + "\""));
  EXPECT_EQ(param(chat_body("\"stop\": \"" + std::string(257, 'a') + "\"")), "stop");
  EXPECT_EQ(param(chat_body("\"stop_token_ids\":" + repeat("1", limits.stop_tokens + 1))),
            "stop_token_ids");
}

TEST(OpenAiRequestTest, ReadsPromptsOfEveryForm) {
  const auto prompts = [](std::string_view prompt) {
    return parse_completion_request(fmt::format("{{\"prompt\": {}}}", prompt), kBounds).prompts;
  };
  EXPECT_EQ(prompts("\"a\""), std::vector<Prompt>{"a"});
  EXPECT_EQ(prompts("[\"a\", \"b\"]"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(prompts("[1, 2]"), (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(prompts("[[1], [2, 3]]"),
            (std::vector<Prompt>{std::vector<int32_t>{1}, std::vector<int32_t>{2, 3}}));
  for (const char* bad : {"null", "1", "{}", "[]", "[[]]", "[1, \"a\"]", "[1000]", "[true]",
                          "[[1], 2]", "[\"a\", [1000]]"}) {
    const Error error = error_of([&] { prompts(bad); }, bad);
    EXPECT_TRUE(error.param().starts_with("prompt")) << bad << error.param();
  }
}

TEST(OpenAiRequestTest, RefusesWhatIsNoJsonObject) {
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("[]"), std::string("1"), std::string("{"),
        std::string("{}x"), std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":\"\\ud800\"}"),
        std::string(100'000, '['),
        "{\"messages\":" + std::string(129, '[') + std::string(129, ']') + "}"}) {
    EXPECT_EQ(error_of([&] { parse_chat_request(body, kBounds); }, body.substr(0, 40)).code(),
              ErrorCode::invalid_data)
        << body.substr(0, 40);
  }
}

TEST(OpenAiRequestTest, ReadsTokenizeAndDetokenize) {
  const TokenizeRequest text = parse_tokenize_request(
      R"({"prompt": "a", "add_special_tokens": false, "return_token_strs": true})", kBounds);
  EXPECT_EQ(std::get<std::string>(text.input), "a");
  EXPECT_FALSE(text.add_special_tokens);
  EXPECT_TRUE(text.with_strings);
  EXPECT_FALSE(text.parse_special);
  constexpr const char* kSpecial = R"({"prompt": "a", "parse_special": true})";
  EXPECT_TRUE(parse_tokenize_request(kSpecial, kBounds).parse_special);
  EXPECT_TRUE(parse_completion_request(kSpecial, kBounds).parse_special);
  EXPECT_FALSE(parse_completion_request(R"({"prompt": "a"})", kBounds).parse_special);
  const TokenizeRequest chat =
      parse_tokenize_request(R"({"messages": [{"role": "user", "content": "a"}]})", kBounds);
  EXPECT_TRUE(std::holds_alternative<Chat>(chat.input));
  EXPECT_EQ(error_of([] { parse_tokenize_request("{}", kBounds); }, "").param(), "prompt");
  // Nothing that would change the prompt is passed over.
  const auto refused = [](const std::string& field) {
    const std::string body = R"({"messages": [{"role": "user", "content": "a"}], )" + field + "}";
    return error_of([&] { parse_tokenize_request(body, kBounds); }, body).param();
  };
  EXPECT_EQ(refused(R"("prompt": "a")"), "prompt");
  EXPECT_EQ(refused(R"("chat_template": "{{ 1 }}")"), "chat_template");
  EXPECT_EQ(refused(R"("continue_final_message": true)"), "continue_final_message");
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 2]})", kBounds).tokens,
            (std::vector<int32_t>{1, 2}));
  EXPECT_FALSE(parse_detokenize_request(R"({"tokens": []})", kBounds).skip_special_tokens);
  EXPECT_TRUE(parse_detokenize_request(R"({"tokens": [], "skip_special_tokens": true})", kBounds)
                  .skip_special_tokens);
  EXPECT_EQ(
      error_of([] { parse_detokenize_request(R"({"tokens": [1000]})", kBounds); }, "").param(),
      "tokens[0]");
}

}  // namespace
}  // namespace hasten::server
