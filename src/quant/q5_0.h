// SPDX-License-Identifier: Apache-2.0
// q5_0: 32 elements, 5 bits each and one scale; 5.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// element = scale * (q - 16). The low four bits of q lie as in q4_0: byte j of `quants` serves the
/// elements j (low nibble) and j + 16 (high nibble). The fifth bit of element i is bit i % 8 of
/// high_bits[i / 8].
struct BlockQ5_0 {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  uint8_t high_bits[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

/// block -> out[32].
static inline void decode(const BlockQ5_0& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  for (int i = 0; i < 32; ++i) {
    const int low = block.quants[i % 16] >> (i / 16 * 4) & 15;
    const int high = block.high_bits[i / 8] >> (i % 8) & 1;
    out[i] = scale * static_cast<float>((low | high << 4) - 16);
  }
}

/// in[32] -> block. The peak goes to -16, so that the wider side of the range serves its sign.
static inline void encode(const float* in, BlockQ5_0& block) {
  block = {};
  block.scale = finite_f16(signed_peak(in, 32) / -16);
  const Rounder round(f16_to_f32(block.scale));
  for (int i = 0; i < 32; ++i) {
    const int q = round(in[i], -16, 15) + 16;
    block.quants[i % 16] |= static_cast<uint8_t>((q & 15) << (i / 16 * 4));
    block.high_bits[i / 8] |= static_cast<uint8_t>(q >> 4 << (i % 8));
  }
}

}  // namespace hasten::quant
