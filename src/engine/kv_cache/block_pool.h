// SPDX-License-Identifier: Apache-2.0
// BlockPool counts the cache blocks of one group; BlockRef owns a share of one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hasten::engine {

class BlockPool;

/// One reference to a block, given back when it goes. Must not outlive its pool.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, -1)) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~BlockRef();

  /// Another reference to the same block.
  [[nodiscard]] BlockRef share() const;
  explicit operator bool() const { return pool_ != nullptr; }
  int32_t id() const { return id_; }  // -1: no block

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, int32_t id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  int32_t id_ = -1;
};

/// Which blocks of a cache group are free and how often each of the others is referenced. Holds no
/// tensor. Invariant: a block is on the free list exactly when its count is zero. Every operation
/// takes constant time and allocates nothing. One thread.
class BlockPool {
 public:
  /// All of `num_blocks` blocks, with ids from 0, are free.
  explicit BlockPool(int64_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block that nobody else references, or an empty reference when none is free.
  [[nodiscard]] BlockRef allocate();

  int64_t num_blocks() const { return static_cast<int64_t>(ref_counts_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int32_t ref_count(int32_t id) const { return ref_counts_[static_cast<size_t>(id)]; }

 private:
  friend class BlockRef;
  void release(int32_t id);

  std::vector<int32_t> free_;        // ids; the last one goes next
  std::vector<int32_t> ref_counts_;  // by id
};

}  // namespace hasten::engine
