// SPDX-License-Identifier: Apache-2.0
// Unigram on vocabularies made here: which of several ways is taken, and what no piece covers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/shared_vocabularies.h"
#include "text/tiny_charsmap.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using Ids = std::vector<int32_t>;

// <unk> a b c ab bc abc É, of which "abc" is the least likely, without any space before the text.
TokenizerSpec tiny_unigram_spec() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::unigram;
  spec.tokens = {"<unk>", "a", "b", "c", "ab", "bc", "abc", "É"};
  spec.scores = {0, -2, -3, -2, -3, -2.5, -9, -4};
  spec.types = {2, 1, 1, 1, 1, 1, 1, 1};
  spec.unk = 0;
  spec.add_bos = false;
  spec.space_prefix = SpacePrefix::none;
  return spec;
}

TEST(SentencePieceUnigram, TakesTheMostProbableWay) {
  TokenizerSpec spec = tiny_unigram_spec();
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{1, 5}));  // -4.5, before ab c and abc
  spec.scores[6] = -4;
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{6}));
  spec.types[6] = static_cast<int32_t>(TokenType::unused);
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{1, 5}));
  EXPECT_EQ(make_tokenizer(spec)->encode(""), Ids{});
}

TEST(SentencePieceUnigram, OfEqualWaysTheOneFoundFirst) {
  TokenizerSpec spec = tiny_unigram_spec();
  spec.scores[5] = -3;  // a bc and ab c: -5 both; the arrival of the earlier piece stays
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{1, 5}));
}

TEST(SentencePieceUnigram, OneUnknownForARun) {
  TokenizerSpec spec = tiny_unigram_spec();
  EXPECT_EQ(make_tokenizer(spec)->encode("axyzb\xffz"), (Ids{1, 0, 2, 0}));
  spec.fuse_unk = false;
  EXPECT_EQ(make_tokenizer(spec)->encode("axyb"), (Ids{1, 0, 0, 2}));
  spec.unk = -1;
  EXPECT_EQ(make_tokenizer(spec)->encode("axyb"), (Ids{1, 2}));
}

TEST(SentencePieceUnigram, BytesWhereThereAreByteTokens) {
  TokenizerSpec spec = tiny_unigram_spec();
  for (const char* token : {"<0xC3>", "<0xA8>", "<0xFF>"}) {
    spec.tokens.emplace_back(token);
    spec.scores.push_back(0);
    spec.types.push_back(static_cast<int32_t>(TokenType::byte));
  }
  EXPECT_EQ(make_tokenizer(spec)->encode("aèÉ\xff"), (Ids{1, 8, 9, 7, 10}));
  EXPECT_EQ(make_tokenizer(spec)->encode("aé"), (Ids{1, 0}));  // not all of its bytes
}

TEST(SentencePieceUnigram, UserDefinedPiecesAreAlwaysTaken) {
  TokenizerSpec spec = tiny_unigram_spec();
  spec.precompiled_charsmap = testing::tiny_charsmap({{"b", "c"}});
  spec.types[4] = static_cast<int32_t>(TokenType::user_defined);
  spec.scores[4] = -1000;
  // What it spells is not mapped either.
  EXPECT_EQ(make_tokenizer(spec)->encode("abcb"), (Ids{4, 3, 3}));
}

TEST(SentencePieceUnigram, MapsCharactersAndSpaces) {
  TokenizerSpec spec = tiny_unigram_spec();
  spec.tokens.emplace_back("▁");
  spec.scores.push_back(-1);
  spec.types.push_back(1);
  spec.precompiled_charsmap = testing::tiny_charsmap({{"\xc3\x88", "É"}, {"\t", " "}, {"q", ""}});
  EXPECT_EQ(make_tokenizer(spec)->encode("È\t \ta"), (Ids{7, 8, 8, 8, 1}));
  spec.remove_extra_whitespaces = true;
  EXPECT_EQ(make_tokenizer(spec)->encode("\t È\t \taq "), (Ids{7, 8, 1}));
  EXPECT_EQ(make_tokenizer(spec)->encode("qq"), Ids{});
  spec.space_prefix = SpacePrefix::every;
  EXPECT_EQ(make_tokenizer(spec)->encode("\t È"), (Ids{8, 7}));
  EXPECT_EQ(make_tokenizer(spec)->decode(Ids{8, 7, 8, 1}), "É a");
}

// Long texts are settled in parts, which must not show.
TEST(SentencePieceUnigram, LongTextsAreCutAlike) {
  const TokenizerSpec spec = tiny_unigram_spec();
  const auto tokenizer = make_tokenizer(spec);
  std::string text;
  Ids expected;
  for (int i = 0; i < 5000; ++i) {
    text += "abcxÉ";
    for (const int32_t id : {1, 5, 0, 7}) expected.push_back(id);
  }
  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(SentencePieceUnigram, RefusesByName) {
  const auto refuses = [](const auto& spoil, std::string_view words) {
    TokenizerSpec spec = tiny_unigram_spec();
    spoil(spec);
    try {
      (void)make_tokenizer(spec);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
    }
  };
  refuses([](auto& spec) { spec.scores.pop_back(); }, "8 tokens but 7 scores");
  refuses([](auto& spec) { spec.scores[3] = NAN; }, "token 3 is NaN");
  refuses([](auto& spec) { spec.precompiled_charsmap = "x"; }, "character map");
}

TEST(SentencePieceUnigram, OddPiecesStillWork) {
  TokenizerSpec spec = tiny_unigram_spec();
  spec.tokens[4] = "\xc3";  // ends inside a character
  spec.scores[4] = 100;
  spec.scores[5] = INFINITY;
  spec.scores[6] = -INFINITY;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("É"), (Ids{7}));
  EXPECT_EQ(tokenizer->encode("abc\xc3"), (Ids{1, 5, 4}));
}

TEST(SentencePieceUnigram, RunsAreLinear) {
  HASTEN_NEED_SHARED("data/tokenizers/sentencepiece");
  const auto tokenizer = make_tokenizer(
      parse_sentencepiece_model(testing::read_tokenizer_file("sentencepiece/test_model.model")));
  for (const char* unit : {"a", " ", ".", "\n", "é", "中", "\xff", "ﷺ"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    const auto tokens = tokenizer->encode(text);
    EXPECT_LE(tokens.size(), 6 * text.size() + 2);  // one letter may become 18
  }
}

}  // namespace
}  // namespace hasten::text
