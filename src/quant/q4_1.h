// SPDX-License-Identifier: Apache-2.0
// q4_1: 32 elements, 4 bits each, one scale and one minimum; 5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = scale * q + min. Byte j of `quants` holds q of element j in its low nibble and of
/// element j + 16 in its high nibble.
struct BlockQ4_1 {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  uint16_t min;    // binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

/// block -> out[32].
static inline void decode(const BlockQ4_1& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  const float min = f16_to_f32(block.min);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(block.quants[j] & 15) + min;
    out[j + 16] = scale * static_cast<float>(block.quants[j] >> 4) + min;
  }
}

/// in[32] -> block. The range of the input is divided evenly.
static inline void encode(const float* in, BlockQ4_1& block) {
  const Range range = range_of(in, 32);
  block.min = finite_f16(range.low);
  const double min = f16_to_f32(block.min);
  block.scale = finite_f16((range.high - min) / 15);
  const Rounder round(f16_to_f32(block.scale));
  for (int j = 0; j < 16; ++j) {
    const int low = round(in[j] - min, 0, 15);
    const int high = round(in[j + 16] - min, 0, 15);
    block.quants[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace hasten::quant
