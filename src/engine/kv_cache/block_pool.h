// SPDX-License-Identifier: Apache-2.0
// BlockPool counts the cache blocks of one group; BlockRef owns a share of one of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "base/prefetch.h"

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

/// References to blocks along a path of the prefix tree, the first block's first. They are given
/// back from the last one on, so that leaves are evicted before what they build on; which end a
/// vector begins with when it goes is for the library to say.
class PathRefs {
 public:
  PathRefs() = default;
  PathRefs(PathRefs&&) = default;
  PathRefs& operator=(PathRefs&&) = delete;
  ~PathRefs() {
    while (!refs_.empty()) refs_.pop_back();
  }
  void add(BlockRef ref) { refs_.push_back(std::move(ref)); }

 private:
  std::vector<BlockRef> refs_;
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
/// or on the list of those that are held.
///
/// Kept contents belong to a tenant, a small number. Of a tenant that has more of them than its
/// share those that have been free for longest go first, before anybody else's; of several such
/// tenants those of the one that has most. So nobody pushes the others out, and yet anybody may
/// have all that the others leave.
///
/// Every operation takes constant time, release on average, and evict the longer, the more tenants
/// have more than their share, of whom there are less than 1 / share; but the first keep for a
/// tenant other than 0 goes through all that is idle. None allocates but the first hold, and the
/// first keep for a tenant. One thread.
class BlockPool {
 public:
  /// All of `num_blocks` blocks, with ids from 0, are free. `tenant_share`, of the blocks, is what
  /// each tenant's kept ones may be before they go first; 1: tenants make no difference. Tickets
  /// (see state_with) begin with `first_ticket`, which tests want to be large.
  explicit BlockPool(int64_t num_blocks, double tenant_share = 1, int64_t first_ticket = 0);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block that nobody else references, or an empty reference when none is free. Evicts only when
  /// the contents of all free blocks are kept.
  [[nodiscard]] BlockRef allocate();
  /// Fills `ids` with such blocks. The caller owes the pool a `release` of each. There must be as
  /// many free ones.
  void allocate(std::span<int32_t> ids);

  /// Keeps the contents, not kept so far, of a referenced block when its last reference goes.
  /// `owner`, at least 0, is for whoever wants to know which those were when they are evicted.
  /// `tenant`, whose they are, is one of the first numbers from 0 on. As long as there is none but
  /// 0, tenants are only counted.
  void keep(int32_t id, int32_t owner, int32_t tenant = 0);
  bool is_kept(int32_t id) const { return at(id).owner >= 0; }
  /// A reference to a block whose contents are kept.
  [[nodiscard]] BlockRef share(int32_t id);
  /// Keeps the contents of a block no longer.
  void forget(int32_t id);
  /// Frees of its contents the block that has been without a reference for longest, of those that
  /// are held only where there are no others, and of the rest first those of tenants above their
  /// share. False when every free block is so already.
  bool evict();
  /// The same to that which has been without a reference for the shortest time, whosever it is, and
  /// of those that are held to any.
  bool evict_newest();
  /// A hold on the contents, which are kept, of a block. When the last hold on it goes, and nobody
  /// references it, the block is as one that was given back just then.
  [[nodiscard]] BlockHold hold(int32_t id);
  /// Whether there is a hold on the contents of a block.
  bool is_held(int32_t id) const {
    return num_held_ > 0 && held_[static_cast<size_t>(id)].count > 0;
  }
  /// Blocks whose contents are held.
  int64_t num_held() const { return num_held_; }
  /// Whether a tenant may have one more of them: no more than its share, as they go last.
  bool may_hold(int32_t tenant) const { return at_tenant(tenant).num_held < share_; }
  /// Those of the free blocks whose contents are held.
  int64_t num_idle_held() const { return num_idle_held_; }
  /// Called with the id and the owner of each block whose contents are no longer kept.
  void on_evict(std::function<void(int32_t, int32_t)> listener) { on_evict_ = std::move(listener); }
  /// Called with each tenant of which nothing is kept any more.
  void on_last_of(std::function<void(int32_t)> listener) { on_last_of_ = std::move(listener); }
  /// The owner of a block that will be evicted soon, -1 for none; for fetching ahead.
  int32_t owner_ahead() const;

  /// Another reference to a block that has one.
  [[nodiscard]] BlockRef refer(int32_t id);
  /// Gives a detached reference back.
  void release(int32_t id);
  /// Begins to bring what there is to know of a block into the caches.
  void fetch(int32_t id) const {
    prefetch(&at(id));
    if (!links_.empty()) prefetch(&link(id));
  }

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()) + num_idle_; }
  /// Those of the free blocks whose contents are kept.
  int64_t num_idle() const { return num_idle_; }
  int32_t ref_count(int32_t id) const { return std::max(at(id).state, 0); }
  /// Whether it makes a difference which tenant a block is kept for.
  bool has_shares() const { return has_shares_; }
  /// Where it does, blocks whose contents are kept for a tenant, free or not.
  int64_t num_kept(int32_t tenant) const {
    return static_cast<size_t>(tenant) < tenants_.size() ? at_tenant(tenant).num_kept : 0;
  }
  /// Likewise, for whom the contents of a block are kept, or were last.
  int32_t tenant_of(int32_t id) const { return links_.empty() ? 0 : link(id).tenant; }

 private:
  friend class BlockRef;
  friend class BlockHold;
  // All that there is to know of a block lies together, and is small: by the time that one is
  // wanted again, it has left the processor's own caches, but a table of all should not leave the
  // next one.
  struct Block {
    int32_t state = 0;   // above 0: references; below: place in the queue; 0: neither
    int32_t owner = -1;  // of its contents; -1: they are not kept
  };

  struct Held {
    int32_t count = 0;     // holds
    uint32_t era = 0;      // of the block's contents: how often it has lost them
    int32_t previous = 0;  // of the free ones that are held
    int32_t next = 0;
  };

  /// A block's place among the idle ones of its tenant that are not held.
  struct Link {
    int32_t previous = -1;  // -1: it is the first, or not there
    int32_t next = -1;
    int32_t tenant = 0;
  };

  struct Tenant {
    int64_t num_kept = 0;
    int64_t num_held = 0;  // of them, where there are no shares, too: then all are tenant 0's
    int32_t first = -1;    // of its idle blocks that are not held, in order of their tickets
    int32_t last = -1;
  };

  void let_go(int32_t id, uint32_t era);
  void count_held(int32_t id, int64_t change);
  void make_idle(int32_t id);
  void end_idle(int32_t id);
  void close_gaps();
  void count(int32_t id, int32_t tenant);
  int32_t uncount(int32_t id);
  void tell_tenants_apart();
  void add_last(int32_t id);
  void take_out(int32_t id);
  int32_t first_above_share() const;
  Held& held(int32_t id) { return held_[static_cast<size_t>(id)]; }
  /// The state of a block with that ticket: its lower bits tell it from all others in the queue.
  static int32_t state_with(int64_t ticket) { return ~static_cast<int32_t>(ticket & INT32_MAX); }
  /// How many tickets there are before that of a block in the queue.
  int64_t num_before(int32_t id) const { return (~at(id).state - first_ticket_) & INT32_MAX; }
  int32_t& queued(int64_t ticket) {
    return queue_[static_cast<size_t>(ticket) & (queue_.size() - 1)];
  }
  int32_t queued(int64_t ticket) const {
    return queue_[static_cast<size_t>(ticket) & (queue_.size() - 1)];
  }
  Link& link(int32_t id) { return links_[static_cast<size_t>(id)]; }
  const Link& link(int32_t id) const { return links_[static_cast<size_t>(id)]; }
  Tenant& at_tenant(int32_t tenant) { return tenants_[static_cast<size_t>(tenant)]; }
  const Tenant& at_tenant(int32_t tenant) const { return tenants_[static_cast<size_t>(tenant)]; }
  Block& at(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& at(int32_t id) const { return blocks_[static_cast<size_t>(id)]; }

  HugeVector<int32_t> free_;  // ids; the last one goes next
  HugeVector<Block> blocks_;  // by id
  // The free ones whose contents are kept, those first that have been free for longest (least
  // recently used): the ids of tickets [first_ticket_, next_ticket_). Who leaves the queue leaves a
  // gap, an id that has another ticket. A list in order of memory, unlike one of links, tells far
  // ahead what will be evicted.
  HugeVector<int32_t> queue_;
  int64_t first_ticket_;
  int64_t next_ticket_;
  int64_t num_idle_ = 0;
  // By id, and one entry more, where the ring of the free ones that are held begins and ends, those
  // first that have been free for longest. Empty before the first hold.
  std::vector<Held> held_;
  int64_t num_held_ = 0;
  int64_t num_idle_held_ = 0;
  const bool has_shares_;
  const int64_t share_;          // blocks that are kept for a tenant before its own go first
  std::vector<Tenant> tenants_;  // by number
  std::vector<int32_t> above_;   // numbers of those that have more than their share
  // By id. Empty as long as all contents are those of tenant 0: then their order is the queue's.
  HugeVector<Link> links_;
  std::function<void(int32_t, int32_t)> on_evict_;
  std::function<void(int32_t)> on_last_of_;
};

}  // namespace hasten::engine
