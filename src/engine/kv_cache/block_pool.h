// SPDX-License-Identifier: Apache-2.0
// BlockPool counts the cache blocks of one group; BlockRef owns a share of one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/huge_pages.h"

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
  /// Leaves the reference to the caller, who owes its pool a `release` of the id returned.
  [[nodiscard]] int32_t detach() {
    pool_ = nullptr;
    return std::exchange(id_, -1);
  }
  explicit operator bool() const { return pool_ != nullptr; }
  int32_t id() const { return id_; }  // -1: no block

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, int32_t id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  int32_t id_ = -1;
};

/// Keeps the contents of a block from being evicted for as long as there are others to evict. The
/// block is as free as without; whoever takes free blocks may ask how many of them are held. Must
/// not outlive its pool.
class BlockHold {
 public:
  BlockHold() = default;
  BlockHold(BlockHold&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_), era_(other.era_) {}
  BlockHold& operator=(BlockHold&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    std::swap(era_, other.era_);
    return *this;
  }
  ~BlockHold();

 private:
  friend class BlockPool;
  BlockHold(BlockPool* pool, int32_t id, uint32_t era) : pool_(pool), id_(id), era_(era) {}

  BlockPool* pool_ = nullptr;
  int32_t id_ = -1;
  uint32_t era_ = 0;  // of the block's contents
};

/// Which blocks of a cache group are free and how often each of the others is referenced. Holds no
/// tensor. A free block whose contents are kept may be taken up again with them, until it is
/// evicted to be used for something else. Invariant: a block is free exactly when its count is
/// zero, and then it is on the free list, or, if its contents are kept, in the queue of those,
/// or on the list of those that are held. Every operation takes constant time, release on average,
/// and none but the first hold allocates. One thread.
class BlockPool {
 public:
  /// All of `num_blocks` blocks, with ids from 0, are free.
  explicit BlockPool(int64_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block that nobody else references, or an empty reference when none is free. Evicts only when
  /// the contents of all free blocks are kept.
  [[nodiscard]] BlockRef allocate();

  /// Keeps the contents of a referenced block when its last reference goes. `owner`, at least 0, is
  /// for whoever wants to know which those were when they are evicted.
  void keep(int32_t id, int32_t owner);
  bool is_kept(int32_t id) const { return at(id).owner >= 0; }
  /// A reference to a block whose contents are kept.
  [[nodiscard]] BlockRef share(int32_t id);
  /// Keeps the contents of a block no longer.
  void forget(int32_t id);
  /// Frees of its contents the block that has been without a reference for longest, of those that
  /// are held only where there are no others. False when every free block is so already.
  bool evict();
  /// A hold on the contents, which are kept, of a block. When the last hold on it goes, and nobody
  /// references it, the block is as one that was given back just then.
  [[nodiscard]] BlockHold hold(int32_t id);
  /// Whether there is a hold on the contents of a block.
  bool is_held(int32_t id) const {
    return num_held_ > 0 && held_[static_cast<size_t>(id)].count > 0;
  }
  /// Blocks whose contents are held.
  int64_t num_held() const { return num_held_; }
  /// Those of the free blocks whose contents are held.
  int64_t num_idle_held() const { return num_idle_held_; }
  /// Called with the id and the owner of each block whose contents are no longer kept.
  void on_evict(std::function<void(int32_t, int32_t)> listener) { on_evict_ = std::move(listener); }
  /// The owner of a block that will be evicted soon, -1 for none; for fetching ahead.
  int32_t owner_ahead() const;

  /// Another reference to a block that has one.
  [[nodiscard]] BlockRef refer(int32_t id);
  /// Gives a detached reference back.
  void release(int32_t id);
  /// Begins to bring what there is to know of a block into the caches.
  void fetch(int32_t id) const { __builtin_prefetch(&at(id)); }

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()) + num_idle_; }
  /// Those of the free blocks whose contents are kept.
  int64_t num_idle() const { return num_idle_; }
  int32_t ref_count(int32_t id) const { return at(id).ref_count; }

 private:
  friend class BlockRef;
  friend class BlockHold;
  // All that there is to know of a block lies together: by the time that one is wanted again, it
  // has long left the caches.
  struct Block {
    int32_t ref_count = 0;
    int32_t owner = -1;   // of its contents; -1: they are not kept
    int64_t ticket = -1;  // its place in the queue; -1: it is not there
  };

  struct Held {
    int32_t count = 0;     // holds
    uint32_t era = 0;      // of the block's contents: how often it has lost them
    int32_t previous = 0;  // of the free ones that are held
    int32_t next = 0;
  };

  void let_go(int32_t id, uint32_t era);
  void make_idle(int32_t id);
  void end_idle(int32_t id);
  void close_gaps();
  Held& held(int32_t id) { return held_[static_cast<size_t>(id)]; }
  int32_t& queued(int64_t ticket) {
    return queue_[static_cast<size_t>(ticket) & (queue_.size() - 1)];
  }
  int32_t queued(int64_t ticket) const {
    return queue_[static_cast<size_t>(ticket) & (queue_.size() - 1)];
  }
  Block& at(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& at(int32_t id) const { return blocks_[static_cast<size_t>(id)]; }

  HugeVector<int32_t> free_;  // ids; the last one goes next
  HugeVector<Block> blocks_;  // by id
  // The free ones whose contents are kept, those first that have been free for longest (least
  // recently used): the ids of tickets [first_ticket_, next_ticket_). Who leaves the queue leaves a
  // gap, an id that has another ticket. A list in order of memory, unlike one of links, tells far
  // ahead what will be evicted.
  HugeVector<int32_t> queue_;
  int64_t first_ticket_ = 0;
  int64_t next_ticket_ = 0;
  int64_t num_idle_ = 0;
  // By id, and one entry more, where the ring of the free ones that are held begins and ends, those
  // first that have been free for longest. Empty before the first hold.
  std::vector<Held> held_;
  int64_t num_held_ = 0;
  int64_t num_idle_held_ = 0;
  std::function<void(int32_t, int32_t)> on_evict_;
};

}  // namespace hasten::engine
