// SPDX-License-Identifier: Apache-2.0
// The free lists and the reference counts of a BlockPool.
#include "engine/kv_cache/block_pool.h"

#include <numeric>
#include <utility>

#include "base/error.h"

namespace hasten::engine {

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(id_);
}

BlockRef BlockRef::share() const {
  if (pool_ != nullptr) ++pool_->at(id_).ref_count;
  return BlockRef(pool_, id_);
}

BlockPool::BlockPool(int64_t num_blocks)
    : free_(static_cast<size_t>(num_blocks)), blocks_(static_cast<size_t>(num_blocks) + 1) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
  const auto end = static_cast<int32_t>(num_blocks);
  at(end).previous = at(end).next = end;
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
  if (++at(id).ref_count == 1) unlink(id);
  return BlockRef(this, id);
}

void BlockPool::forget(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  const int32_t owner = std::exchange(at(id).owner, -1);
  if (ref_count(id) == 0) {
    unlink(id);
    free_.push_back(id);
  }
  if (on_evict_) on_evict_(id, owner);
}

bool BlockPool::evict() {
  if (num_idle_ == 0) return false;
  forget(blocks_.back().next);
  return true;
}

std::pair<int32_t, int32_t> BlockPool::next_owners() const {
  const Block& first = at(blocks_.back().next);  // the ring's end has no owner
  const Block& second = at(first.next);
  __builtin_prefetch(&at(second.next));
  return {first.owner, second.owner};
}

void BlockPool::release(int32_t id) {
  Block& block = at(id);
  if (--block.ref_count > 0) return;
  if (block.owner < 0) {
    free_.push_back(id);  // built with room for every block, so this never allocates
    return;
  }
  Block& end = blocks_.back();
  block.previous = end.previous;
  block.next = static_cast<int32_t>(num_blocks());
  at(end.previous).next = id;
  end.previous = id;
  ++num_idle_;
}

/// Takes a block off the list of those that are free with their contents kept.
void BlockPool::unlink(int32_t id) {
  const Block& block = at(id);
  at(block.previous).next = block.next;
  at(block.next).previous = block.previous;
  --num_idle_;
}

}  // namespace hasten::engine
