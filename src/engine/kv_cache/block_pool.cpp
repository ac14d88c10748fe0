// SPDX-License-Identifier: Apache-2.0
// The free lists and the reference counts of a BlockPool.
#include "engine/kv_cache/block_pool.h"

#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

// How many blocks before its eviction one is fetched, and what its owner has of it: as long as a
// way to memory takes.
constexpr int64_t kFar = 16;
constexpr int64_t kNear = 8;

}  // namespace

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(id_);
}

BlockRef BlockRef::share() const { return pool_ != nullptr ? pool_->refer(id_) : BlockRef(); }

BlockPool::BlockPool(int64_t num_blocks)
    : free_(static_cast<size_t>(num_blocks)),
      blocks_(static_cast<size_t>(num_blocks)),
      queue_(std::bit_ceil(2 * static_cast<size_t>(num_blocks) + 1)) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
}

BlockRef BlockPool::allocate() {
  if (free_.empty() && !evict()) return {};
  const int32_t id = free_.back();
  free_.pop_back();
  at(id).ref_count = 1;
  return BlockRef(this, id);
}

void BlockPool::keep(int32_t id, int32_t owner) {
  HASTEN_CHECK(ref_count(id) > 0 && owner >= 0);
  at(id).owner = owner;
}

BlockRef BlockPool::share(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  if (++at(id).ref_count == 1) leave_queue(id);
  return BlockRef(this, id);
}

void BlockPool::forget(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  const int32_t owner = std::exchange(at(id).owner, -1);
  if (ref_count(id) == 0) {
    leave_queue(id);
    free_.push_back(id);
  }
  if (on_evict_) on_evict_(id, owner);
}

bool BlockPool::evict() {
  if (num_idle_ == 0) return false;
  while (true) {
    if (first_ticket_ + kFar < next_ticket_) fetch(queued(first_ticket_ + kFar));
    const int32_t id = queued(first_ticket_);
    if (at(id).ticket == first_ticket_++) {
      forget(id);
      return true;
    }
  }
}

int32_t BlockPool::owner_ahead() const {
  const int64_t ticket = first_ticket_ + kNear;
  return ticket < next_ticket_ ? at(queued(ticket)).owner : -1;
}

BlockRef BlockPool::refer(int32_t id) {
  ++at(id).ref_count;
  return BlockRef(this, id);
}

void BlockPool::release(int32_t id) {
  Block& block = at(id);
  if (--block.ref_count > 0) return;
  if (block.owner < 0) {
    free_.push_back(id);  // built with room for every block, so this never allocates
    return;
  }
  if (next_ticket_ - first_ticket_ == std::ssize(queue_)) close_gaps();
  block.ticket = next_ticket_++;
  queued(block.ticket) = id;
  ++num_idle_;
}

/// Takes a block out of the queue of those that are free with their contents kept.
void BlockPool::leave_queue(int32_t id) {
  at(id).ticket = -1;
  --num_idle_;
}

/// Hands out the tickets anew. At least half of the queue were gaps.
void BlockPool::close_gaps() {
  int64_t last = first_ticket_;
  for (int64_t ticket = first_ticket_; ticket < next_ticket_; ++ticket) {
    const int32_t id = queued(ticket);
    if (at(id).ticket != ticket) continue;
    queued(last) = id;
    at(id).ticket = last++;
  }
  next_ticket_ = last;
}

}  // namespace hasten::engine
