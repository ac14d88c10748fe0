// SPDX-License-Identifier: Apache-2.0
// Mistral 7B and its kin (Jiang et al., 2023): Llama with a window in every layer, unless the file
// says null. Their GGUF files call themselves "llama".
#include "models/family.h"

namespace hasten::models {

Family mistral() {
  Hyperparameters defaults;
  defaults.norm_epsilon = 1e-6;
  defaults.rope_base = 10000.0;
  defaults.window = 4096;  // what transformers' MistralConfig assumes
  return {.name = "mistral",
          .gguf_architectures = {},
          .hf_architectures = {"MistralForCausalLM"},
          .defaults = defaults,
          .build = [](const BuildInput& input) { return make_decoder(input, {}); }};
}

}  // namespace hasten::models
