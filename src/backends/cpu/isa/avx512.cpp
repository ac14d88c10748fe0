// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI but products of quantised weights; compiled with flags of this
// file only.
#if defined(HASTEN_AVX512)
#include "backends/cpu/simd/avx512.h"

#include "backends/cpu/kernels/q8_attention.inl"
#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

KernelTable make_avx512_kernels() {
  KernelTable kernels = make_kernel_table("avx512");
  kernels.q8_0_pairs = {.attend = attend_q8, .round_query = round_query_q8};
  return kernels;
}

}  // namespace hasten::cpu
#endif
