// SPDX-License-Identifier: Apache-2.0
// Allocates packed weights and deals their groups to threads.
#include "backends/cpu/weight_store.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quantity.h"

namespace hasten::cpu {
namespace {

// Packed bytes that a thread packs at a time: long enough to stream, short enough to end together.
constexpr int64_t kRangeBytes = 256 * 1024;
// Packed bytes that are enough for all threads.
constexpr int64_t kEnoughBytes = int64_t{64} << 20;
// Of the available memory this much stays free for everything else, and for what was added but not
// written to yet, which still counts as available.
constexpr int64_t kMemoryMargin = int64_t{256} << 20;
// No more than this part of it is brought in ahead, without looking again: the file's pages stay,
// and others that begin at the same time have theirs.
constexpr int64_t kAheadShare = 2;
// Of what was available this part is used before it is measured again.
constexpr int64_t kUnmeasuredShare = 8;

/// Groups of one of several weights.
struct GroupRange {
  size_t weight;
  int64_t first;
  int64_t end;
};

/// Groups that share their memory.
int64_t groups_together(const WeightLayout& layout) { return layout.divided ? kStackGroups : 1; }

}  // namespace

int64_t WeightStore::bring_in(std::span<const Tensor> sources, const std::stop_token& stop) {
  HASTEN_CHECK(added_.empty());
  int64_t num_bytes = 0;
  for (const Tensor& source : sources) {
    // A group of so few may take many times what the file has of them.
    if (source.dim(0) < kGroupRows) continue;
    num_bytes += Arena::piece_bytes(weight_layout(source).num_bytes());
  }
  if (num_bytes == 0 || num_bytes > measure_memory().available_bytes / kAheadShare) return 0;
  arena_.bring_in(num_bytes, stop);
  return arena_.bytes_ahead();
}

Arena::Piece WeightStore::add(const WeightLayout& layout, const Tensor& source) {
  const int64_t num_bytes = layout.num_bytes();
  if (!arena_.has_room(num_bytes)) pack_added();
  Arena::Piece memory = allocate(num_bytes);
  if (memory != nullptr) {
    added_.push_back({.layout = layout, .source = source, .memory = memory});
    added_bytes_ += num_bytes;
    if (added_bytes_ >= kEnoughBytes) pack_added();
  } else if (!std::exchange(told_of_memory_, true)) {
    log::warn(
        "no memory to pack a weight of {}: it is used from the file, slower, as are all others "
        "that do not fit",
        size_text(num_bytes));
  }
  return memory;
}

/// Null: there is too little.
Arena::Piece WeightStore::allocate(int64_t num_bytes) {
  // To measure takes as long as to pack a small weight, or several where memory is limited for a
  // group of processes.
  if (num_bytes > unmeasured_bytes_) {
    const int64_t available =
        measure_memory().available_bytes + arena_.bytes_ahead() - kMemoryMargin;
    const int64_t share = std::max(kMemoryMargin, available / kUnmeasuredShare);
    unmeasured_bytes_ = num_bytes > available ? 0 : std::max(num_bytes, std::min(available, share));
  }
  if (num_bytes > unmeasured_bytes_) return nullptr;
  unmeasured_bytes_ -= num_bytes;
  return arena_.allocate(num_bytes);
}

/// Each new page is cleared by the thread that comes to it first, which goes on with what lies
/// there while part of it is still in its cache. What was cleared long before is in none: lines
/// stored there through the caches would first come from memory.
void WeightStore::pack() {
  std::vector<Arena::Piece> memory;  // null: given up meanwhile, and its source may be gone
  std::vector<GroupRange> ranges;
  memory.reserve(added_.size());
  for (size_t i = 0; i < added_.size(); ++i) {
    memory.push_back(added_[i].memory.lock());
    if (memory.back() == nullptr) continue;
    const WeightLayout& layout = added_[i].layout;
    const int64_t together = groups_together(layout);
    const int64_t bytes = together * std::max<int64_t>(1, layout.group_bytes);
    const int64_t most = together * std::max<int64_t>(1, kRangeBytes / bytes);
    for (int64_t first = 0; first < layout.num_groups; first += most) {
      ranges.push_back(
          {.weight = i, .first = first, .end = std::min(first + most, layout.num_groups)});
    }
  }
  NewPages pages = arena_.new_pages();
  const uint8_t* const end_of_ahead = arena_.end_of_ahead();
  std::vector<std::atomic<int64_t>> uneven_rows(added_.size());
  const auto pack_range = [&](const GroupRange& range) {
    const auto& [layout, source, owner] = added_[range.weight];
    uint8_t* const packed = memory[range.weight].get();
    const int64_t together = groups_together(layout);
    for (int64_t first = range.first; first < range.end; first += together) {
      const int64_t end = std::min(first + together, range.end);
      uint8_t* const end_bytes = packed + end * layout.group_bytes;
      pages.bring_in(packed + first * layout.group_bytes, end_bytes);
      const PackInto into = end_bytes <= end_of_ahead ? PackInto::memory : PackInto::caches;
      for (int64_t g = first; g < end; ++g) {
        uneven_rows[range.weight] += pack_group(kernels_, layout, source, g, packed, into);
      }
    }
    kernels_.order_stores();
  };
  const auto pack_ranges = [&](int64_t begin, int64_t end, int64_t /*next*/, int32_t /*thread*/) {
    for (int64_t i = begin; i < end; ++i) pack_range(ranges[static_cast<size_t>(i)]);
  };
  workers_.for_each_in_ranges(std::ssize(ranges), 1, pack_ranges);
  const std::vector<Added> packed = std::exchange(added_, {});
  added_bytes_ = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    if (uneven_rows[i] > 0) warn_of_scales(packed[i].source, uneven_rows[i]);
  }
}

void WeightStore::warn_of_scales(const Tensor& source, int64_t uneven_rows) {
  if (std::exchange(told_of_scales_, true)) return;
  log::warn(
      "{} of {} rows of a {} weight have mostly blocks whose scales and offsets are less than 1/{} "
      "of what the row's largest ask for: products with them may be off by more than 2 %; a file "
      "in Q6_K or BF16 has no such loss",
      uneven_rows, source.dim(0), info(source.dtype()).name, kMostScaleRatio);
}

}  // namespace hasten::cpu
