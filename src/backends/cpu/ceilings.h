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
  // Streaming from memory, beyond the caches: what neighbours, with whom memory is shared, leave of
  // it in a measurement. Work that takes longer than a round of reading meets them, too.
  double read_bytes_per_s = 0;
  double best_read_bytes_per_s = 0;  // in the best round
  double int8_ops_per_s = 0;         // sums of products of bytes
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
  /// Takes `window_us` for each number, or three rounds where those take longer: a millisecond or
  /// two of arithmetic, of which the best counts, or reading all of the memory once.
  [[nodiscard]] Ceilings measure(int64_t window_us);
  /// Bytes per second of one reading of all of the memory, in the way that was the better one when
  /// measured last: to be taken again and again between pieces of the work that it is a limit of.
  [[nodiscard]] double read_rate();
  /// Microseconds from handing the threads work until all have ended it, where the work is nothing:
  /// the median of what was measured in `window_us`. They wait awake, or, where there are more of
  /// them than cores, asleep.
  [[nodiscard]] double barrier_us(int64_t window_us);

 private:
  double read_all(bool one_stream);
  void measure_reading(int64_t window_us, Ceilings& to);
  double peak_rate(PeakKernel kernel, int64_t window_us);

  Workers workers_;
  const KernelTable& kernels_;
  Memory memory_;
  bool one_stream_ = true;  // how it is read
};

}  // namespace hasten::cpu
