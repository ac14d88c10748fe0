// SPDX-License-Identifier: Apache-2.0
// What the generations of Gemma have in common, beyond the parts of every decoder.
#pragma once

#include <cstdint>

#include "models/layers/decoder.h"

namespace hasten::models {

/// Both blocks normalised before and after, embeddings scaled by √dim, weights of norms stored as
/// their distance from one.
[[nodiscard]] DecoderStyle gemma_style(const BuildInput& input);

/// Completes what scores are scaled by. Only the model of `layers_of_27b` layers takes dim / heads
/// rather than the size of a head; GGUF files do not say so, and their readers tell it by this
/// number.
[[nodiscard]] Hyperparameters with_gemma_query_scalar(const BuildInput& input,
                                                      int64_t layers_of_27b);

}  // namespace hasten::models
