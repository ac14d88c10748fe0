// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., 2021): pairs of elements turn by position * frequency.
#include <cmath>

#include "base/error.h"
#include "ops/reference/operations.h"

namespace hasten::ops::reference {

void rope_angles(const RopeAnglesParams& params) {
  const auto num_tokens = static_cast<int64_t>(params.positions.size());
  const int64_t half = params.inv_freq.dim(0);
  HASTEN_CHECK(params.out.shape() == (Shape{num_tokens, 2, half}));

  for (int64_t t = 0; t < num_tokens; ++t) {
    float* cosines = params.out.f32() + t * 2 * half;
    float* sines = cosines + half;
    for (int64_t j = 0; j < half; ++j) {
      // In double: a float product loses the angle at long contexts.
      const double angle = double(params.positions[t]) * double{params.inv_freq.f32()[j]};
      cosines[j] = static_cast<float>(params.magnitude * std::cos(angle));
      sines[j] = static_cast<float>(params.magnitude * std::sin(angle));
    }
  }
}

void rope(const RopeParams& params) {
  const int64_t num_tokens = params.x.dim(0);
  const int64_t num_heads = params.x.dim(1);
  const int64_t head_dim = params.x.dim(2);
  const int64_t half = params.angles.dim(2);
  HASTEN_CHECK(params.angles.shape() == (Shape{num_tokens, 2, half}));
  HASTEN_CHECK(2 * half <= head_dim);

  const bool interleaved = params.layout == RopeLayout::interleaved;
  for (int64_t t = 0; t < num_tokens; ++t) {
    const float* cosines = params.angles.f32() + t * 2 * half;
    const float* sines = cosines + half;
    for (int64_t h = 0; h < num_heads; ++h) {
      float* x = params.x.f32() + (t * num_heads + h) * head_dim;
      for (int64_t j = 0; j < half; ++j) {
        float& first = x[interleaved ? 2 * j : j];
        float& second = x[interleaved ? 2 * j + 1 : j + half];
        const double a = first;
        const double b = second;
        first = static_cast<float>(a * cosines[j] - b * sines[j]);
        second = static_cast<float>(a * sines[j] + b * cosines[j]);
      }
    }
  }
}

}  // namespace hasten::ops::reference
