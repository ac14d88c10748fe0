// SPDX-License-Identifier: Apache-2.0
// Gemma 2 (Riviere et al., 2024): every other layer has a window, scores and logits are
// soft-capped, both blocks are normalised before and after.
#include "models/family.h"
#include "models/layers/gemma.h"

namespace hasten::models {
namespace {

constexpr int64_t kLayersOfGemma2At27B = 46;

std::unique_ptr<Model> build_gemma2(const BuildInput& input) {
  BuildInput gemma = input;
  gemma.hyperparameters = with_gemma_query_scalar(input, kLayersOfGemma2At27B);
  return make_decoder(gemma, gemma_style(input));
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
          .build = build_gemma2};
}

}  // namespace hasten::models
