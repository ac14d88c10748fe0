// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: which neighbours join, and joining them in near-linear time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace hasten::text {

/// The pairs of symbols that join, each with a rank; the lowest rank joins first, and of equals
/// the leftmost (Sennrich et al. 2016, arXiv:1508.07909). Symbols are numbers from 0; a negative
/// one joins with nothing. Const once filled: any thread.
class MergeTable {
  static constexpr int32_t kNoRank = INT32_MAX;

 public:
  /// Memory that one call of merge leaves for the next. One thread at a time.
  class Scratch {
    friend class MergeTable;
    struct Node {
      int32_t symbol;    // -1: joined to its left neighbour, or joins with nothing
      int32_t previous;  // index, or -1
      int32_t next;
    };
    /// A pair that had this rank when it was seen.
    struct Candidate {
      int32_t rank;
      int32_t left;                                        // index
      auto operator<=>(const Candidate&) const = default;  // the lowest rank, then the leftmost
    };
    /// What joins a symbol and the next one.
    struct Join {
      int32_t rank = kNoRank;  // kNoRank: nothing
      int32_t merged = -1;
    };
    std::vector<Join> joins_;
    std::vector<Node> nodes_;
    std::vector<Candidate> heap_;
    // The left nodes of the candidates of one rank each; the first num_rounds_ serve.
    std::vector<std::vector<int32_t>> rounds_;
    size_t num_rounds_ = 0;
    std::vector<int32_t> round_of_rank_;  // [highest rank + 1 or more]; -1: none
    std::vector<int32_t> ranks_;          // a heap of those with a round, the lowest first
    std::vector<int32_t> grown_;
  };

  /// An empty table with room for `num_pairs` pairs; it grows where need be. `seed` should depend
  /// on what is added, so that no file can aim its pairs at one slot.
  explicit MergeTable(size_t num_pairs, uint64_t seed);

  /// `left` and `right` join to `merged`. A pair that is present keeps its lower rank.
  void add(int32_t left, int32_t right, int32_t merged, int32_t rank);

  /// Joins neighbours in `symbols` until no pair of the table is left. O(n log n). Throws
  /// Error{invalid_argument} for 2^31 - 1 symbols or more.
  void merge(std::vector<int32_t>& symbols, Scratch& scratch) const;
  /// The same for each of `words`, until two symbols are left: a word that is to be added joins no
  /// further. Faster where they are short: what one waits for in memory, since a table is larger
  /// than the caches, the others wait for at the same time.
  void merge_each_to_pair(std::span<std::vector<int32_t>> words, Scratch& scratch) const;
  /// Fetches the place of a pair, so that to add it need not wait.
  void prefetch(int32_t left, int32_t right) const { prefetch(hash(pair_of(left, right))); }

 private:
  struct Entry {
    uint64_t pair = kNoPair;
    int32_t rank = 0;
    int32_t merged = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  struct ShortWord;
  static uint64_t key_of(int32_t rank, size_t place) {
    return uint64_t{static_cast<uint32_t>(rank)} << 32 | place;
  }

  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  void make_room(size_t num_pairs);
  // Both ends serve: the slot is of the low bits, the place in the filter of the high ones.
  uint64_t hash(uint64_t pair) const {
    const uint64_t mixed = (pair ^ seed_) * 0x9E3779B97F4A7C15ULL;
    return (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93ULL;
  }
  size_t slot_of(uint64_t pair, uint64_t hash) const;
  void set_filter(uint64_t hash) {
    filter_[(hash >> 32) & (filter_.size() - 1)] |= uint64_t{1} << (hash >> 58);
  }
  // False: no pair of this hash is in the table.
  bool may_have(uint64_t hash) const {
    return (filter_[(hash >> 32) & (filter_.size() - 1)] >> (hash >> 58) & 1) != 0;
  }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
  const Entry* find(int32_t left, int32_t right) const;
  const Entry* pair_at(int32_t left, const Scratch& scratch) const;
  const Entry* join(Scratch::Candidate candidate, Scratch& scratch) const;
  void begin(std::vector<int32_t>& symbols, ShortWord& word) const;
  void ask(ShortWord& word, size_t place, size_t next) const;
  bool join_lowest(ShortWord& word, size_t min_left) const;
  static void finish(const ShortWord& word, std::vector<int32_t>& symbols);
  void merge_by_scan(std::vector<int32_t>& symbols) const;
  bool follows_its_parts(const Scratch::Join& join) const;
  bool merge_by_passes(std::vector<int32_t>& symbols, Scratch& scratch) const;
  void add_to_heap(int32_t left, int32_t max_rank, Scratch& scratch) const;
  template <class Joined>
  void join_heap(int32_t max_rank, Scratch& scratch, const Joined& joined) const;
  void merge_by_heap(Scratch& scratch) const;
  void merge_by_rounds(Scratch& scratch) const;
  void add_to_round(int32_t left, Scratch& scratch) const;

  size_t num_pairs_ = 0;
  int32_t max_rank_ = 0;
  std::vector<Entry> slots_;      // open addressing, a power of two, at most 3/4 full
  std::vector<uint64_t> filter_;  // a bit for each of many hashes: most pairs are in no rule
  uint64_t seed_;
  // Of each two of the first symbols, which nearly always are the bytes.
  static constexpr int32_t kNumDirect = 256;
  std::vector<Scratch::Join> direct_;
  static size_t direct_index(int32_t left, int32_t right) {
    return static_cast<size_t>(left) * kNumDirect + static_cast<size_t>(right);
  }
  // Of each symbol: the highest rank that makes it, and the lowest that joins it to another.
  struct Ranks {
    int32_t made = -1;
    int32_t joined = INT32_MAX;
  };
  std::vector<Ranks> ranks_;
};

}  // namespace hasten::text
