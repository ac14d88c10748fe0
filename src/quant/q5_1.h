// SPDX-License-Identifier: Apache-2.0
// q5_1: 32 elements, 5 bits each, one scale and one minimum; 6 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = scale * q + min. Nibbles and fifth bits lie as in q5_0.
struct BlockQ5_1 {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  uint16_t min;    // binary16
  uint8_t high_bits[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

/// block -> out[32].
static inline void decode(const BlockQ5_1& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  const float min = f16_to_f32(block.min);
  for (int i = 0; i < 32; ++i) {
    const int low = block.quants[i % 16] >> (i / 16 * 4) & 15;
    const int high = block.high_bits[i / 8] >> (i % 8) & 1;
    out[i] = scale * static_cast<float>(low | high << 4) + min;
  }
}

/// in[32] -> block. The range of the input is divided evenly.
static inline void encode(const float* in, BlockQ5_1& block) {
  block = {};
  const Range range = range_of(in, 32);
  block.min = finite_f16(range.low);
  const double min = f16_to_f32(block.min);
  block.scale = finite_f16((range.high - min) / 31);
  const Rounder round(f16_to_f32(block.scale));
  for (int i = 0; i < 32; ++i) {
    const int q = round(in[i] - min, 0, 31);
    block.quants[i % 16] |= static_cast<uint8_t>((q & 15) << (i / 16 * 4));
    block.high_bits[i / 8] |= static_cast<uint8_t>(q >> 4 << (i % 8));
  }
}

}  // namespace hasten::quant
