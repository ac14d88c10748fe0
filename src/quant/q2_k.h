// SPDX-License-Identifier: Apache-2.0
// q2_k: 256 elements in 16 groups, 2 bits each, 4-bit group scales and offsets; 2.625 bits per
// weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = super_scale * scale * q - super_offset * offset. Group g = 16 consecutive elements has
/// its scale in the low and its offset in the high nibble of scales[g]. Element i has the two bits
/// from 2 * (i / 32 % 4) of quants[i / 128 * 32 + i % 32].
struct BlockQ2K {
  static constexpr int kSize = 256;
  uint8_t scales[16];
  uint8_t quants[64];
  uint16_t super_scale;   // binary16
  uint16_t super_offset;  // binary16
};
static_assert(sizeof(BlockQ2K) == 84);

/// block -> out[256].
static inline void decode(const BlockQ2K& block, float* out) {
  const float super_scale = f16_to_f32(block.super_scale);
  const float super_offset = f16_to_f32(block.super_offset);
  for (int g = 0; g < 16; ++g) {
    const float scale = super_scale * static_cast<float>(block.scales[g] & 15);
    const float offset = super_offset * static_cast<float>(block.scales[g] >> 4);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = block.quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
      out[i] = scale * static_cast<float>(q) - offset;
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockQ2K& block) {
  block = {};
  ScaleOffset groups[16];
  double peak_scale = 0;
  double peak_offset = 0;
  for (int g = 0; g < 16; ++g) {
    groups[g] = fit_scale_offset(in + 16 * g, 16, 3);
    if (groups[g].scale > peak_scale) peak_scale = groups[g].scale;
    if (groups[g].offset > peak_offset) peak_offset = groups[g].offset;
  }
  block.super_scale = finite_f16(peak_scale / 15);
  block.super_offset = finite_f16(peak_offset / 15);
  const double super_scale = f16_to_f32(block.super_scale);
  const double super_offset = f16_to_f32(block.super_offset);
  const Rounder round_scale(super_scale);
  const Rounder round_offset(super_offset);
  for (int g = 0; g < 16; ++g) {
    const int scale = round_scale(groups[g].scale, 0, 15);
    const int offset = round_offset(groups[g].offset, 0, 15);
    const Rounder round(super_scale * scale);
    block.scales[g] = static_cast<uint8_t>(scale | offset << 4);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = round(in[i] + super_offset * offset, 0, 3);
      block.quants[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(q << (i / 32 % 4 * 2));
    }
  }
}

}  // namespace hasten::quant
