// SPDX-License-Identifier: Apache-2.0
// q8_0: 32 elements, 8 bits each and one scale; 8.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element j = scale * quants[j].
struct BlockQ8_0 {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

/// block -> out[32].
static inline void decode(const BlockQ8_0& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  for (int j = 0; j < 32; ++j) out[j] = scale * static_cast<float>(block.quants[j]);
}

/// in[32] -> block. -128 is not used: products of two such blocks then never overflow 16 bits.
static inline void encode(const float* in, BlockQ8_0& block) {
  block.scale = finite_f16(std::fabs(signed_peak(in, 32)) / 127);
  const Rounder round(f16_to_f32(block.scale));
  for (int j = 0; j < 32; ++j) block.quants[j] = static_cast<int8_t>(round(in[j], -127, 127));
}

}  // namespace hasten::quant
