// SPDX-License-Identifier: Apache-2.0
// Qwen3 (Yang et al., 2025): each head of Q and K is normalised; the size of a head is stated and
// may differ from dim / heads.
#include "models/family.h"

namespace hasten::models {
namespace {

std::unique_ptr<Model> build_qwen3(const BuildInput& input) {
  DecoderStyle style;
  style.attention.qk_norm = true;
  style.attention.qkv_bias = input.hyperparameters.qkv_bias;
  return make_decoder(input, style);
}

}  // namespace

Family qwen3() {
  Hyperparameters defaults;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 10000.0;
  defaults.head_dim = 128;
  defaults.use_window = false;
  defaults.first_window_layer = 28;
  return {.name = "qwen3",
          .gguf_architectures = {"qwen3"},
          .hf_architectures = {"Qwen3ForCausalLM"},
          .defaults = defaults,
          .build = build_qwen3};
}

}  // namespace hasten::models
