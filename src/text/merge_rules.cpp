// SPDX-License-Identifier: Apache-2.0
// Fills merge tables from merge lists and from token ranks.
#include "text/merge_rules.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"

namespace hasten::text {

MergeTable merges_of_list(const std::vector<std::string>& merges, const Vocabulary& vocabulary) {
  uint64_t seed = 0;
  for (const std::string& merge : merges) seed = hash_bytes(merge, seed);

  MergeTable table(merges.size(), seed);
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    if (merge.size() > 2 * Vocabulary::kMaxTokenBytes || merge.find(' ', 1) >= merge.size() - 1) {
      fail(ErrorCode::invalid_data, "merge {} is not two pieces with a space between them: {}",
           rank, printable(merge));
    }
    // Pieces may hold spaces themselves: the first cut that makes sense of the line is meant.
    for (size_t cut = merge.find(' ', 1); cut < merge.size() - 1; cut = merge.find(' ', cut + 1)) {
      const auto left = vocabulary.find_spelling(merge.substr(0, cut));
      const auto right = vocabulary.find_spelling(merge.substr(cut + 1));
      if (!left || !right) continue;
      joined.assign(vocabulary.bytes(*left)).append(vocabulary.bytes(*right));
      const int32_t merged = vocabulary.find_ordinary(joined);
      if (merged < 0) continue;
      table.add(*left, *right, merged, static_cast<int32_t>(rank));
      break;
    }
  }
  return table;
}

MergeTable merges_of_ranks(std::span<const int32_t> ranks, const Vocabulary& vocabulary,
                           const std::function<int32_t(std::string_view bytes)>& symbol_of) {
  HASTEN_CHECK(ranks.size() == static_cast<size_t>(vocabulary.size()));
  struct Rule {
    int32_t left;
    int32_t right;
    int32_t merged;
  };
  std::vector<Rule> rules;
  uint64_t seed = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    seed = hash_bytes(bytes, seed);
    if (vocabulary.find_ordinary(bytes) != id) continue;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const int32_t left = symbol_of(bytes.substr(0, cut));
      if (left < 0) continue;
      const int32_t right = symbol_of(bytes.substr(cut));
      if (right >= 0) rules.push_back({left, right, id});
    }
  }
  MergeTable table(rules.size(), seed);
  for (const Rule& rule : rules) {
    table.add(rule.left, rule.right, rule.merged, ranks[static_cast<size_t>(rule.merged)]);
  }
  return table;
}

// With the pairs of all lower ids a token's bytes join to the two symbols that it is made of: any
// other two are never neighbours, since nothing but the token's own bytes decides what its inside
// becomes. (A pair across its ends would have taken some of those bytes away.)
MergeTable merges_of_ids(const Vocabulary& vocabulary) {
  MergeTable table(static_cast<size_t>(vocabulary.size()), vocabulary.seed());
  MergeTable::Scratch scratch;
  std::vector<int32_t> symbols;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (bytes.size() < 2 || vocabulary.find_ordinary(bytes) != id) continue;
    symbols.clear();
    for (const char byte : bytes) {
      symbols.push_back(vocabulary.byte_token(static_cast<uint8_t>(byte)));
    }
    table.merge(symbols, scratch);
    if (symbols.size() == 2 && symbols[0] >= 0 && symbols[1] >= 0) {
      table.add(symbols[0], symbols[1], id, id);
      continue;
    }
    // A token that merging by ids reaches through one of a higher id, or never.
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const int32_t left = vocabulary.find_ordinary(bytes.substr(0, cut));
      const int32_t right = vocabulary.find_ordinary(bytes.substr(cut));
      if (left >= 0 && right >= 0) table.add(left, right, id, id);
    }
  }
  return table;
}

}  // namespace hasten::text
