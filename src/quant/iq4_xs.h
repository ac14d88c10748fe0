// SPDX-License-Identifier: Apache-2.0
// iq4_xs: 256 elements in 8 groups, 4 bits each that index the table of iq4_nl, 6-bit group scales;
// 4.25 bits per weight.
#pragma once

#include <cstdint>

#include "quant/iq4_nl.h"

namespace hasten::quant {

/// element = super_scale * (scale - 32) * kIq4Levels[q]. Group g = 32 consecutive elements lies in
/// quants[16 * g ...] as an iq4_nl block does; the low four bits of its scale are a nibble of
/// scales_low[g / 2] (low for even g), the upper two the bits from 2 * g of scales_high.
struct BlockIq4Xs {
  static constexpr int kSize = 256;
  uint16_t super_scale;  // binary16
  uint16_t scales_high;
  uint8_t scales_low[4];
  uint8_t quants[128];
};
static_assert(sizeof(BlockIq4Xs) == 136);

/// The scale of group 0..7, in [-32, 31].
static inline int group_scale(const BlockIq4Xs& block, int g) {
  const int low = block.scales_low[g / 2] >> (g % 2 * 4) & 15;
  const int high = block.scales_high >> (2 * g) & 3;
  return (low | high << 4) - 32;
}

/// block -> out[256].
static inline void decode(const BlockIq4Xs& block, float* out) {
  const float super_scale = f16_to_f32(block.super_scale);
  for (int g = 0; g < 8; ++g) {
    const float scale = super_scale * static_cast<float>(group_scale(block, g));
    for (int j = 0; j < 32; ++j) {
      const int q = block.quants[16 * g + j % 16] >> (j / 16 * 4) & 15;
      out[32 * g + j] = scale * static_cast<float>(kIq4Levels[q]);
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockIq4Xs& block) {
  block = {};
  double fits[8];
  double peak = 0;
  for (int g = 0; g < 8; ++g) {
    fits[g] = fit_iq4_scale(in + 32 * g);
    if (std::fabs(fits[g]) > std::fabs(peak)) peak = fits[g];
  }
  block.super_scale = finite_f16(peak / -32);
  const double super_scale = f16_to_f32(block.super_scale);
  const Rounder round_scale(super_scale);
  for (int g = 0; g < 8; ++g) {
    const int scale = round_scale(fits[g], -32, 31);
    const LevelRounder round(super_scale * scale);
    block.scales_low[g / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << (g % 2 * 4));
    block.scales_high |= static_cast<uint16_t>(((scale + 32) >> 4) << (2 * g));
    for (int j = 0; j < 32; ++j) {
      const int q = round(in[32 * g + j]);
      block.quants[16 * g + j % 16] |= static_cast<uint8_t>(q << (j / 16 * 4));
    }
  }
}

}  // namespace hasten::quant
