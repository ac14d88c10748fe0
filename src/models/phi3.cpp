// SPDX-License-Identifier: Apache-2.0
// Phi-3, Phi-3.5 mini and Phi-4 mini (Abdin et al., 2024): Q, K and V are one matrix, gate and up
// another; long contexts by LongRoPE.
#include "models/family.h"

namespace hasten::models {
namespace {

std::unique_ptr<Model> build_phi3(const BuildInput& input) {
  DecoderStyle style;
  style.attention.fused_qkv = true;
  style.fused_gate_up = true;
  return make_decoder(input, style);
}

}  // namespace

Family phi3() {
  Hyperparameters defaults;
  defaults.norm_epsilon = 1e-5;
  defaults.rope_base = 10000.0;
  return {.name = "phi3",
          .gguf_architectures = {"phi3"},
          .hf_architectures = {"Phi3ForCausalLM"},
          .defaults = defaults,
          .build = build_phi3};
}

}  // namespace hasten::models
