// SPDX-License-Identifier: Apache-2.0
// q4_k: 256 elements in 8 groups, 4 bits each, 6-bit group scales and offsets; 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "quant/k_scales.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = super_scale * scale * q - super_offset * offset, with scale and offset of its group of
/// 32. Byte 32 * p + j of `quants` holds q of element 64 * p + j in its low nibble and of element
/// 64 * p + 32 + j in its high nibble.
struct BlockQ4K {
  static constexpr int kSize = 256;
  uint16_t super_scale;   // binary16
  uint16_t super_offset;  // binary16
  KScales scales;
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ4K) == 144);

/// block -> out[256].
static inline void decode(const BlockQ4K& block, float* out) {
  for (int g = 0; g < 8; ++g) {
    const KScale group = unpack(block.scales, g);
    const float scale = f16_to_f32(block.super_scale) * static_cast<float>(group.scale);
    const float offset = f16_to_f32(block.super_offset) * static_cast<float>(group.offset);
    for (int j = 0; j < 32; ++j) {
      const int q = block.quants[g / 2 * 32 + j] >> (g % 2 * 4) & 15;
      out[32 * g + j] = scale * static_cast<float>(q) - offset;
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockQ4K& block) {
  const KFit fit = fit_k_scales(in, 15);
  block = {fit.super_scale, fit.super_offset, fit.scales, {}};
  for (int g = 0; g < 8; ++g) {
    const KScale group = unpack(block.scales, g);
    const Rounder round(double{f16_to_f32(block.super_scale)} * group.scale);
    const double offset = double{f16_to_f32(block.super_offset)} * group.offset;
    for (int j = 0; j < 32; ++j) {
      const int q = round(in[32 * g + j] + offset, 0, 15);
      block.quants[g / 2 * 32 + j] |= static_cast<uint8_t>(q << (g % 2 * 4));
    }
  }
}

}  // namespace hasten::quant
