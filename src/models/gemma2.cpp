// SPDX-License-Identifier: Apache-2.0
// Gemma 2 (Riviere et al., 2024): every other layer has a window, scores and logits are
// soft-capped, both blocks are normalised before and after.
#include <cmath>

#include "models/family.h"

namespace hasten::models {
namespace {

// Layers of Gemma 2 27B, the only size whose scores are scaled by dim / heads rather than by the
// size of a head; GGUF files do not say so, and their readers tell it by this number.
constexpr int64_t kLayersOf27B = 46;

std::unique_ptr<Model> build(const BuildInput& input) {
  BuildInput gemma = input;
  Hyperparameters& h = gemma.hyperparameters;
  DecoderStyle style;
  style.post_norms = true;
  style.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(h.dim)));
  if (input.checkpoint.format() == weights::Checkpoint::Format::safetensors) {
    // Weights of norms are stored as their distance from one; the converter to GGUF adds it.
    style.norm_offset = 1.0F;
    if (h.query_scalar == 0) h.query_scalar = 256.0;
  } else if (h.query_scalar == 0 && h.num_layers == kLayersOf27B) {
    h.query_scalar = static_cast<double>(h.dim) / static_cast<double>(h.num_heads);
  }
  return make_decoder(gemma, style);
}

}  // namespace

Family gemma2() {
  Hyperparameters defaults;
  // What transformers' Gemma2Config assumes.
  defaults.num_heads = 8;
  defaults.num_kv_heads = 4;
  defaults.head_dim = 256;
  defaults.max_context = 8192;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 10000.0;
  defaults.activation = ops::Activation::gelu_tanh;
  defaults.window = 4096;
  defaults.window_pattern = 2;
  defaults.attention_soft_cap = 50.0;
  defaults.final_soft_cap = 30.0;
  defaults.tied_output = true;
  return {.name = "gemma2",
          .gguf_architectures = {"gemma2"},
          .hf_architectures = {"Gemma2ForCausalLM"},
          .defaults = defaults,
          .build = build};
}

}  // namespace hasten::models
