// SPDX-License-Identifier: Apache-2.0
// Vocabularies that have no tokens for a part of what people write, or for all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/shared_vocabularies.h"
#include "text/tiny_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

TokenizerSpec byte_level(std::vector<std::string> tokens) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.pre = "gpt-2";
  spec.tokens = std::move(tokens);
  spec.merges = {"a a"};
  return spec;
}

// The vocabulary of every byte and a few more, without the tokens of `bytes`.
TokenizerSpec without(std::string_view bytes) {
  TokenizerSpec spec = testing::tiny_bpe_spec();
  for (const char byte : bytes) {
    const auto i = static_cast<size_t>(static_cast<unsigned char>(byte));
    spec.types[i] = static_cast<int32_t>(TokenType::unused);
    spec.tokens[i] = "[gone " + std::to_string(i) + "]";
  }
  return spec;
}

TEST(VocabularyDoubts, RefusesWhatHasNoTokenForAnyText) {
  const auto refuse = [](const TokenizerSpec& spec, const char* words) {
    EXPECT_THAT([&] { (void)make_tokenizer(spec); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuse(byte_level({"aa", "ab", "abc"}),
         "has tokens for no text: none of its 3 tokens is a single byte");
  refuse(byte_level({"", "", ""}), "none of the 3 tokens is one of text");
  const char* const alike = "all 3 tokens of text are \"a\": the file is damaged; fetch it again";
  refuse(byte_level({"a", "a", "a"}), alike);
  TokenizerSpec pieces = testing::tiny_spm_spec();
  pieces.tokens = {"<unk>", "a", "a", "a"};
  pieces.types = {2, 1, 1, 1};
  pieces.scores = {0, 0, 0, 0};
  pieces.bos = pieces.eos = -1;
  refuse(pieces, alike);
  TokenizerSpec with_unknown = byte_level({"aa", "ab", "abc"});
  with_unknown.unk = 2;
  EXPECT_EQ(make_tokenizer(with_unknown)->encode("a"), Ids{2});
  // A word that is a token needs no bytes.
  TokenizerSpec words = byte_level({"aa", "ab", "abc"});
  words.ignore_merges = true;
  EXPECT_EQ(make_tokenizer(words)->encode("ab"), Ids{1});
}

TEST(VocabularyDoubts, ListsTheBytesThatHaveNone) {
  EXPECT_TRUE(make_tokenizer(testing::tiny_bpe_spec())->doubts().empty());
  EXPECT_TRUE(make_tokenizer(testing::tiny_spm_spec())->doubts().empty());
  // No text has these, and published vocabularies do without: StarCoder and Falcon.
  EXPECT_TRUE(make_tokenizer(without("\x01\x0B\x7F\xC0\xC1\xF1\xF2\xF5\xFF"))->doubts().empty());
  TokenizerSpec spec = without("\r\xC0\xE4");
  spec.doubts = {"it has a crack"};
  EXPECT_THAT(make_tokenizer(spec)->doubts(),
              ElementsAre("it has a crack",
                          "it has no token for 2 bytes of text (0x0d, 0xe4), which are left out"));
  spec.unk = 0;
  EXPECT_THAT(make_tokenizer(spec)->doubts().back(), HasSubstr("which are made the unknown token"));
  EXPECT_THAT(make_tokenizer(without("abcde"))->doubts(),
              ElementsAre(HasSubstr("5 bytes of text (0x61, 0x62, 0x63, 0x64, …)")));
  EXPECT_THAT(make_tokenizer(without("\xE4"))->doubts(),
              ElementsAre("it has no token for a byte of text (0xe4), which is left out"));
  EXPECT_THAT(make_tokenizer(parse_rwkv_vocabulary("1 'a' 1\n"))->doubts(),
              ElementsAre(HasSubstr("no token for 210 bytes of text")));
}

TEST(VocabularyDoubts, TellsOfAPreTokenizerThatIsNotNamed) {
  TokenizerSpec spec = testing::tiny_bpe_spec();
  spec.pre = "default";
  EXPECT_THAT(make_tokenizer(spec)->doubts(),
              ElementsAre(HasSubstr("it does not name its pre-tokenizer")));
}

TEST(VocabularyDoubts, PublishedOnesHaveNone) {
  HASTEN_NEED_SHARED("data/tokenizers");
  for (const TokenizerSpec& spec :
       {testing::llama3_spec(), testing::qwen2_spec(), testing::o200k_spec()}) {
    EXPECT_TRUE(make_tokenizer(spec)->doubts().empty()) << spec.pre;
  }
}

// As the readers of tokenizer.json have it, whose published files lack '\r'.
TEST(VocabularyDoubts, WhatHasNoTokenIsGoneBeforeAnythingMerges) {
  TokenizerSpec spec = without("\r");
  spec.tokens.emplace_back("ĊĊ");
  spec.types.push_back(static_cast<int32_t>(TokenType::normal));
  spec.merges.emplace_back("Ċ Ċ");
  const auto tokenizer = make_tokenizer(spec);
  const auto id = static_cast<int32_t>(spec.tokens.size() - 1);
  EXPECT_EQ(tokenizer->encode("\n\n"), Ids{id});
  EXPECT_EQ(tokenizer->encode("\r\n\r\n"), Ids{id});
  EXPECT_EQ(tokenizer->encode("\r"), Ids{});
  spec.unk = 0;
  EXPECT_EQ(make_tokenizer(spec)->encode("\r\n\r\n"), (Ids{0, 10, 0, 10}));
}

}  // namespace
}  // namespace hasten::text
