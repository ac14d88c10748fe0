// SPDX-License-Identifier: Apache-2.0
// The shared pieces of OpenAI's answers, and the framing of events.
#include "server/openai_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "hasten/error.h"
#include "server/sse.h"

namespace hasten::server {
namespace {

TEST(OpenAiJsonTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(to_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(to_utf8("\xC3"), mark);                        // cut short
  EXPECT_EQ(to_utf8("\xC0\xAF"), mark + mark);             // overlong
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(to_utf8("\xF5\x80\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(to_utf8("a\x80z"), "a" + mark + "z");
}

TEST(OpenAiJsonTest, CountsCharactersOfSplitText) {
  const auto counts = [](const std::string& text) {
    CharacterCount count;
    std::vector<int64_t> result;
    for (const char byte : text) {
      count.add({&byte, 1});
      result.push_back(count.whole());
    }
    return result;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(counts("a\xC3\xA9\xF0\x9F\x98\x80z"), (Counts{1, 1, 2, 2, 2, 2, 3, 4}));
  EXPECT_EQ(counts("\xE0\xA0\x80"), (Counts{0, 0, 1}));
  EXPECT_EQ(counts("\xF4\x8F\xBF\xBF"), (Counts{0, 0, 0, 1}));
  EXPECT_EQ(counts("\xED\xA0\x80"), (Counts{0, 2, 3}));  // a surrogate: three replacements
  EXPECT_EQ(counts("\x80\xC3z"), (Counts{1, 1, 3}));
}

TEST(OpenAiJsonTest, NamesTokens) {
  EXPECT_EQ(token_name("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(token_name("\xC3"), "bytes:\\xc3");
  EXPECT_EQ(token_name("a\x9F\x98"), "bytes:\\x61\\x9f\\x98");
}

TEST(OpenAiJsonTest, EscapesWhatIsNoCharacter) {
  EXPECT_EQ(with_escapes("\xC3\xA9 \\n"), "\xC3\xA9 \\n");
  EXPECT_EQ(with_escapes("a\x9F\x98"), "a\\x9f\\x98");
  EXPECT_EQ(with_escapes("\xE2\x82"), "\\xe2\\x82");
  EXPECT_EQ(with_escapes(""), "");
}

TEST(OpenAiJsonTest, WritesNoInfinities) {
  EXPECT_EQ(finite_logprob(-1.5F), -1.5);
  EXPECT_EQ(finite_logprob(-std::numeric_limits<float>::infinity()), -9999.0);
  EXPECT_EQ(finite_logprob(std::numeric_limits<float>::quiet_NaN()), -9999.0);
}

TEST(OpenAiJsonTest, LeavesTheEndTokenOutOfTheText) {
  Chunk chunk;
  chunk.tokens = {1, 2};
  EXPECT_EQ(num_text_tokens(chunk), 2U);
  chunk.finish = Finish::length;
  EXPECT_EQ(num_text_tokens(chunk), 2U);
  chunk.finish = Finish::stop;
  EXPECT_EQ(num_text_tokens(chunk), 1U);
  chunk.stop_string = "x";
  EXPECT_EQ(num_text_tokens(chunk), 2U);
}

TEST(SseTest, FramesEvents) {
  EXPECT_EQ(sse_event("{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(kSseDone, "data: [DONE]\n\n");
  EXPECT_EQ(sse_event(json::serialize(json::Value("a\nb\r"))), "data: \"a\\nb\\r\"\n\n");
  EXPECT_THROW(sse_event("a\nb"), Error);
}

}  // namespace
}  // namespace hasten::server
