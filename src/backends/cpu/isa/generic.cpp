// SPDX-License-Identifier: Apache-2.0
// The kernels for any machine.
#include "backends/cpu/simd/generic.h"

#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

void add_generic_products(KernelTable& kernels);

KernelTable make_generic_kernels() {
  KernelTable kernels = make_kernel_table("generic");
  add_generic_products(kernels);
  return kernels;
}

}  // namespace hasten::cpu
