// SPDX-License-Identifier: Apache-2.0
// The kernels for any machine.
#include "backends/cpu/simd/generic.h"

#include "backends/cpu/kernels/quant_products.inl"
#include "backends/cpu/kernels/table.inl"

namespace hasten::cpu {

KernelTable make_generic_kernels() {
  KernelTable kernels = make_kernel_table("generic");
  add_products<ScaleKind::floats>(kernels);
  add_products<ScaleKind::integers>(kernels);
  add_products<ScaleKind::integers_and_offsets>(kernels);
  return kernels;
}

}  // namespace hasten::cpu
