// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights for any processor.
#include "backends/cpu/simd/generic.h"
// Written in the types and functions of the header above.
#include "backends/cpu/kernels/quant_products.inl"

namespace hasten::cpu {

void add_generic_products(KernelTable& kernels) {
  add_products<ScaleKind::floats>(kernels);
  add_products<ScaleKind::integers>(kernels);
  add_products<ScaleKind::integers_and_offsets>(kernels);
}

}  // namespace hasten::cpu
