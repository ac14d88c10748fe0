// SPDX-License-Identifier: Apache-2.0
// iq4_nl: 32 elements, 4 bits each that index a fixed table, one scale; 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "quant/fit.h"
#include "tensor/half.h"

namespace hasten::quant {

/// The sixteen levels of iq4_nl and iq4_xs: denser around zero, as weights are.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// element = scale * kIq4Levels[q]. Byte j of `quants` holds q of element j in its low nibble and
/// of element j + 16 in its high nibble.
struct BlockIq4Nl {
  static constexpr int kSize = 32;
  uint16_t scale;  // binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

/// The index of the level nearest to value / step; a step of 0 gives the level nearest to 0.
static inline int nearest_iq4_level(double value, double step) {
  const double ratio = step == 0 ? 0 : value / step;
  int best = 0;
  for (int q = 1; q < 16; ++q) {
    if (std::fabs(ratio - kIq4Levels[q]) < std::fabs(ratio - kIq4Levels[best])) best = q;
  }
  return best;
}

/// The scale that minimises the squared error of 32 elements, of some fifteen tried around the one
/// that takes the peak to the outermost level. May be negative; 0 for zeros.
static inline double fit_iq4_scale(const float* x) {
  const double peak = signed_peak(x, 32);
  double best_scale = 0;
  double best_gain = 0;
  for (int trial = -7; trial <= 7; ++trial) {
    const double step = peak / (kIq4Levels[0] + 2.0 * trial);
    double sum_xv = 0;
    double sum_vv = 0;
    for (int i = 0; i < 32; ++i) {
      const double level = kIq4Levels[nearest_iq4_level(x[i], step)];
      sum_xv += x[i] * level;
      sum_vv += level * level;
    }
    if (sum_xv / sum_vv * sum_xv > best_gain) {
      best_gain = sum_xv / sum_vv * sum_xv;
      best_scale = sum_xv / sum_vv;
    }
  }
  return best_scale;
}

/// block -> out[32].
static inline void decode(const BlockIq4Nl& block, float* out) {
  const float scale = f16_to_f32(block.scale);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(kIq4Levels[block.quants[j] & 15]);
    out[j + 16] = scale * static_cast<float>(kIq4Levels[block.quants[j] >> 4]);
  }
}

/// in[32] -> block.
static inline void encode(const float* in, BlockIq4Nl& block) {
  block.scale = finite_f16(fit_iq4_scale(in));
  const double step = f16_to_f32(block.scale);
  for (int j = 0; j < 16; ++j) {
    const int low = nearest_iq4_level(in[j], step);
    const int high = nearest_iq4_level(in[j + 16], step);
    block.quants[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace hasten::quant
