// SPDX-License-Identifier: Apache-2.0
// q3_k: 256 elements in 16 groups, 3 bits each, 6-bit group scales; 3.4375 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = super_scale * (scale - 32) * (q - 4). The low two bits of element i are the two bits
/// from 2 * (i / 32 % 4) of quants[i / 128 * 32 + i % 32]; its third bit is bit i / 32 of
/// high_bits[i % 32]. Group g = 16 consecutive elements: the low four bits of its scale are a
/// nibble of scales[g % 8] (low for g < 8, else high), the upper two are the bits from 2 * (g / 4)
/// of scales[8 + g % 4].
struct BlockQ3K {
  static constexpr int kSize = 256;
  uint8_t high_bits[32];
  uint8_t quants[64];
  uint8_t scales[12];
  uint16_t super_scale;  // binary16
};
static_assert(sizeof(BlockQ3K) == 110);

/// The scale of group 0..15, in [-32, 31].
static inline int group_scale(const BlockQ3K& block, int g) {
  const int low = block.scales[g % 8] >> (g / 8 * 4) & 15;
  const int high = block.scales[8 + g % 4] >> (g / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

/// block -> out[256].
static inline void decode(const BlockQ3K& block, float* out) {
  const float super_scale = f16_to_f32(block.super_scale);
  for (int g = 0; g < 16; ++g) {
    const float scale = super_scale * static_cast<float>(group_scale(block, g));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int low = block.quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
      const int high = block.high_bits[i % 32] >> (i / 32) & 1;
      out[i] = scale * static_cast<float>((low | high << 2) - 4);
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockQ3K& block) {
  block = {};
  double fits[16];
  double peak = 0;
  for (int g = 0; g < 16; ++g) {
    fits[g] = fit_scale(in + 16 * g, 16, 4);
    if (std::fabs(fits[g]) > std::fabs(peak)) peak = fits[g];
  }
  block.super_scale = finite_f16(peak / -32);
  const double super_scale = f16_to_f32(block.super_scale);
  const Rounder round_scale(super_scale);
  for (int g = 0; g < 16; ++g) {
    const int scale = round_scale(fits[g], -32, 31);
    const Rounder round(super_scale * scale);
    block.scales[g % 8] |= static_cast<uint8_t>(((scale + 32) & 15) << (g / 8 * 4));
    block.scales[8 + g % 4] |= static_cast<uint8_t>(((scale + 32) >> 4) << (g / 4 * 2));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = round(in[i], -4, 3) + 4;
      block.quants[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((q & 3) << (i / 32 % 4 * 2));
      block.high_bits[i % 32] |= static_cast<uint8_t>(q >> 2 << (i / 32));
    }
  }
}

}  // namespace hasten::quant
