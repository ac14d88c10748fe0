// SPDX-License-Identifier: Apache-2.0
// Gemma 3 (Kamath et al., 2025), the text model, alone or out of a multimodal folder: five layers
// with a window and their own RoPE base to one without, normalised heads of Q and K, and Gemma 2's
// norms without its soft caps.
#include "models/family.h"
#include "models/layers/gemma.h"

namespace hasten::models {
namespace {

constexpr int64_t kLayersOfGemma3At27B = 62;

std::unique_ptr<Model> build_gemma3(const BuildInput& input) {
  BuildInput gemma = input;
  gemma.hyperparameters = with_gemma_query_scalar(input, kLayersOfGemma3At27B);
  DecoderStyle style = gemma_style(input);
  style.attention.qk_norm = true;
  return make_decoder(gemma, style);
}

}  // namespace

Family gemma3() {
  Hyperparameters defaults;
  // Multimodal folders leave out what transformers' Gemma3TextConfig assumes.
  defaults.num_heads = 8;
  defaults.num_kv_heads = 4;
  defaults.head_dim = 256;
  defaults.max_context = 131072;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 1e6;
  defaults.window_rope_base = 10000.0;
  defaults.activation = ops::Activation::gelu_tanh;
  defaults.window = 4096;
  defaults.window_pattern = 6;
  defaults.tied_output = true;
  return {.name = "gemma3",
          .gguf_architectures = {"gemma3"},
          .hf_architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
          .defaults = defaults,
          .build = build_gemma3};
}

}  // namespace hasten::models
