// SPDX-License-Identifier: Apache-2.0
// Prefetcher: brings what is multiplied next into the caches, as unpacking alone would wait for
// memory.
#pragma once

#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Fetches the weights of the next panel, some lines at a time while this one is multiplied.
class Prefetcher {
 public:
  void add(const uint8_t* begin, int64_t num_bytes) {
    ranges_[count_++] = {.at = begin, .end = begin + num_bytes};
  }
  /// Expects next() `calls` times.
  void spread(int64_t calls) {
    int64_t bytes = 0;
    for (int i = 0; i < count_; ++i) bytes += ranges_[i].end - ranges_[i].at;
    lines_per_call_ = (bytes / 64 + calls) / calls;
  }
  HASTEN_INLINE void next() {
    for (int64_t i = 0; i < lines_per_call_ && count_ > 0; ++i) {
      Range& range = ranges_[count_ - 1];
      prefetch(range.at);
      range.at += 64;
      if (range.at >= range.end) --count_;
    }
  }

 private:
  struct Range {
    const uint8_t* at;
    const uint8_t* end;
  };
  Range ranges_[kQuantGroups];
  int count_ = 0;
  int64_t lines_per_call_ = 0;
};

}  // namespace
}  // namespace hasten::cpu
