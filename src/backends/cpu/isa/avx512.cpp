// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI; compiled with flags of this file and of those with its
// products alone.
#if defined(HASTEN_AVX512)
#include "backends/cpu/simd/avx512.h"

#include "backends/cpu/kernels/q8_attention.inl"
#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

// avx512_float_scale_products.cpp, avx512_integer_scale_products.cpp, avx512_offset_products.cpp
void add_avx512_float_scale_products(KernelTable& kernels);
void add_avx512_integer_scale_products(KernelTable& kernels);
void add_avx512_offset_products(KernelTable& kernels);

KernelTable make_avx512_kernels() {
  KernelTable kernels = make_kernel_table("avx512");
  add_avx512_float_scale_products(kernels);
  add_avx512_integer_scale_products(kernels);
  add_avx512_offset_products(kernels);
  kernels.q8_0_pairs = {.attend = {attend_q8<CacheLevel::first>, attend_q8<CacheLevel::second>},
                        .round_query = round_query_q8};
  return kernels;
}

}  // namespace hasten::cpu
#endif
