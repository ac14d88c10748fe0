// SPDX-License-Identifier: Apache-2.0
// q6_k: 256 elements in 16 groups, 6 bits each, 8-bit group scales; 6.5625 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = super_scale * scales[i / 16] * (q - 32). Each half of 128 elements stands alone: its
/// element r has the low four bits of q in quants[r % 64] of the half's 64 bytes (low nibble for
/// r < 64, else high), and the upper two from bit 2 * (r / 32) of high_bits[r % 32] of its 32
/// bytes.
struct BlockQ6K {
  static constexpr int kSize = 256;
  uint8_t quants[128];
  uint8_t high_bits[64];
  int8_t scales[16];
  uint16_t super_scale;  // binary16
};
static_assert(sizeof(BlockQ6K) == 210);

/// block -> out[256].
static inline void decode(const BlockQ6K& block, float* out) {
  const float super_scale = f16_to_f32(block.super_scale);
  for (int g = 0; g < 16; ++g) {
    const float scale = super_scale * static_cast<float>(block.scales[g]);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int half = i / 128;
      const int r = i % 128;
      const int low = block.quants[64 * half + r % 64] >> (r / 64 * 4) & 15;
      const int high = block.high_bits[32 * half + r % 32] >> (r / 32 * 2) & 3;
      out[i] = scale * static_cast<float>((low | high << 4) - 32);
    }
  }
}

/// in[256] -> block.
static inline void encode(const float* in, BlockQ6K& block) {
  block = {};
  double fits[16];
  double peak = 0;
  for (int g = 0; g < 16; ++g) {
    fits[g] = fit_scale(in + 16 * g, 16, 32);
    if (std::fabs(fits[g]) > std::fabs(peak)) peak = fits[g];
  }
  block.super_scale = finite_f16(peak / -128);
  const double super_scale = f16_to_f32(block.super_scale);
  const Rounder round_scale(super_scale);
  for (int g = 0; g < 16; ++g) {
    block.scales[g] = static_cast<int8_t>(round_scale(fits[g], -128, 127));
    const Rounder round(super_scale * block.scales[g]);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int q = round(in[i], -32, 31) + 32;
      const int half = i / 128;
      const int r = i % 128;
      block.quants[64 * half + r % 64] |= static_cast<uint8_t>((q & 15) << (r / 64 * 4));
      block.high_bits[32 * half + r % 32] |= static_cast<uint8_t>(q >> 4 << (r / 32 * 2));
    }
  }
}

}  // namespace hasten::quant
