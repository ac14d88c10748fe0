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

/// Divides by a step and finds the nearest level.
struct LevelRounder {
  double inverse;
  /// A step of 0 takes everything to the level nearest to 0.
  explicit LevelRounder(double step) : inverse(step == 0 ? 0 : 1 / step) {}
  /// The index of the level nearest to value / step.
  int operator()(double value) const {
    const double twice = 2 * value * inverse;
    int q = 0;  // binary search among the middles between neighbours
    for (int half = 8; half > 0; half /= 2) {
      const int middle = kIq4Levels[q + half - 1] + kIq4Levels[q + half];
      q += half * static_cast<int>(twice > middle);
    }
    return q;
  }
};

/// The scale that minimises the squared error of 32 elements, of some fifteen tried around the one
/// that takes the peak to the outermost level. May be negative; 0 for zeros.
static inline double fit_iq4_scale(const float* x) {
  const double peak = signed_peak(x, 32);
  double best_scale = 0;
  double best_gain = 0;
  for (int trial = -7; trial <= 7; ++trial) {
    const LevelRounder round(peak / (kIq4Levels[0] + 2.0 * trial));
    double sum_xv = 0;
    double sum_vv = 0;
    for (int i = 0; i < 32; ++i) {
      const double level = kIq4Levels[round(x[i])];
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
  const LevelRounder round(f16_to_f32(block.scale));
  for (int j = 0; j < 16; ++j) {
    const int low = round(in[j]);
    const int high = round(in[j + 16]);
    block.quants[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace hasten::quant
