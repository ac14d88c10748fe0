// SPDX-License-Identifier: Apache-2.0
// Llama 2, 3, 3.1 and 3.2 (Touvron et al., 2023; Grattafiori et al., 2024).
#include "models/family.h"

namespace hasten::models {
namespace {

std::unique_ptr<Model> build_llama(const BuildInput& input) {
  BuildInput llama = input;
  DecoderStyle style;
  style.attention.qkv_bias = input.hyperparameters.qkv_bias;
  if (input.checkpoint.format() == weights::Checkpoint::Format::gguf) {
    // The converter to GGUF reorders the rows of Q and K, so that rotated pairs are neighbours as
    // in the original checkpoints.
    style.attention.rope_layout = ops::RopeLayout::interleaved;
  } else {
    // LlamaForCausalLM has no window, whatever a config inherited; GGUF calls Mistral "llama" too.
    llama.hyperparameters.window = 0;
  }
  return make_decoder(llama, style);
}

}  // namespace

Family llama() {
  Hyperparameters defaults;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 10000.0;
  return {.name = "llama",
          .gguf_architectures = {"llama"},
          .hf_architectures = {"LlamaForCausalLM"},
          .defaults = defaults,
          .build = build_llama};
}

}  // namespace hasten::models
