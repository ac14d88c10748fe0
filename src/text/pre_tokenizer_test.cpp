// SPDX-License-Identifier: Apache-2.0
// What each scanner makes of the same text, written out.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace hasten::text {
namespace {

// The words of `text`, with a bar between them.
std::string words(WordScanner scanner, std::string_view text) {
  std::string joined;
  while (!text.empty()) {
    const size_t length = first_word_length(scanner, text);
    joined.append(joined.empty() ? "" : "|").append(text.substr(0, length));
    text.remove_prefix(length);
  }
  return joined;
}

TEST(PreTokenizer, CutsWords) {
  const std::string_view text = "I'LL say: don't  pay 12345 e\u0301tudes!\n\n  x";
  EXPECT_EQ(words(WordScanner::gpt2, text),
            "I|'|LL| say|:| don|'t| | pay| 12345| e|\u0301|tudes|!|\n\n | x");
  EXPECT_EQ(words(WordScanner::gpt2_digits, text),
            "I|'|LL| say|:| don|'t| | pay| |1|2|3|4|5| e|\u0301|tudes|!|\n\n | x");
  EXPECT_EQ(words(WordScanner::llama3, text),
            "I|'LL| say|:| don|'t| | pay| |123|45| e|\u0301tudes|!\n\n| | x");
  EXPECT_EQ(words(WordScanner::qwen2, text),
            "I|'LL| say|:| don|'t| | pay| |1|2|3|4|5| e|\u0301tudes|!\n\n| | x");
  EXPECT_EQ(words(WordScanner::o200k, text),
            "I'LL| say|:| don't| | pay| |123|45| e\u0301tudes|!\n\n| | x");
  EXPECT_EQ(words(WordScanner::tekken, text),
            "I|'LL| say|:| don|'t| | pay| |1|2|3|4|5| e\u0301tudes|!\n\n| | x");
}

TEST(PreTokenizer, CutsByCase) {
  EXPECT_EQ(words(WordScanner::o200k, "camelCase HTTPServer \u4e2dABC a/b//\n"),
            "camel|Case| HTTPServer| \u4e2d|ABC| a|/b|//\n");
  EXPECT_EQ(words(WordScanner::llama3, "camelCase HTTPServer"), "camelCase| HTTPServer");
}

TEST(PreTokenizer, EndsOfText) {
  for (const WordScanner scanner :
       {WordScanner::gpt2, WordScanner::gpt2_digits, WordScanner::llama3, WordScanner::qwen2,
        WordScanner::o200k, WordScanner::tekken}) {
    EXPECT_EQ(words(scanner, "a   "), "a|   ");
    EXPECT_EQ(words(scanner, " "), " ");
    EXPECT_EQ(words(scanner, "'"), "'");
    EXPECT_EQ(words(scanner, "a\xff\xfe!"), "a|\xff\xfe!");
  }
}

TEST(PreTokenizer, NamesWhatItDoesNotKnow) {
  EXPECT_TRUE(find_pre_tokenizer("qwen2").normalize_nfc);
  EXPECT_THROW((void)find_pre_tokenizer(""), Error);
}

}  // namespace
}  // namespace hasten::text
