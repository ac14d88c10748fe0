// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: which neighbours join, and joining them in near-linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hasten::text {

/// The pairs of symbols that join, each with a rank; the lowest rank joins first, and of equals
/// the leftmost (Sennrich et al. 2016, arXiv:1508.07909). Symbols are numbers from 0; a negative
/// one joins with nothing. Const once filled: any thread.
class MergeTable {
 public:
  /// Memory that one call of merge leaves for the next. One thread at a time.
  class Scratch {
    friend class MergeTable;
    struct Node {
      int32_t symbol;
      int32_t previous;  // index, or -1
      int32_t next;
    };
    struct Candidate {
      int32_t rank;
      int32_t left;         // index
      int32_t left_symbol;  // what stood there: out of date if it no longer does
      int32_t right_symbol;
      int32_t merged;
    };
    std::vector<Node> nodes_;
    std::vector<Candidate> heap_;
  };

  /// A table for at most `num_pairs` pairs; `seed` should depend on what is added, so that no file
  /// can aim its pairs at one slot.
  explicit MergeTable(size_t num_pairs, uint64_t seed);

  /// `left` and `right` join to `merged`. A pair that is present keeps its lower rank.
  void add(int32_t left, int32_t right, int32_t merged, int32_t rank);

  /// Joins neighbours in `symbols` until no pair of the table is left. O(n log n).
  void merge(std::vector<int32_t>& symbols, Scratch& scratch) const;

 private:
  struct Entry {
    uint64_t pair = kNoPair;
    int32_t rank = 0;
    int32_t merged = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  size_t slot_of(uint64_t pair) const;
  const Entry* find(int32_t left, int32_t right) const;
  void consider(int32_t left, Scratch& scratch) const;
  void merge_short(std::vector<int32_t>& symbols) const;

  std::vector<Entry> slots_;  // open addressing, a power of two, at most half full
  uint64_t seed_;
};

}  // namespace hasten::text
