// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI; compiled with flags of this file only.
#if defined(__x86_64__)
#include "backends/cpu/simd/avx512.h"

#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

extern const KernelTable kAvx512Kernels;
const KernelTable kAvx512Kernels = make_kernel_table("avx512");

}  // namespace hasten::cpu
#endif
