// SPDX-License-Identifier: Apache-2.0
// Growing, sharing and releasing the blocks of one sequence.
#include "engine/kv_cache/block_table.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::engine {

bool BlockTable::extend(int64_t num_tokens) {
  const int64_t missing = ceil_div(num_tokens, block_size_) - static_cast<int64_t>(ids_.size());
  if (missing > pool_->num_free()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    blocks_.push_back(pool_->allocate());
    ids_.push_back(blocks_.back().id());
    ++num_held_;
  }
  return true;
}

void BlockTable::release_before(int64_t position) {
  const int64_t end = std::min(position / block_size_, static_cast<int64_t>(ids_.size()));
  for (; num_released_ < end; ++num_released_) {
    const auto entry = static_cast<size_t>(num_released_);
    if (ids_[entry] < 0) continue;
    blocks_[entry] = BlockRef();
    ids_[entry] = -1;
    --num_held_;
  }
}

std::optional<std::pair<int32_t, int32_t>> BlockTable::share_prefix(const BlockTable& source,
                                                                    int64_t num_tokens) {
  HASTEN_CHECK(ids_.empty() && source.pool_ == pool_);
  const auto num_whole = static_cast<size_t>(num_tokens / block_size_);
  HASTEN_CHECK(ceil_div(num_tokens, block_size_) <= static_cast<int64_t>(source.ids_.size()));
  for (size_t i = 0; i < num_whole; ++i) {
    blocks_.push_back(source.blocks_[i].share());
    ids_.push_back(blocks_.back().id());
    if (blocks_.back()) ++num_held_;
  }
  if (num_tokens % block_size_ == 0) return std::nullopt;
  HASTEN_CHECK(extend(num_tokens));
  return std::pair(source.ids_[num_whole], ids_.back());
}

bool BlockTable::covers(int64_t begin, int64_t end) const {
  if (end > static_cast<int64_t>(ids_.size()) * block_size_) return false;
  for (int64_t i = begin / block_size_; i * block_size_ < end; ++i)
    if (ids_[static_cast<size_t>(i)] < 0) return false;
  return true;
}

int64_t BlockTable::num_held(int64_t num_entries) const {
  const auto end = ids_.begin() + std::min(num_entries, static_cast<int64_t>(ids_.size()));
  return std::count_if(ids_.begin(), end, [](int32_t id) { return id >= 0; });
}

}  // namespace hasten::engine
