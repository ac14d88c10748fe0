// SPDX-License-Identifier: Apache-2.0
// Prefetcher: brings what is multiplied next into the caches, as unpacking alone would wait for
// memory.
#pragma once

#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Fetches the next panel of each group of a register tile while this one is multiplied, some lines
/// of each in turn: the hardware then sees as many streams as there are groups, and goes on with
/// each. One group fetched whole before the next costs a tenth of the time of 32 rows of q8_0, and
/// a twentieth of q4_0's (Zen 5).
class Prefetcher {
 public:
  /// A group whose next panel begins there.
  void add(const uint8_t* begin) { at_[count_++] = begin; }
  /// `num_bytes` of each group. Expects next() `calls` times, and fetches in the last of them that
  /// leave kCallsBehind for the lines to arrive: what came early would share the first-level cache
  /// with the panel for longer.
  void spread(int64_t num_bytes, int64_t calls) {
    if (count_ == 0) return;
    // Of few groups one is fetched again; not from at_[count_] on, which GCC 12 takes for at_[-1].
    for (int i = 1; i < kQuantGroups; ++i) {
      if (i >= count_) at_[i] = at_[0];
    }
    const int64_t lines = (num_bytes + 63) / 64;
    const int64_t turns = calls < kQuantGroups ? 1 : calls / kQuantGroups;  // of each group
    const int64_t lines_per_call = (lines + turns - 1) / turns;
    bytes_per_call_ = 64 * lines_per_call;
    left_calls_ = kQuantGroups * ((lines + lines_per_call - 1) / lines_per_call);
    calls_before_ = calls - left_calls_ - kCallsBehind;
  }
  HASTEN_INLINE void next() {
    // Keeps the work before a call apart from that behind it: where GCC mixes them it runs out of
    // registers.
    __asm__ volatile("" ::: "memory");
    if (--calls_before_ >= 0) return;
    if (--left_calls_ < 0) return;
    const uint8_t* at = at_[0];
    const uint8_t* const end = at + bytes_per_call_;
    unroll<0, kQuantGroups - 1>([&](auto i) HASTEN_INLINE { at_[i.value] = at_[i.value + 1]; });
    at_[kQuantGroups - 1] = end;
    for (; at < end; at += 64) prefetch(at);
  }

 private:
  static constexpr int64_t kCallsBehind = 16;  // while which the last lines arrive

  const uint8_t* at_[kQuantGroups];  // turned, so that the next one's is first
  int count_ = 0;
  int64_t bytes_per_call_ = 0;
  int64_t calls_before_ = 0;
  int64_t left_calls_ = 0;
};

}  // namespace
}  // namespace hasten::cpu
