// SPDX-License-Identifier: Apache-2.0
// /v1/completions, /v1/models, /tokenize and /detokenize over HTTP.
#include "server_fixture.h"

namespace hasten::testing {
namespace {

class CompletionsTest : public ServerTest {
 protected:
  json::Value complete(std::string_view body) {
    const HttpReply reply = post("/v1/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return parse(reply.body);
  }
};

TEST_F(CompletionsTest, AnswersAString) {
  const json::Value body = complete(R"({"prompt": "hi"})");
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_TRUE(body.at("id").as_string().starts_with("cmpl-"));
  EXPECT_EQ(body.at("choices").at(0),
            parse(R"({"index": 0, "text": "Hello, world!", "logprobs": null,
                      "finish_reason": "stop"})"));
  EXPECT_EQ(body.at("usage").at("prompt_tokens"), 2);
}

TEST_F(CompletionsTest, AnswersManyPromptsInTheirOrder) {
  const json::Value texts = complete(R"({"prompt": ["count 1", "count 2"], "n": 2})").at("choices");
  ASSERT_EQ(texts.as_array().size(), 4U);
  const std::vector<json::Value> expected = {"w0 ", "w0 ", "w0 w1 ", "w0 w1 "};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(texts.at(i).at("index"), i);
    EXPECT_EQ(texts.at(i).at("text"), expected[i]);
  }
  EXPECT_EQ(complete(R"({"prompt": [104, 105]})").at("choices").at(0).at("text"), "Hello, world!");
  EXPECT_EQ(complete(R"({"prompt": [[104, 105], [106]]})").at("choices").as_array().size(), 2U);
}

TEST_F(CompletionsTest, Streams) {
  const HttpReply reply = post("/v1/completions", R"({"prompt": "hi", "stream": true,
                                "stream_options": {"include_usage": true}})");
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_EQ(events.size(), 7U) << reply.body;  // four pieces, finish, usage, [DONE]
  EXPECT_EQ(parse(events[0]).at("choices").at(0),
            parse(R"({"index": 0, "text": "Hello", "logprobs": null, "finish_reason": null})"));
  EXPECT_EQ(parse(events[4]).at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(parse(events[5]).at("choices"), json::Array());
  EXPECT_EQ(parse(events[5]).at("usage").at("completion_tokens"), 14);
}

TEST_F(CompletionsTest, EchoesThePromptWithItsLogprobs) {
  const json::Value choice =
      complete(R"({"prompt": "hi", "echo": true, "logprobs": 1, "max_tokens": 1})")
          .at("choices")
          .at(0);
  EXPECT_EQ(choice.at("text"), "hiHello");
  EXPECT_EQ(choice.at("logprobs").at("tokens"), parse(R"(["h", "i", "H", "e", "l", "l", "o"])"));
  EXPECT_EQ(choice.at("logprobs").at("text_offset"), parse("[0, 1, 2, 3, 4, 5, 6]"));
  EXPECT_TRUE(choice.at("logprobs").at("token_logprobs").at(0).is_null());
  EXPECT_EQ(choice.at("logprobs").at("token_logprobs").at(1), -0.5);
  EXPECT_EQ(choice.at("logprobs").at("top_logprobs").at(1), parse(R"({"i": -0.5})"));
}

TEST_F(CompletionsTest, ChosenTokenIsAlwaysAmongTheTopOnes) {
  const json::Value logprobs = complete(R"({"prompt": "hi", "logprobs": 0, "max_tokens": 1})")
                                   .at("choices")
                                   .at(0)
                                   .at("logprobs");
  EXPECT_EQ(logprobs.at("top_logprobs").at(0), parse(R"({"H": -0.5})"));
}

TEST_F(CompletionsTest, ScoresAPromptWithoutGenerating) {
  const json::Value body =
      complete(R"({"prompt": "hi", "echo": true, "logprobs": 0, "max_tokens": 0})");
  EXPECT_EQ(body.at("choices").at(0).at("text"), "hi");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(body.at("choices").at(0).at("logprobs").at("tokens").as_array().size(), 2U);
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 0);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "hi", "max_tokens": 0})").status, 400);
  const HttpReply many =
      post("/v1/completions", R"({"prompt": "hi", "echo": true, "max_tokens": 0, "n": 2})");
  EXPECT_EQ(many.status, 400);
  EXPECT_EQ(parse(many.body).at("error").at("param"), "n");
}

TEST_F(CompletionsTest, BoundsTheLogprobsOfAnAnswer) {
  options_.limits.logprobs = 40;
  const auto refused = [this](std::string_view body) {
    const HttpReply reply = post("/v1/completions", body);
    return reply.status == 400 && parse(reply.body).at("error").at("param") == "logprobs";
  };
  // 2 prompts of 2 tokens, n, and 1 + top entries for each.
  const std::string echo = R"({"prompt": ["hi", "hi"], "echo": true, "max_tokens": 1, )";
  EXPECT_TRUE(refused(echo + R"("stream": true, "n": 2, "logprobs": 5})"));
  EXPECT_EQ(post("/v1/completions", echo + R"("stream": true, "n": 2, "logprobs": 4})").status,
            200);
  // What is generated counts as it comes, and only where it is gathered.
  EXPECT_TRUE(refused(R"({"prompt": "forever", "max_tokens": 1000, "logprobs": 1})"));
  EXPECT_TRUE(running_becomes(0));
  EXPECT_EQ(
      post("/v1/completions", R"({"prompt": "count 30", "logprobs": 1, "stream": true})").status,
      200);
}

TEST_F(CompletionsTest, PlacesTokensThatSplitCharacters) {
  const json::Value logprobs =
      complete(R"({"prompt": "héllo 😀 x", "echo": true, "logprobs": 2, "max_tokens": 0})")
          .at("choices")
          .at(0)
          .at("logprobs");
  EXPECT_EQ(logprobs.at("text_offset"), parse("[0, 1, 1, 2, 3, 4, 5, 6, 6, 6, 6, 7, 8]"));
  EXPECT_EQ(logprobs.at("tokens").at(1), "bytes:\\xc3");
  EXPECT_EQ(logprobs.at("top_logprobs").at(1),
            parse(R"({"bytes:\\xc3": -0.5, "bytes:\\xc4": -1.5})"));
}

TEST_F(CompletionsTest, RepeatsTheScoredPromptForEachChoice) {
  const json::Value choices =
      complete(R"({"prompt": "hi", "echo": true, "logprobs": 1, "max_tokens": 1, "n": 2})")
          .at("choices");
  EXPECT_EQ(choices.at(0).at("logprobs"), choices.at(1).at("logprobs"));
  EXPECT_EQ(choices.at(1).at("logprobs").at("tokens").at(0), "h");
}

TEST_F(CompletionsTest, ListsModels) {
  options_.model_names = {"first", "org/second"};
  const json::Value models = parse(get("/v1/models").body);
  EXPECT_EQ(models.at("object"), "list");
  ASSERT_EQ(models.at("data").as_array().size(), 2U);
  EXPECT_EQ(models.at("data").at(0).at("id"), "first");
  EXPECT_EQ(models.at("data").at(0).at("max_model_len"), kFakeContext);
  EXPECT_EQ(parse(get("/v1/models/org%2Fsecond").body).at("id"), "org/second");
  EXPECT_EQ(get("/v1/models/org/second").status, 200);
  EXPECT_EQ(get("/v1/models/third").status, 404);
}

TEST_F(CompletionsTest, TokenizesAndBack) {
  const json::Value tokens =
      parse(post("/tokenize", R"({"prompt": "hi", "return_token_strs": true})").body);
  EXPECT_EQ(tokens, parse(R"({"count": 2, "max_model_len": 4096, "tokens": [104, 105],
                              "token_strs": ["h", "i"]})"));
  const json::Value halves =
      parse(post("/tokenize", R"({"prompt": "\u00e9", "return_token_strs": true})").body);
  EXPECT_EQ(halves.at("token_strs"), parse(R"(["\\xc3", "\\xa9"])"));
  const json::Value chat_tokens = parse(post("/tokenize", chat_body("hi")).body);
  EXPECT_EQ(chat_tokens.at("count"), 5);
  EXPECT_TRUE(chat_tokens.at("token_strs").is_null());
  EXPECT_EQ(parse(post("/detokenize", R"({"tokens": [104, 105]})").body),
            parse(R"({"prompt": "hi"})"));
  // Half a character is replaced: JSON is UTF-8.
  EXPECT_EQ(parse(post("/detokenize", R"({"tokens": [195]})").body).at("prompt"), "\xEF\xBF\xBD");
  EXPECT_EQ(post("/detokenize", R"({"tokens": [258]})").status, 400);
}

}  // namespace
}  // namespace hasten::testing
