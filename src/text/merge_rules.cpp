// SPDX-License-Identifier: Apache-2.0
// Fills merge tables from merge lists and from token ranks.
#include "text/merge_rules.h"

#include <array>

#include "base/error.h"
#include "base/printable.h"

namespace hasten::text {

namespace {

void check_merge(std::string_view merge, size_t rank) {
  if (merge.size() > 2 * Vocabulary::kMaxTokenBytes || merge.find(' ', 1) >= merge.size() - 1) {
    fail(ErrorCode::invalid_data, "merge {} is not two pieces with a space between them: {}", rank,
         printable(merge));
  }
}

// Pieces may hold spaces themselves: the first cut that makes sense of the line is meant.
void add_merge(std::string_view merge, size_t rank, const Vocabulary& vocabulary,
               MergeTable& table) {
  std::string joined;
  for (size_t cut = merge.find(' ', 1); cut < merge.size() - 1; cut = merge.find(' ', cut + 1)) {
    const auto left = vocabulary.find_spelling(merge.substr(0, cut));
    const auto right = vocabulary.find_spelling(merge.substr(cut + 1));
    if (!left || !right) continue;
    joined.assign(vocabulary.bytes(*left)).append(vocabulary.bytes(*right));
    const int32_t merged = vocabulary.find_ordinary(joined);
    if (merged < 0) continue;
    table.add(*left, *right, merged, static_cast<int32_t>(rank));
    return;
  }
}

/// Merges of byte-level vocabularies, each with one space. A vocabulary is larger than the caches:
/// what a batch asks of it is fetched while the rest of the batch is prepared.
class MergeBatch {
 public:
  static constexpr size_t kSize = 32;

  MergeBatch(const Vocabulary& vocabulary, MergeTable& table)
      : vocabulary_(vocabulary), table_(table) {}

  /// False if `merge` is not of that form; otherwise it is in the table after `finish`.
  bool take(std::string_view merge, size_t rank) {
    const size_t cut = merge.find(' ');
    if (cut == 0 || merge.find(' ', cut + 1) != std::string_view::npos) return false;
    if (count_ == kSize) finish();
    Pair& pair = pairs_[count_];
    const auto left = from_gpt2_alphabet(merge.substr(0, cut));
    const auto right = from_gpt2_alphabet(merge.substr(cut + 1));
    if (!left || !right) return true;  // names no piece of the vocabulary: it never applies
    pair.bytes.assign(*left).append(*right);
    pair.left_bytes = left->size();
    pair.rank = rank;
    const std::string_view bytes = pair.bytes;
    const std::array parts = {bytes.substr(0, pair.left_bytes), bytes.substr(pair.left_bytes),
                              bytes};
    for (size_t i = 0; i < parts.size(); ++i) {
      pair.hashes[i] = vocabulary_.hash(parts[i]);
      vocabulary_.prefetch(pair.hashes[i]);
    }
    ++count_;
    return true;
  }

  void finish() {
    for (size_t i = 0; i < count_; ++i) {
      const Pair& pair = pairs_[i];
      const std::string_view bytes = pair.bytes;
      const int32_t left =
          vocabulary_.find_ordinary(bytes.substr(0, pair.left_bytes), pair.hashes[0]);
      const int32_t right =
          vocabulary_.find_ordinary(bytes.substr(pair.left_bytes), pair.hashes[1]);
      const int32_t merged = vocabulary_.find_ordinary(bytes, pair.hashes[2]);
      if (left < 0 || right < 0 || merged < 0) continue;
      table_.add(left, right, merged, static_cast<int32_t>(pair.rank));
    }
    count_ = 0;
  }

 private:
  struct Pair {
    std::string bytes;
    size_t left_bytes = 0;
    size_t rank = 0;
    std::array<uint64_t, 3> hashes{};  // of the left piece, the right one, both together
  };
  const Vocabulary& vocabulary_;
  MergeTable& table_;
  std::array<Pair, kSize> pairs_;
  size_t count_ = 0;
};

}  // namespace

MergeTable merges_of_list(const std::vector<std::string>& merges, const Vocabulary& vocabulary) {
  MergeTable table(merges.size(), vocabulary.seed());
  MergeBatch batch(vocabulary, table);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    check_merge(merges[rank], rank);
    if (vocabulary.is_byte_level() && batch.take(merges[rank], rank)) continue;
    add_merge(merges[rank], rank, vocabulary, table);
  }
  batch.finish();
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
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (vocabulary.find_ordinary(bytes) != id) continue;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const int32_t left = symbol_of(bytes.substr(0, cut));
      if (left < 0) continue;
      const int32_t right = symbol_of(bytes.substr(cut));
      if (right >= 0) rules.push_back({left, right, id});
    }
  }
  MergeTable table(rules.size(), vocabulary.seed());
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
