// SPDX-License-Identifier: Apache-2.0
// Merges made of ranks against their definition: whatever two neighbours spell a token join.
#include "text/merge_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace hasten::text {
namespace {

using Symbols = std::vector<int32_t>;

Symbols merge_by_definition(Symbols symbols, const std::vector<int32_t>& ranks,
                            const Vocabulary& vocabulary) {
  const auto join = [&](size_t i) {
    if (symbols[i] < 0 || symbols[i + 1] < 0) return -1;
    return vocabulary.find_ordinary(std::string(vocabulary.bytes(symbols[i])) +
                                    std::string(vocabulary.bytes(symbols[i + 1])));
  };
  for (;;) {
    size_t best = symbols.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (join(i) < 0) continue;
      const auto rank = [&](size_t at) { return ranks[static_cast<size_t>(join(at))]; };
      if (best == symbols.size() || rank(i) < rank(best)) best = i;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = join(best);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

std::string random_word(std::mt19937& random, size_t max_length) {
  std::string word;
  const size_t length = 1 + random() % max_length;
  while (word.size() < length) word.push_back(static_cast<char>('a' + random() % 3));
  return word;
}

// Tokens in any order, many of which no merging reaches, some twice, some of equal rank; a few at
// first, later many times as many as are prepared together.
void compare_with_definition(TokenizerKind kind) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    TokenizerSpec spec;
    spec.kind = kind;
    spec.tokens = {"a", "b", "c"};
    const size_t max_tokens = round < 200 ? 30 : 200;
    for (size_t i = 0, size = 1 + random() % max_tokens; i < size; ++i) {
      spec.tokens.push_back(random_word(random, round % 4 == 0 ? 40 : 6));
    }
    std::shuffle(spec.tokens.begin(), spec.tokens.end(), random);
    const Vocabulary vocabulary(spec);
    std::vector<int32_t> ranks;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      ranks.push_back(kind == TokenizerKind::bpe ? id : static_cast<int32_t>(random() % 10));
    }
    const MergeSymbols first(vocabulary, kind == TokenizerKind::bpe
                                             ? MergeSymbols::First::byte
                                             : MergeSymbols::First::character);
    const MergeTable table = merges_of_ranks(ranks, vocabulary, first);
    MergeTable::Scratch scratch;
    for (int text = 0; text < 30; ++text) {
      const std::string word = random_word(random, 40);
      Symbols symbols;
      for (const char c : word) symbols.push_back(first.find({&c, 1}));
      const Symbols expected = merge_by_definition(symbols, ranks, vocabulary);
      table.merge(symbols, scratch);
      ASSERT_EQ(symbols, expected) << "round " << round << ", " << word;
    }
  }
}

TEST(MergeRules, IdsJoinByDefinition) { compare_with_definition(TokenizerKind::bpe); }

TEST(MergeRules, ScoresJoinByDefinition) { compare_with_definition(TokenizerKind::spm); }

}  // namespace
}  // namespace hasten::text
