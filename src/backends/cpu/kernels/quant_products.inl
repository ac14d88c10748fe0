// SPDX-License-Identifier: Apache-2.0
// Products of all formats of quantised weights for a table of kernels. They take several times as
// long to compile as all other kernels, so three files of an instruction set have a part of them
// each, and generic_products.cpp, which has few of them, all. clang-tidy, which takes half a minute
// for each, is given one of the three: what only the others instantiate it sees as templates, and
// in generic_products.cpp, but for several rows that read packed weights and whole stacks.
#pragma once

#include "backends/cpu/kernels/quant_matmul.inl"

namespace hasten::cpu {
namespace {

template <const PackedFormat& kFormat, ScaleKind kScales>
inline void add_products_of(KernelTable& kernels, PackedKind kind) {
  if constexpr (scale_kind(kFormat) == kScales) {
    kernels.quant_matmul[static_cast<int>(kind)] = quant_matmul<kFormat>;
  }
}

/// Of the formats with such scales.
template <ScaleKind kScales>
inline void add_products(KernelTable& kernels) {
  add_products_of<kPackQ4_0, kScales>(kernels, PackedKind::q4_0);
  add_products_of<kPackQ4_1, kScales>(kernels, PackedKind::q4_1);
  add_products_of<kPackQ5_0, kScales>(kernels, PackedKind::q5_0);
  add_products_of<kPackQ5_1, kScales>(kernels, PackedKind::q5_1);
  add_products_of<kPackQ8_0, kScales>(kernels, PackedKind::q8_0);
  add_products_of<kPackQ2K, kScales>(kernels, PackedKind::q2_k);
  add_products_of<kPackQ3K, kScales>(kernels, PackedKind::q3_k);
  add_products_of<kPackQ4K, kScales>(kernels, PackedKind::q4_k);
  add_products_of<kPackQ5K, kScales>(kernels, PackedKind::q5_k);
  add_products_of<kPackQ6K, kScales>(kernels, PackedKind::q6_k);
  add_products_of<kPackIq4Nl, kScales>(kernels, PackedKind::iq4_nl);
  add_products_of<kPackIq4Xs, kScales>(kernels, PackedKind::iq4_xs);
}

}  // namespace
}  // namespace hasten::cpu
