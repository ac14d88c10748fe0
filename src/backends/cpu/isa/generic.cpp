// SPDX-License-Identifier: Apache-2.0
// The kernels for any machine.
#include "backends/cpu/simd/generic.h"

#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

extern const KernelTable kGenericKernels;
const KernelTable kGenericKernels = make_kernel_table("generic");

}  // namespace hasten::cpu
