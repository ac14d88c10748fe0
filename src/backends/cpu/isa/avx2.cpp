// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX2 with FMA and F16C; compiled with flags of this file and of those with its
// products alone.
#if defined(HASTEN_AVX2)
#include "backends/cpu/simd/avx2.h"

#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

// avx2_float_scale_products.cpp, avx2_integer_scale_products.cpp, avx2_offset_products.cpp
void add_avx2_float_scale_products(KernelTable& kernels);
void add_avx2_integer_scale_products(KernelTable& kernels);
void add_avx2_offset_products(KernelTable& kernels);

KernelTable make_avx2_kernels() {
  KernelTable kernels = make_kernel_table("avx2");
  add_avx2_float_scale_products(kernels);
  add_avx2_integer_scale_products(kernels);
  add_avx2_offset_products(kernels);
  return kernels;
}

}  // namespace hasten::cpu
#endif
