// SPDX-License-Identifier: Apache-2.0
// BlockTable: the blocks that hold one sequence's keys and values in one cache group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/kv_cache/block_pool.h"

namespace hasten::engine {

/// Entry i holds positions [i * block_size, (i + 1) * block_size); -1 where the block has left the
/// window and was given back. Clearing or destroying the table gives all blocks back, the last one
/// first, so that of contents that are kept those are evicted first that build on others.
/// One thread.
class BlockTable {
 public:
  /// `pool` must outlive the table.
  BlockTable(BlockPool& pool, int64_t block_size) : pool_(&pool), block_size_(block_size) {}
  BlockTable(BlockTable&& other) noexcept
      : pool_(other.pool_),
        block_size_(other.block_size_),
        ids_(std::exchange(other.ids_, {})),
        num_held_(std::exchange(other.num_held_, 0)),
        num_released_(std::exchange(other.num_released_, 0)) {}
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  /// Grows the table until positions [0, num_tokens) have an entry. False, and nothing is changed,
  /// when the pool has not enough free blocks.
  [[nodiscard]] bool extend(int64_t num_tokens);
  /// Adds one entry with a block of its pool; without one where that is not in the window.
  void append(BlockRef block);
  /// Gives back the block of an entry for another one.
  void replace(int64_t index, BlockRef block);
  /// Gives back the blocks that lie wholly before `position`.
  void release_before(int64_t position);
  /// Gives back all blocks.
  void clear();
  /// Makes this empty table begin with positions [0, num_tokens) of `source`: whole blocks by
  /// reference; the last one, if only a part of it counts, as a new block to copy into, returned
  /// as (from, to). The pool must have a free block for that.
  [[nodiscard]] std::optional<std::pair<int32_t, int32_t>> share_prefix(const BlockTable& source,
                                                                        int64_t num_tokens);

  /// Another reference to the block of an entry.
  [[nodiscard]] BlockRef share(int64_t index) const {
    const int32_t id = ids_[static_cast<size_t>(index)];
    return id >= 0 ? pool_->refer(id) : BlockRef();
  }
  /// Whether every block with a position in [begin, end) is here.
  bool covers(int64_t begin, int64_t end) const;
  /// Blocks among the first `num_entries` entries.
  int64_t num_held(int64_t num_entries) const;
  int64_t num_held() const { return num_held_; }
  /// Blocks that nobody else references.
  int64_t num_exclusive() const;
  std::span<const int32_t> ids() const { return ids_; }

 private:
  BlockPool* pool_;
  int64_t block_size_;
  std::vector<int32_t> ids_;  // of the blocks to which the table has references
  int64_t num_held_ = 0;      // entries that are not -1
  int64_t num_released_ = 0;  // leading entries that are -1
};

}  // namespace hasten::engine
