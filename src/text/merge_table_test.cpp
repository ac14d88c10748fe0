// SPDX-License-Identifier: Apache-2.0
// Every way of merging against the definition: join the best pair, look again, until none is left.
#include "text/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace hasten::text {
namespace {

using Symbols = std::vector<int32_t>;
struct Join {
  int32_t merged;
  int32_t rank;
};
using Rules = std::map<std::pair<int32_t, int32_t>, Join>;

Symbols merge_by_definition(Symbols symbols, const Rules& rules) {
  for (;;) {
    size_t best = symbols.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rule = rules.find({symbols[i], symbols[i + 1]});
      if (rule == rules.end()) continue;
      if (best == symbols.size() ||
          rule->second.rank < rules.at({symbols[best], symbols[best + 1]}).rank) {
        best = i;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = rules.at({symbols[best], symbols[best + 1]}).merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Few symbols, many rules, equal ranks, results that are used again: every branch is taken.
// `in_order`: rules come after those that make their parts, as in files; otherwise anything goes.
void compare_with_definition(bool in_order) {
  std::mt19937 random(11);
  MergeTable::Scratch scratch;
  for (int round = 0; round < 300; ++round) {
    const auto num_symbols = static_cast<int32_t>(2 + random() % 6);
    MergeTable table(round % 2 == 0 ? 64 : 0, random());
    Rules rules;
    for (int32_t merged = num_symbols; merged < num_symbols + 20; ++merged) {
      const auto left = static_cast<int32_t>(random() % static_cast<uint32_t>(merged));
      const auto right = static_cast<int32_t>(random() % static_cast<uint32_t>(merged));
      const auto rank = in_order ? merged : static_cast<int32_t>(random() % 12);
      table.add(left, right, merged, rank);
      const auto [rule, added] = rules.try_emplace({left, right}, Join{merged, rank});
      if (!added && rank < rule->second.rank) rule->second = {merged, rank};
    }
    if (in_order && round % 3 == 0) {  // a second pair for the last symbol, of the same rank
      const int32_t last = num_symbols + 19;
      if (rules.try_emplace({1, 0}, Join{last, last}).second) table.add(1, 0, last, last);
    }
    for (const size_t length : {0, 1, 2, 5, 15, 31, 32, 33, 100, 255, 256, 600}) {
      Symbols symbols;
      const bool run = random() % 3 == 0;  // of one symbol
      for (size_t i = 0; i < length; ++i) {
        const bool unknown = random() % 20 == 0;
        const auto symbol = static_cast<int32_t>(random() % static_cast<uint32_t>(num_symbols));
        symbols.push_back(unknown ? -1 : run ? 0 : symbol);
      }
      const Symbols expected = merge_by_definition(symbols, rules);
      table.merge(symbols, scratch);
      ASSERT_EQ(symbols, expected) << "round " << round << ", " << length << " symbols";
    }
  }
}

TEST(MergeTable, JoinsByDefinition) { compare_with_definition(/*in_order=*/false); }

TEST(MergeTable, JoinsByDefinitionInRounds) { compare_with_definition(/*in_order=*/true); }

}  // namespace
}  // namespace hasten::text
