// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with integer scales and offsets for AVX2; compiled with flags of
// avx2.cpp.
#if defined(HASTEN_AVX2) && !defined(__clang_analyzer__)
#include "backends/cpu/simd/avx2.h"
// Written in the types and functions of the header above.
#include "backends/cpu/kernels/quant_products.inl"

namespace hasten::cpu {

void add_avx2_offset_products(KernelTable& kernels) {
  add_products<ScaleKind::integers_and_offsets>(kernels);
}

}  // namespace hasten::cpu
#endif
