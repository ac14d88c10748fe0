// SPDX-License-Identifier: Apache-2.0
// The style of Gemma, and the scale of its scores.
#include "models/layers/gemma.h"

#include <cmath>

namespace hasten::models {
namespace {

bool is_gguf(const BuildInput& input) {
  return input.checkpoint.format() == weights::Checkpoint::Format::gguf;
}

}  // namespace

DecoderStyle gemma_style(const BuildInput& input) {
  DecoderStyle style;
  style.post_norms = true;
  style.embedding_scale =
      static_cast<float>(std::sqrt(static_cast<double>(input.hyperparameters.dim)));
  // The converter to GGUF adds the one.
  style.norm_offset = style.attention.norm_offset = is_gguf(input) ? 0.0F : 1.0F;
  return style;
}

Hyperparameters with_gemma_query_scalar(const BuildInput& input, int64_t layers_of_27b) {
  Hyperparameters h = input.hyperparameters;
  if (h.query_scalar > 0) return h;
  if (!is_gguf(input)) {
    h.query_scalar = 256.0;  // what transformers assumes
  } else if (h.num_layers == layers_of_27b) {
    h.query_scalar = static_cast<double>(h.dim) / static_cast<double>(h.num_heads);
  }
  return h;
}

}  // namespace hasten::models
