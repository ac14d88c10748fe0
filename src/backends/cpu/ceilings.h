// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most: the limits that benchmarks are measured against.
#pragma once

#include <cstdint>

namespace hasten::cpu {

/// Of all threads together. A multiplication and an addition are two operations.
struct Ceilings {
  double read_bytes_per_s = 0;  // streaming from memory, beyond the caches
  double int8_ops_per_s = 0;    // 4-way int8 dot products
  double bf16_flops_per_s = 0;  // bf16 dot products; 0 where there is no unit for them
  double f32_flops_per_s = 0;   // fused multiply-adds
};

/// Measures with the kernels of the chosen instruction set on `threads` threads (0: one per usable
/// physical core), about 0.3 s for each number. Takes up to 1 GiB of memory meanwhile.
[[nodiscard]] Ceilings measure_ceilings(int32_t threads);

}  // namespace hasten::cpu
