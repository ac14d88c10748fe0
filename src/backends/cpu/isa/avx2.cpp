// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX2 with FMA and F16C but products of quantised weights; compiled with flags of
// this file only.
#if defined(__x86_64__)
#include "backends/cpu/simd/avx2.h"

#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

KernelTable make_avx2_kernels() { return make_kernel_table("avx2"); }

}  // namespace hasten::cpu
#endif
