// SPDX-License-Identifier: Apache-2.0
// The shared pieces of OpenAI's answers, and the framing of events.
#include "server/openai_json.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(OpenAiJsonTest, CountsCodePoints) {
  EXPECT_EQ(count_code_points(""), 0);
  EXPECT_EQ(count_code_points("a\xC3\xA9\xF0\x9F\x98\x80"), 3);
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
