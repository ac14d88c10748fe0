// SPDX-License-Identifier: Apache-2.0
// The twelve bytes in which q4_k and q5_k keep eight 6-bit scales and eight 6-bit offsets.
#pragma once

#include <cstdint>

#include "quant/fit.h"

namespace hasten::quant {

/// Group g < 4: bytes g and g + 4 hold scale and offset in their low six bits. Group g >= 4: byte
/// g + 4 holds the low nibbles of scale (low) and offset (high), and their upper two bits are the
/// top bits of the bytes g - 4 and g.
struct KScales {
  uint8_t bytes[12];
};

/// Scale and offset of one group, both in [0, 63].
struct KScale {
  int scale;
  int offset;
};

static inline KScale unpack(const KScales& packed, int g) {
  const uint8_t* b = packed.bytes;
  if (g < 4) return {b[g] & 63, b[g + 4] & 63};
  return {(b[g + 4] & 15) | (b[g - 4] >> 6 << 4), (b[g + 4] >> 4) | (b[g] >> 6 << 4)};
}

/// Packs group g; the bytes start as zeros and groups may come in any order.
static inline void pack(KScales& packed, int g, KScale value) {
  uint8_t* b = packed.bytes;
  if (g < 4) {
    b[g] |= static_cast<uint8_t>(value.scale);
    b[g + 4] |= static_cast<uint8_t>(value.offset);
  } else {
    b[g + 4] = static_cast<uint8_t>((value.scale & 15) | (value.offset & 15) << 4);
    b[g - 4] |= static_cast<uint8_t>(value.scale >> 4 << 6);
    b[g] |= static_cast<uint8_t>(value.offset >> 4 << 6);
  }
}

/// What an encoder of eight groups of 32 elements decides before it rounds the elements.
struct KFit {
  uint16_t super_scale;   // binary16
  uint16_t super_offset;  // binary16
  KScales scales;
};

/// in[256] -> scales and offsets for q in [0, levels].
static inline KFit fit_k_scales(const float* in, int levels) {
  ScaleOffset groups[8];
  double peak_scale = 0;
  double peak_offset = 0;
  for (int g = 0; g < 8; ++g) {
    groups[g] = fit_scale_offset(in + 32 * g, 32, levels);
    if (groups[g].scale > peak_scale) peak_scale = groups[g].scale;
    if (groups[g].offset > peak_offset) peak_offset = groups[g].offset;
  }
  KFit fit{finite_f16(peak_scale / 63), finite_f16(peak_offset / 63), {}};
  const Rounder round_scale(f16_to_f32(fit.super_scale));
  const Rounder round_offset(f16_to_f32(fit.super_offset));
  for (int g = 0; g < 8; ++g) {
    pack(fit.scales, g,
         {round_scale(groups[g].scale, 0, 63), round_offset(groups[g].offset, 0, 63)});
  }
  return fit;
}

}  // namespace hasten::quant
