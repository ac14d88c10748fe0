// SPDX-License-Identifier: Apache-2.0
// Products of all formats of quantised weights for a table of kernels. They take ten times as long
// to compile as all other kernels, so two files of an instruction set have half of them each.
#pragma once

#include "backends/cpu/kernels/quant_matmul.inl"

namespace hasten::cpu {
namespace {

template <const PackedFormat& kFormat, bool kIntegerScales>
inline void add_products_of(KernelTable& kernels, PackedKind kind) {
  if constexpr (has_integer_scales(kFormat) == kIntegerScales) {
    kernels.quant_matmul[static_cast<int>(kind)] = quant_matmul<kFormat>;
  }
}

/// Of the formats that have integer scales, or of the others.
template <bool kIntegerScales>
inline void add_products(KernelTable& kernels) {
  add_products_of<kPackQ4_0, kIntegerScales>(kernels, PackedKind::q4_0);
  add_products_of<kPackQ4_1, kIntegerScales>(kernels, PackedKind::q4_1);
  add_products_of<kPackQ5_0, kIntegerScales>(kernels, PackedKind::q5_0);
  add_products_of<kPackQ5_1, kIntegerScales>(kernels, PackedKind::q5_1);
  add_products_of<kPackQ8_0, kIntegerScales>(kernels, PackedKind::q8_0);
  add_products_of<kPackQ2K, kIntegerScales>(kernels, PackedKind::q2_k);
  add_products_of<kPackQ3K, kIntegerScales>(kernels, PackedKind::q3_k);
  add_products_of<kPackQ4K, kIntegerScales>(kernels, PackedKind::q4_k);
  add_products_of<kPackQ5K, kIntegerScales>(kernels, PackedKind::q5_k);
  add_products_of<kPackQ6K, kIntegerScales>(kernels, PackedKind::q6_k);
  add_products_of<kPackIq4Nl, kIntegerScales>(kernels, PackedKind::iq4_nl);
  add_products_of<kPackIq4Xs, kIntegerScales>(kernels, PackedKind::iq4_xs);
}

}  // namespace
}  // namespace hasten::cpu
