// SPDX-License-Identifier: Apache-2.0
// The places of special tokens in a text or between it, whatever stop strings hold back.
#include "engine/answer_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "hasten_test/fake_model.h"

namespace hasten::engine {
namespace {

constexpr int32_t kBegin = 1;  // a control token
constexpr int32_t kA = 2, kB = 3, kC = 4;
constexpr int32_t kC3 = 60;  // the first byte of a character

struct AnswerTextTest : ::testing::Test {
  /// Chunks of the answer with | between, hidden tokens in brackets and shown ones in braces.
  std::string written(const std::vector<int32_t>& tokens, const std::vector<std::string>& stop,
                      bool show_special = false) {
    const StopStrings strings(stop);
    AnswerText text(*tokenizer, show_special, strings);
    std::string result;
    for (const int32_t token : tokens) {
      Chunk chunk;
      const bool stopped = text.append(token, true, chunk);
      result += described(chunk) + "|";
      if (stopped) return result + chunk.stop_string;
    }
    Chunk chunk;
    text.finish(chunk);
    return result + described(chunk);
  }

  static std::string described(const Chunk& chunk) {
    std::string result = chunk.text;
    for (auto token = chunk.special.rbegin(); token != chunk.special.rend(); ++token) {
      const auto at = static_cast<size_t>(token->offset);
      if (token->shown) {
        EXPECT_EQ(result.substr(at, token->name.size()), token->name);
        result.replace(at, token->name.size(), "{" + token->name + "}");
      } else {
        result.insert(at, "[" + token->name + "]");
      }
    }
    return result;
  }

  std::shared_ptr<const text::Tokenizer> tokenizer = testing::make_fake_tokenizer();
};

TEST_F(AnswerTextTest, TellsWhereSpecialTokensStood) {
  EXPECT_EQ(written({kBegin, kA, kBegin, kBegin, kB}, {}), "[<begin>]|a|[<begin>]|[<begin>]|b|");
  EXPECT_EQ(written({kBegin, kA}, {}, /*show_special=*/true), "{<begin>}|a|");
  EXPECT_EQ(written({kC3, kBegin}, {}, /*show_special=*/true), "|\xEF\xBF\xBD{<begin>}|");
  // A character that is not whole ends before them.
  EXPECT_EQ(written({kC3, kBegin, kA}, {}), "|\xEF\xBF\xBD[<begin>]|a|");
}

TEST_F(AnswerTextTest, TheyWaitForTheTextBeforeThem) {
  EXPECT_EQ(written({kA, kBegin, kC}, {"ab"}), "||a[<begin>]c|");
  EXPECT_EQ(written({kA, kBegin}, {"ab"}), "||a[<begin>]");
  EXPECT_EQ(written({kA, kA, kBegin, kA, kC, kBegin}, {"aab"}), "|||a|a[<begin>]ac|[<begin>]|");
}

TEST_F(AnswerTextTest, StopStringsDoNotSeeThem) {
  EXPECT_EQ(written({kC, kA, kBegin, kB, kC}, {"ab"}), "c||||ab");
  EXPECT_EQ(written({kBegin, kA}, {"begin", "<"}), "[<begin>]|a|");
  EXPECT_EQ(written({kBegin, kA}, {"begin"}, /*show_special=*/true), "{<}|begin");
  // A part of a name that a stop string holds back comes with the text behind it.
  EXPECT_EQ(written({kA, kBegin, kA}, {"in>b"}, /*show_special=*/true), "a|{<beg}|{in>}a|");
  EXPECT_EQ(written({kA, kBegin, kA}, {"<begin>b"}, /*show_special=*/true), "a||{<begin>}a|");
}

}  // namespace
}  // namespace hasten::engine
