// SPDX-License-Identifier: Apache-2.0
// /v1/chat/completions over HTTP: shapes of whole answers and of streams.
#include "server_fixture.h"

namespace hasten::testing {
namespace {

class ChatTest : public ServerTest {};

TEST_F(ChatTest, AnswersWhole) {
  const HttpReply reply = chat("hi");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  const json::Value body = parse(reply.body);
  EXPECT_EQ(body.at("object"), "chat.completion");
  EXPECT_TRUE(body.at("id").as_string().starts_with("chatcmpl-"));
  EXPECT_EQ(body.at("model"), "fake");
  EXPECT_TRUE(body.at("system_fingerprint").is_string());
  EXPECT_TRUE(body.at("created").is_int64());
  const json::Value& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("index"), 0);
  EXPECT_EQ(choice.at("message"),
            parse(R"({"role": "assistant", "content": "Hello, world!", "refusal": null})"));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(body.at("usage"),
            parse(R"({"prompt_tokens": 5, "completion_tokens": 14, "total_tokens": 19,
                      "prompt_tokens_details": {"cached_tokens": 0}})"));
}

TEST_F(ChatTest, StreamsWithTheFramingOfOpenAi) {
  const HttpReply reply = chat("hi", R"(, "stream": true)");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream");
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_EQ(events.size(), 7U) << reply.body;  // role, four pieces, finish, [DONE]
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json::Value chunk = parse(events[i]);
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("id"), parse(events[0]).at("id"));
    EXPECT_FALSE(chunk.as_object().contains("usage"));
    const json::Value& choice = chunk.at("choices").at(0);
    const json::Object& delta = choice.at("delta").as_object();
    EXPECT_EQ(delta.contains("role"), i == 0);
    if (delta.contains("content")) text += delta.at("content").as_string();
    EXPECT_EQ(choice.at("finish_reason").is_null(), i != 5);
  }
  EXPECT_EQ(text, "Hello, world!");
  EXPECT_EQ(parse(events[5]).at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(parse(events[5]).at("choices").at(0).at("delta"), json::Object());
}

TEST_F(ChatTest, SendsUsageOnlyWhenAsked) {
  const HttpReply reply =
      chat("hi", R"(, "stream": true, "stream_options": {"include_usage": true})");
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_EQ(events.size(), 8U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(parse(events[i]).at("usage").is_null());
  const json::Value last = parse(events[6]);
  EXPECT_EQ(last.at("choices"), json::Array());
  EXPECT_EQ(last.at("usage").at("completion_tokens"), 14);
}

TEST_F(ChatTest, EndsWithLengthAtMaxTokens) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const HttpReply reply = chat("hi", fmt::format(", \"{}\": 2", name));
    const json::Value body = parse(reply.body);
    const json::Value& choice = body.at("choices").at(0);
    EXPECT_EQ(choice.at("finish_reason"), "length");
    EXPECT_EQ(choice.at("message").at("content"), "Hello, ");
  }
}

TEST_F(ChatTest, GivesEachChoiceItsIndex) {
  const json::Value body = parse(chat("hi", R"(, "n": 3)").body);
  ASSERT_EQ(body.at("choices").as_array().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(body.at("choices").at(i).at("index"), i);
    EXPECT_EQ(body.at("choices").at(i).at("message").at("content"), "Hello, world!");
  }
  const HttpReply stream = chat("hi", R"(, "n": 2, "stream": true)");
  std::map<int64_t, int> finished;
  for (const std::string& event : events_of(stream.body)) {
    if (event == "[DONE]") continue;
    const json::Value chunk = parse(event);
    const json::Value& choice = chunk.at("choices").at(0);
    finished[choice.at("index").as_int64()] += choice.at("finish_reason").is_string();
  }
  EXPECT_EQ(finished, (std::map<int64_t, int>{{0, 1}, {1, 1}}));
}

TEST_F(ChatTest, StreamsToolCallsInPieces) {
  const HttpReply reply = chat("tool", R"(, "stream": true)");
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_EQ(events.size(), 6U) << reply.body;
  const auto call = [&](std::size_t i) {
    return parse(events[i]).at("choices").at(0).at("delta").at("tool_calls").at(0);
  };
  EXPECT_EQ(call(1), parse(R"({"index": 0, "id": "call_1", "type": "function",
                               "function": {"name": "get_weather", "arguments": ""}})"));
  EXPECT_EQ(call(2), parse(R"({"index": 0, "function": {"arguments": "{\"city\":"}})"));
  EXPECT_EQ(call(3), parse(R"({"index": 0, "function": {"arguments": "\"Paris\"}"}})"));
  EXPECT_EQ(parse(events[4]).at("choices").at(0).at("finish_reason"), "tool_calls");
}

TEST_F(ChatTest, GathersToolCallsAndReasoning) {
  const json::Value tool = parse(chat("tool").body).at("choices").at(0);
  EXPECT_EQ(tool.at("finish_reason"), "tool_calls");
  EXPECT_TRUE(tool.at("message").at("content").is_null());
  EXPECT_EQ(tool.at("message").at("tool_calls"), parse(R"([{"id": "call_1", "type": "function",
                       "function": {"name": "get_weather",
                                    "arguments": "{\"city\":\"Paris\"}"}}])"));

  const json::Value thought = parse(chat("think").body).at("choices").at(0).at("message");
  EXPECT_EQ(thought.at("content"), "It is 42.");
  EXPECT_EQ(thought.at("reasoning"), "Hmm, so.");
  EXPECT_EQ(thought.at("reasoning_content"), "Hmm, so.");
  const HttpReply stream = chat("think", R"(, "stream": true)");
  const json::Value delta = parse(events_of(stream.body)[1]).at("choices").at(0).at("delta");
  EXPECT_EQ(delta, parse(R"({"reasoning": "Hmm, ", "reasoning_content": "Hmm, "})"));
}

TEST_F(ChatTest, ReportsLogprobsOfEveryTokenOfTheText) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    const HttpReply reply =
        chat("hi", std::string(R"(, "logprobs": true, "top_logprobs": 2)") + stream);
    json::Array tokens;
    if (*stream == 0) {
      tokens = parse(reply.body).at("choices").at(0).at("logprobs").at("content").as_array();
    } else {
      for (const std::string& event : events_of(reply.body)) {
        if (event == "[DONE]") continue;
        const json::Value logprobs = parse(event).at("choices").at(0).at("logprobs");
        if (logprobs.is_null()) continue;
        for (const json::Value& token : logprobs.at("content").as_array()) tokens.push_back(token);
      }
    }
    ASSERT_EQ(tokens.size(), 13U) << reply.body;  // the end token is none of the text
    EXPECT_EQ(tokens[0].at("token"), "H");
    EXPECT_EQ(tokens[0].at("bytes"), json::Array{72});
    EXPECT_EQ(tokens[0].at("logprob"), -0.5);
    EXPECT_EQ(tokens[0].at("top_logprobs").as_array().size(), 2U);
    EXPECT_EQ(tokens[0].at("top_logprobs").at(1).at("logprob"), -1.5);
  }
}

TEST_F(ChatTest, FailsBeforeTheFirstTokenWithAStatus) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    const HttpReply reply = chat("refuse", stream);
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(parse(reply.body).at("error").at("type"), "server_error");
    EXPECT_EQ(reply.body.find("NaN"), std::string::npos) << "the engine's words are for the log";
  }
}

TEST_F(ChatTest, SaysWhenADeadlineCannotBeMet) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    const HttpReply reply = chat("late", stream);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
    const json::Value error = parse(reply.body).at("error");
    EXPECT_EQ(error.at("code"), "deadline_unreachable");
    EXPECT_EQ(error.at("message"), "its deadline of 5 ms cannot be met");
  }
  EXPECT_NE(get("/metrics").body.find("reason=\"deadline_unreachable\"} 2"), std::string::npos);
}

TEST_F(ChatTest, FailsWhenTheEngineEndsWithoutALastChunk) {
  options_.limits.stream_ping = std::chrono::milliseconds(50);
  EXPECT_EQ(chat("vanish").status, 500);
  const std::vector<std::string> events = events_of(chat("vanish", R"(, "stream": true)").body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(parse(events[events.size() - 2]).at("error").at("code"), "generation_failed");
}

TEST_F(ChatTest, FailsMidwayWithAnErrorEventAndDone) {
  fake_controls().step_us = 200'000;  // so that the first words have left when the third fails
  const HttpReply reply = chat("break", R"(, "stream": true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.complete);
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(parse(events[events.size() - 2]).at("error").at("code"), "generation_failed");
  EXPECT_EQ(chat("break").status, 500);
}

TEST_F(ChatTest, RefusesWhatDoesNotFitAndUnknownModels) {
  const HttpReply reply = chat(std::string(5000, 'a'));
  EXPECT_EQ(reply.status, 400);
  const json::Value error = parse(reply.body).at("error");
  EXPECT_EQ(error.at("code"), "context_length_exceeded");
  EXPECT_EQ(error.at("param"), "messages");
  const std::string message(error.at("message").as_string());
  EXPECT_NE(message.find("4096"), std::string::npos) << message;
  EXPECT_NE(message.find("5003"), std::string::npos) << message;

  const HttpReply unknown = chat("hi", R"(, "model": "gpt-4")");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(parse(unknown.body).at("error").at("code"), "model_not_found");
  EXPECT_EQ(parse(unknown.body).at("error").at("param"), "model");
  EXPECT_EQ(chat("hi", R"(, "model": "fake")").status, 200);
}

TEST_F(ChatTest, PingsWhileTheEngineIsSilent) {
  options_.limits.stream_ping = std::chrono::milliseconds(50);
  fake_controls().step_us = 300'000;
  HttpClient client = connect();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(chat_body("hi", R"(,"stream":true)").size()) + "\r\n\r\n" +
              chat_body("hi", R"(,"stream":true)"));
  EXPECT_TRUE(client.read_until(": ping\n\n"));
}

}  // namespace
}  // namespace hasten::testing
