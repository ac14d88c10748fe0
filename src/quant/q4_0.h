// SPDX-License-Identifier: Apache-2.0
// q4_0: 32 elements, 4 bits each and one scale; 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = scale * (q - 8). Byte j of `quants` holds q of element j in its low nibble and of
/// element j + 16 in its high nibble.
struct BlockQ4_0 {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

/// block -> out[32].
static inline void decode(const BlockQ4_0& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>((block.quants[j] & 15) - 8);
    out[j + 16] = scale * static_cast<float>((block.quants[j] >> 4) - 8);
  }
}

/// in[32] -> block. The peak goes to -8, so that the wider side of the range serves its sign.
static inline void encode(const float* in, BlockQ4_0& block) {
  block.scale = finite_f16(signed_peak(in, 32) / -8);
  const Rounder round(f16_to_f32(block.scale));
  for (int j = 0; j < 16; ++j) {
    const int low = round(in[j], -8, 7) + 8;
    const int high = round(in[j + 16], -8, 7) + 8;
    block.quants[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace hasten::quant
