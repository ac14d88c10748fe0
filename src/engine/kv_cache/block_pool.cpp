// SPDX-License-Identifier: Apache-2.0
// The free lists and the reference counts of a BlockPool.
#include "engine/kv_cache/block_pool.h"

#include <numeric>

#include "base/error.h"

namespace hasten::engine {

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(id_);
}

BlockRef BlockRef::share() const {
  if (pool_ != nullptr) ++pool_->ref_counts_[static_cast<size_t>(id_)];
  return BlockRef(pool_, id_);
}

BlockPool::BlockPool(int64_t num_blocks)
    : free_(static_cast<size_t>(num_blocks)),
      ref_counts_(static_cast<size_t>(num_blocks), 0),
      kept_(static_cast<size_t>(num_blocks), 0),
      links_(static_cast<size_t>(num_blocks) + 1) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
  const auto end = static_cast<int32_t>(num_blocks);
  link(end) = {.previous = end, .next = end};
}

BlockRef BlockPool::allocate() {
  if (free_.empty() && !evict()) return {};
  const int32_t id = free_.back();
  free_.pop_back();
  ref_counts_[static_cast<size_t>(id)] = 1;
  return BlockRef(this, id);
}

void BlockPool::keep(int32_t id) {
  HASTEN_CHECK(ref_count(id) > 0);
  kept_[static_cast<size_t>(id)] = 1;
}

BlockRef BlockPool::share(int32_t id) {
  HASTEN_CHECK(is_kept(id));
  if (++ref_counts_[static_cast<size_t>(id)] == 1) unlink(id);
  return BlockRef(this, id);
}

bool BlockPool::evict() {
  if (num_idle_ == 0) return false;
  const int32_t id = links_.back().next;
  unlink(id);
  kept_[static_cast<size_t>(id)] = 0;
  free_.push_back(id);
  if (on_evict_) on_evict_(id);
  return true;
}

void BlockPool::release(int32_t id) {
  if (--ref_counts_[static_cast<size_t>(id)] > 0) return;
  if (!is_kept(id)) {
    free_.push_back(id);  // built with room for every block, so this never allocates
    return;
  }
  const auto end = static_cast<int32_t>(num_blocks());
  const int32_t last = link(end).previous;
  link(id) = {.previous = last, .next = end};
  link(last).next = id;
  link(end).previous = id;
  ++num_idle_;
}

/// Takes a block off the list of those that are free with their contents kept.
void BlockPool::unlink(int32_t id) {
  const Link at = link(id);
  link(at.previous).next = at.next;
  link(at.next).previous = at.previous;
  --num_idle_;
}

}  // namespace hasten::engine
