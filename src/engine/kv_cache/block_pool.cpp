// SPDX-License-Identifier: Apache-2.0
// The free list and the reference counts of a BlockPool.
#include "engine/kv_cache/block_pool.h"

#include <numeric>

namespace hasten::engine {

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(id_);
}

BlockRef BlockRef::share() const {
  if (pool_ != nullptr) ++pool_->ref_counts_[static_cast<size_t>(id_)];
  return BlockRef(pool_, id_);
}

BlockPool::BlockPool(int64_t num_blocks)
    : free_(static_cast<size_t>(num_blocks)), ref_counts_(static_cast<size_t>(num_blocks), 0) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
}

BlockRef BlockPool::allocate() {
  if (free_.empty()) return {};
  const int32_t id = free_.back();
  free_.pop_back();
  ref_counts_[static_cast<size_t>(id)] = 1;
  return BlockRef(this, id);
}

void BlockPool::release(int32_t id) {
  // free_ was built with room for every block, so this never allocates.
  if (--ref_counts_[static_cast<size_t>(id)] == 0) free_.push_back(id);
}

}  // namespace hasten::engine
