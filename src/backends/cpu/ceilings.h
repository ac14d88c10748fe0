// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most: the limits that benchmarks are measured against.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/workers.h"

namespace hasten::cpu {

/// Of all threads together. A multiplication and an addition are two operations.
struct Ceilings {
  double read_bytes_per_s = 0;  // streaming from memory, beyond the caches
  double int8_ops_per_s = 0;    // sums of products of bytes
  // Of products of bytes with codes of four bits. As int8, or more where there is no instruction
  // for such sums; a bound for all codes of fewer than eight bits.
  double int4_ops_per_s = 0;
  double bf16_flops_per_s = 0;  // bf16 dot products; 0 where there is no unit for them
  double f32_flops_per_s = 0;   // fused multiply-adds
};

/// Measures with the kernels of the chosen instruction set, again and again with the same threads
/// and memory.
class CeilingMeter {
 public:
  /// `threads` 0: one per usable physical core. Takes up to 1 GiB of memory.
  explicit CeilingMeter(int32_t threads);
  /// Takes `window_us` for each number, or three rounds where those take longer, of which the best
  /// counts: a millisecond or two of arithmetic, or reading all of the memory once.
  [[nodiscard]] Ceilings measure(int64_t window_us);
  /// Microseconds from handing the threads work until all have ended it, where the work is nothing:
  /// the median of what was measured in `window_us`. They wait awake, or, where there are more of
  /// them than cores, asleep.
  [[nodiscard]] double barrier_us(int64_t window_us);

 private:
  double read_rate(int64_t window_us);
  double peak_rate(PeakKernel kernel, int64_t window_us);

  Workers workers_;
  const KernelTable& kernels_;
  Memory memory_;
};

}  // namespace hasten::cpu
