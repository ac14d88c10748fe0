// SPDX-License-Identifier: Apache-2.0
// Lists of merges that do not belong to their vocabulary, and such as have lost their end.
#include "text/merge_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/names_of_one_hash_test.h"
#include "text/merge_rules.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

std::string error_of(TokenizerSpec spec) {
  try {
    (void)make_tokenizer(std::move(spec));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_data) << error.what();
    return error.what();
  }
  return "no error";
}

TokenizerSpec spec_of(TokenizerKind kind, std::vector<std::string> merges) {
  TokenizerSpec spec;
  spec.kind = kind;
  spec.pre = "gpt-2";
  spec.tokens = {"a", "b", "ab", "<x>", "b<x>"};
  spec.types = {1, 1, 1, 3, 3};
  spec.scores.resize(spec.tokens.size());
  spec.merges = std::move(merges);
  spec.merge_list = MergeList::known;
  return spec;
}

TEST(MergeCheck, SaysWhichPieceIsMissing) {
  for (const TokenizerKind kind :
       {TokenizerKind::bpe, TokenizerKind::spm, TokenizerKind::character_bpe}) {
    const auto error = [&](std::vector<std::string> merges) {
      return error_of(spec_of(kind, std::move(merges)));
    };
    EXPECT_EQ(error({"a b"}), "no error");
    EXPECT_EQ(error({"b <x>", "a b"}), "no error");  // control tokens are in the vocabulary
    EXPECT_THAT(error({"a b", "c ab"}), HasSubstr(R"(merge 1, "c ab", needs "c", which is not)"));
    EXPECT_THAT(error({"a \u00e9"}), HasSubstr(R"(needs "\xc3\xa9", which is not)"));
    EXPECT_THAT(error({"a b", "b a"}), HasSubstr(R"(needs "ba", which is not)"));
    EXPECT_THAT(error({"a b", "a  b"}), HasSubstr(R"(merge 1, "a  b", needs " b")"));
  }
}

TEST(MergeCheck, LooksPastTheMarkInsideWords) {
  TokenizerSpec spec = spec_of(TokenizerKind::character_bpe, {"a ##b"});
  spec.continuing_subword_prefix = "##";
  EXPECT_THAT(error_of(spec), HasSubstr(R"(needs "##b")"));
  spec.tokens.insert(spec.tokens.end(), {"##b", "##<x>"});
  spec.types.resize(spec.tokens.size(), 1);
  EXPECT_EQ(error_of(spec), "no error");
  spec.merges = {"b ##<x>"};
  EXPECT_EQ(error_of(spec), "no error");
}

TEST(MergeCheck, GgufFilesMayListMore) {
  TokenizerSpec spec = spec_of(TokenizerKind::bpe, {"c ab", "a b"});
  spec.merge_list = MergeList::any;
  EXPECT_EQ(make_tokenizer(std::move(spec))->encode("ab"), (Ids{2}));
}

TEST(MergeCheck, TriesSpacesInTurnButNotThousands) {
  std::vector<std::string> cuts;
  EXPECT_TRUE(cut_merge(" a b c ", [&](std::string_view left, std::string_view right) {
    cuts.push_back(std::string(left) + "|" + std::string(right));
    return left == " a b";
  }));
  EXPECT_EQ(cuts, (std::vector<std::string>{" a|b c ", " a b|c "}));
  int num_cuts = 0;
  const auto refuse = [&](std::string_view, std::string_view) { return ++num_cuts < 0; };
  EXPECT_FALSE(cut_merge("x" + std::string(4000, ' ') + "y", refuse));
  EXPECT_EQ(num_cuts, 256);
  num_cuts = 0;
  EXPECT_FALSE(cut_merge("x  ", refuse));
  EXPECT_EQ(num_cuts, 1);
}

TEST(MergeCheck, NamesOfOneHashCostNoMore) {
  const auto names = names_of_one_hash(2, true);
  if (std::hash<std::string>()(names[0]) != std::hash<std::string>()(names[1])) {
    GTEST_SKIP() << "this library has another hash";
  }
  using Clock = std::chrono::steady_clock;
  const auto time = [](bool one_hash) {
    TokenizerSpec spec = spec_of(TokenizerKind::spm, {"a b", "a c"});
    spec.merge_list = MergeList::any;
    for (std::string& name : names_of_one_hash(40'000, one_hash)) {
      spec.tokens.push_back(std::move(name));
    }
    spec.types.resize(spec.tokens.size(), 1);
    spec.scores.resize(spec.tokens.size());
    const auto start = Clock::now();
    (void)make_tokenizer(std::move(spec));
    return Clock::now() - start;
  };
  (void)time(false);
  const auto usual = std::min(time(false), time(false));
  EXPECT_LT(std::min(time(true), time(true)), 6 * usual);
}

// Letters and all pairs of them, and a list of the first `num_merges` of these.
TokenizerSpec pairs_of_letters(size_t num_merges) {
  std::string vocab = "{";
  std::string merges = "#version: 0.2\n";
  int id = 0;
  const auto add = [&](const std::string& piece) {
    vocab.append(id == 0 ? "\"" : ", \"").append(piece).append("\": ") += std::to_string(id);
    ++id;
  };
  for (char c = 'a'; c <= 'z'; ++c) add({c});
  size_t listed = 0;
  for (char c = 'a'; c <= 'z'; ++c) {
    for (char d = 'a'; d <= 'z'; ++d) {
      add({c, d});
      if (listed++ < num_merges) merges.append({c, ' ', d, '\n'});
    }
  }
  return parse_vocab_and_merges(vocab + "}", merges);
}

TEST(MergeCheck, AListOfMergesThatLostItsEnd) {
  EXPECT_EQ(error_of(pairs_of_letters(676)), "no error");
  EXPECT_EQ(error_of(pairs_of_letters(370)), "no error");  // 300 names, and one in a hundred
  EXPECT_THAT(error_of(pairs_of_letters(369)),
              HasSubstr("307 of the 676 pieces of several bytes are not made by any of the 369 "
                        "merges, \"of\" the first; at most 306 would be expected: the list of "
                        "merges looks cut, fetch it again"));
}

TEST(MergeCheck, Gpt2WithoutItsLastMerges) {
  HASTEN_NEED_SHARED("data/tokenizers/gpt2");
  const std::string vocab = testing::read_tokenizer_file("gpt2/vocab.json");
  const std::string merges = testing::read_tokenizer_file("gpt2/merges.txt");
  EXPECT_EQ(error_of(parse_vocab_and_merges(vocab, merges)), "no error");
  const size_t cut = merges.rfind('\n', merges.size() - merges.size() / 20) + 1;
  EXPECT_THAT(error_of(parse_vocab_and_merges(vocab, merges.substr(0, cut))), HasSubstr("cut"));
}

}  // namespace
}  // namespace hasten::text
