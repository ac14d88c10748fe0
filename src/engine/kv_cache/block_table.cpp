// SPDX-License-Identifier: Apache-2.0
// Growing, sharing and releasing the blocks of one sequence.
#include "engine/kv_cache/block_table.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::engine {

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  block_size_ = other.block_size_;
  ids_ = std::exchange(other.ids_, {});
  num_held_ = std::exchange(other.num_held_, 0);
  num_released_ = std::exchange(other.num_released_, 0);
  return *this;
}

void BlockTable::clear() {
  constexpr size_t kAhead = 24;
  for (size_t i = ids_.size(); i-- > 0;) {
    if (i >= kAhead && ids_[i - kAhead] >= 0) pool_->fetch(ids_[i - kAhead]);
    if (ids_[i] >= 0) pool_->release(ids_[i]);
  }
  ids_.clear();
  num_held_ = num_released_ = 0;
}

bool BlockTable::extend(int64_t num_tokens) {
  const int64_t missing = ceil_div(num_tokens, block_size_) - static_cast<int64_t>(ids_.size());
  if (missing > pool_->num_free()) return false;
  if (missing <= 0) return true;
  ids_.resize(ids_.size() + static_cast<size_t>(missing), -1);  // to evict may throw
  pool_->allocate(std::span(ids_).last(static_cast<size_t>(missing)));
  num_held_ += missing;
  return true;
}

void BlockTable::append(BlockRef block) {
  if (block) ++num_held_;
  ids_.push_back(block.detach());
}

void BlockTable::replace(int64_t index, BlockRef block) {
  const auto entry = static_cast<size_t>(index);
  HASTEN_CHECK(ids_[entry] >= 0 && block);
  pool_->release(std::exchange(ids_[entry], block.detach()));
}

void BlockTable::release_before(int64_t position) {
  const int64_t end = std::min(position / block_size_, static_cast<int64_t>(ids_.size()));
  for (; num_released_ < end; ++num_released_) {
    const auto entry = static_cast<size_t>(num_released_);
    if (ids_[entry] < 0) continue;
    pool_->release(std::exchange(ids_[entry], -1));
    --num_held_;
  }
}

std::optional<std::pair<int32_t, int32_t>> BlockTable::share_prefix(const BlockTable& source,
                                                                    int64_t num_tokens) {
  HASTEN_CHECK(ids_.empty() && source.pool_ == pool_);
  const auto num_whole = static_cast<size_t>(num_tokens / block_size_);
  HASTEN_CHECK(ceil_div(num_tokens, block_size_) <= static_cast<int64_t>(source.ids_.size()));
  for (size_t i = 0; i < num_whole; ++i) append(source.share(static_cast<int64_t>(i)));
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

int64_t BlockTable::num_exclusive() const {
  return std::ranges::count_if(ids_,
                               [&](int32_t id) { return id >= 0 && pool_->ref_count(id) == 1; });
}

}  // namespace hasten::engine
