// SPDX-License-Identifier: Apache-2.0
// Fills merge tables from merge lists and from token ranks.
#include "text/merge_rules.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "text/merge_check.h"

namespace hasten::text {

void check_merge(std::string_view merge, size_t rank) {
  if (merge.size() > 2 * Vocabulary::kMaxTokenBytes || merge.find(' ', 1) >= merge.size() - 1) {
    fail(ErrorCode::invalid_data, "merge {} is not two pieces with a space between them: {}", rank,
         printable(merge));
  }
}

namespace {

void add_merge(std::string_view merge, size_t rank, const Vocabulary& vocabulary, MergeTable& table,
               MergeCheck& check) {
  std::string joined;
  const bool applies = cut_merge(merge, [&](std::string_view front, std::string_view back) {
    const auto left = vocabulary.find_spelling(front);
    const auto right = left ? vocabulary.find_spelling(back) : std::nullopt;
    if (!right) return false;
    joined.assign(vocabulary.bytes(*left)).append(vocabulary.bytes(*right));
    const int32_t merged = vocabulary.find_ordinary(joined);
    if (merged < 0) return false;
    table.add(*left, *right, merged, static_cast<int32_t>(rank));
    check.add_made(merged);
    return true;
  });
  if (!applies) check.add_unused(rank);
}

/// Merges of byte-level vocabularies, each with one space. A vocabulary is larger than the caches:
/// what a batch asks of it is fetched while the rest of the batch is prepared.
class MergeBatch {
 public:
  static constexpr size_t kSize = 32;

  MergeBatch(const Vocabulary& vocabulary, MergeTable& table, MergeCheck& check)
      : vocabulary_(vocabulary), table_(table), check_(check) {}

  /// False if `merge` is not of that form; otherwise it is in the table after `finish`.
  bool take(std::string_view merge, size_t rank) {
    const size_t cut = merge.find(' ');
    if (cut == 0 || merge.find(' ', cut + 1) != std::string_view::npos) return false;
    if (count_ == kSize) finish();
    Pair& pair = pairs_[count_];
    pair.bytes.clear();
    const bool has_left = append_from_gpt2_alphabet(merge.substr(0, cut), pair.bytes);
    pair.left_bytes = pair.bytes.size();
    if (!has_left || !append_from_gpt2_alphabet(merge.substr(cut + 1), pair.bytes)) {
      check_.add_unused(rank);
      return true;
    }
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
      if (left < 0 || right < 0 || merged < 0) {
        check_.add_unused(pair.rank);
        continue;
      }
      table_.add(left, right, merged, static_cast<int32_t>(pair.rank));
      check_.add_made(merged);
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
  MergeCheck& check_;
  std::array<Pair, kSize> pairs_;
  size_t count_ = 0;
};

}  // namespace

MergeTable merges_of_list(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  const std::vector<std::string>& merges = spec.merges;
  MergeTable table(merges.size(), vocabulary.seed());
  MergeCheck check(spec, vocabulary);
  MergeBatch batch(vocabulary, table, check);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    check_merge(merges[rank], rank);
    if (vocabulary.is_byte_level() && batch.take(merges[rank], rank)) continue;
    add_merge(merges[rank], rank, vocabulary, table, check);
  }
  batch.finish();
  check.finish();
  return table;
}

namespace {

// By rank, so that the table always holds what merges first; of equal ranks the shorter first,
// which may be part of the longer.
std::vector<int32_t> tokens_in_order(std::span<const int32_t> ranks, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  ids.reserve(ranks.size());
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_first_ordinary(id)) ids.push_back(id);
  }
  const auto before = [&](int32_t a, int32_t b) {
    const int32_t rank_a = ranks[static_cast<size_t>(a)];
    const int32_t rank_b = ranks[static_cast<size_t>(b)];
    return rank_a != rank_b ? rank_a < rank_b
                            : vocabulary.bytes(a).size() < vocabulary.bytes(b).size();
  };
  if (!std::is_sorted(ids.begin(), ids.end(), before)) {
    std::stable_sort(ids.begin(), ids.end(), before);
  }
  return ids;
}

}  // namespace

MergeSymbols::MergeSymbols(const Vocabulary& vocabulary, First first)
    : vocabulary_(vocabulary), first_(first) {
  if (first == First::byte) return;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view piece = vocabulary.bytes(id);
    if (!vocabulary.is_ordinary(id)) continue;
    while (!piece.empty()) {
      const std::string_view character = piece.substr(0, decode_utf8(piece).length);
      piece.remove_prefix(character.size());
      if (vocabulary.find_ordinary(character) < 0) parts_only_.emplace(character, size());
    }
  }
}

void MergeSymbols::cut(std::string_view text, std::vector<int32_t>& symbols) const {
  symbols.resize(text.size());
  size_t size = 0;
  if (first_ == First::byte) {
    for (const char byte : text) {
      symbols[size++] = vocabulary_.byte_token(static_cast<uint8_t>(byte));
    }
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t length = first_length(text.substr(at));
    symbols[size++] = find(text.substr(at, length));
    at += length;
  }
  symbols.resize(size);
}

int32_t MergeSymbols::find_part_only(std::string_view bytes) const {
  if (first_length(bytes) != bytes.size()) return -1;
  const auto found = parts_only_.find(bytes);
  return found == parts_only_.end() ? -1 : found->second;
}

namespace {

/// Finds the pairs that tokens are made of, in the order of their ranks.
class RankMerger {
 public:
  RankMerger(std::span<const int32_t> ranks, const Vocabulary& vocabulary,
             const MergeSymbols& first)
      : ranks_(ranks),
        vocabulary_(vocabulary),
        first_(first),
        table_(static_cast<size_t>(vocabulary.size()), vocabulary.seed()) {}

  void take(int32_t id) {
    const std::string_view bytes = vocabulary_.bytes(id);
    if (first_.first_length(bytes) == bytes.size()) return;
    if (count_ == kBatch) finish();
    ids_[count_] = id;
    first_.cut(bytes, words_[count_++]);
  }

  /// What has been taken is in the table.
  void finish() {
    if (count_ == 0) return;
    // Of all ranks below the batch's: what these come to does not change with it. Where the batch
    // begins with a rank that the table has, it is no such bound.
    if (rank_of(ids_[0]) > last_rank_) {
      table_.merge_each_to_pair(std::span(words_).first(count_), scratch_);
    }
    for (size_t i = 0; i < count_; ++i) {
      if (is_pair(words_[i])) table_.prefetch(words_[i][0], words_[i][1]);
    }
    for (size_t i = 0; i < count_; ++i) add(ids_[i], words_[i]);
    last_rank_ = rank_of(ids_[count_ - 1]);
    count_ = 0;
  }

  MergeTable table() && { return std::move(table_); }

 private:
  static constexpr size_t kBatch = 32;

  int32_t rank_of(int32_t id) const { return ranks_[static_cast<size_t>(id)]; }
  static bool is_pair(const std::vector<int32_t>& symbols) {
    return symbols.size() == 2 && symbols[0] >= 0 && symbols[1] >= 0;
  }

  // With the pairs of all lower ranks a token's bytes join to the two symbols that it is made of:
  // any other two are never neighbours, since nothing but the token's own bytes decides what its
  // inside becomes. (A pair across its ends would have taken some of those bytes away.)
  void add(int32_t id, std::vector<int32_t>& symbols) {
    const int32_t rank = rank_of(id);
    // The batch has added pairs. Two symbols do not join: that would be another token of the same
    // bytes.
    if (symbols.size() > 2) table_.merge(symbols, scratch_);
    if (is_pair(symbols)) {
      table_.add(symbols[0], symbols[1], id, rank);
      return;
    }
    // A token that merging reaches through one of a higher rank, or never.
    const std::string_view bytes = vocabulary_.bytes(id);
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const int32_t left = first_.find(bytes.substr(0, cut));
      const int32_t right = first_.find(bytes.substr(cut));
      if (left >= 0 && right >= 0) table_.add(left, right, id, rank);
    }
  }

  std::span<const int32_t> ranks_;
  const Vocabulary& vocabulary_;
  const MergeSymbols& first_;
  MergeTable table_;
  MergeTable::Scratch scratch_;
  std::array<int32_t, kBatch> ids_{};
  std::array<std::vector<int32_t>, kBatch> words_;  // the symbols of each
  size_t count_ = 0;
  int32_t last_rank_ = -1;  // in the table
};

}  // namespace

MergeTable merges_of_ranks(std::span<const int32_t> ranks, const Vocabulary& vocabulary,
                           const MergeSymbols& first) {
  HASTEN_CHECK(ranks.size() == static_cast<size_t>(vocabulary.size()));
  RankMerger merger(ranks, vocabulary, first);
  for (const int32_t id : tokens_in_order(ranks, vocabulary)) merger.take(id);
  merger.finish();
  return std::move(merger).table();
}

}  // namespace hasten::text
