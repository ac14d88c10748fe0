// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen2.5 (Yang et al., 2024): Q, K and V have biases; a window is an option that the
// published models leave off.
#include "models/family.h"

namespace hasten::models {
namespace {

std::unique_ptr<Model> build_qwen2(const BuildInput& input) {
  DecoderStyle style;
  style.attention.qkv_bias = true;
  return make_decoder(input, style);
}

}  // namespace

Family qwen2() {
  Hyperparameters defaults;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 10000.0;
  defaults.use_window = false;
  defaults.first_window_layer = 28;
  return {.name = "qwen2",
          .gguf_architectures = {"qwen2"},
          .hf_architectures = {"Qwen2ForCausalLM"},
          .defaults = defaults,
          .build = build_qwen2};
}

}  // namespace hasten::models
