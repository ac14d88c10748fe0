// SPDX-License-Identifier: Apache-2.0
// Rotary embedding (Su et al., 2021) and its stretched variants, reduced to frequencies.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/hyperparameters.h"

namespace hasten::models {

/// All that RopeAnglesParams needs: a pair j at position p turns by p * inv_freq[j], and cos and
/// sin are multiplied by magnitude.
struct RopeFrequencies {
  std::vector<float> inv_freq;  // [rotary_dim / 2]
  float magnitude = 1.0F;
};

/// The frequencies of base^(-2j / rotary_dim), without any stretching.
[[nodiscard]] RopeFrequencies plain_rope(double base, int64_t rotary_dim);

/// The frequencies that `h` describes, for sequences of up to `context` tokens: dynamic NTK and
/// longrope depend on it. Papers: YaRN (Peng et al., 2023), LongRoPE (Ding et al., 2024), Llama 3
/// (Grattafiori et al., 2024).
[[nodiscard]] RopeFrequencies stretched_rope(const Hyperparameters& h, int64_t context);

}  // namespace hasten::models
