// SPDX-License-Identifier: Apache-2.0
// q5_k: 256 elements in 8 groups, 5 bits each, 6-bit group scales and offsets; 5.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "quant/k_scales.h"
#include "tensor/half.h"

namespace hasten::quant {

/// As q4_k, with a fifth bit: element 32 * g + j has it in bit g of high_bits[j].
struct BlockQ5K {
  static constexpr int kSize = 256;
  uint16_t super_scale;   // binary16
  uint16_t super_offset;  // binary16
  KScales scales;
  uint8_t high_bits[32];
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ5K) == 176);

/// block -> out[256].
static inline void decode(const BlockQ5K& block, float* out) {
  for (int g = 0; g < 8; ++g) {
    const KScale group = unpack(block.scales, g);
    const float scale = f16_to_f32(block.super_scale) * static_cast<float>(group.scale);
    const float offset = f16_to_f32(block.super_offset) * static_cast<float>(group.offset);
    for (int j = 0; j < 32; ++j) {
      const int low = block.quants[g / 2 * 32 + j] >> (g % 2 * 4) & 15;
      const int high = block.high_bits[j] >> g & 1;
      out[32 * g + j] = scale * static_cast<float>(low | high << 4) - offset;
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockQ5K& block) {
  const KFit fit = fit_k_scales(in, 31);
  block = {fit.super_scale, fit.super_offset, fit.scales, {}, {}};
  for (int g = 0; g < 8; ++g) {
    const KScale group = unpack(block.scales, g);
    const Rounder round(double{f16_to_f32(block.super_scale)} * group.scale);
    const double offset = double{f16_to_f32(block.super_offset)} * group.offset;
    for (int j = 0; j < 32; ++j) {
      const int q = round(in[32 * g + j] + offset, 0, 31);
      block.quants[g / 2 * 32 + j] |= static_cast<uint8_t>((q & 15) << (g % 2 * 4));
      block.high_bits[j] |= static_cast<uint8_t>(q >> 4 << g);
    }
  }
}

}  // namespace hasten::quant
