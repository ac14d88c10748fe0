// SPDX-License-Identifier: Apache-2.0
// The gated feed-forward block.
#include "models/layers/gated_mlp.h"

namespace hasten::models {

GatedMlp::GatedMlp(WeightLoader& load, int64_t layer, const Hyperparameters& h, bool fused)
    : activation_(h.activation) {
  LinearSource gate{.name = fused ? names::kGateUp : names::kGate,
                    .layer = layer,
                    .out_features = h.ffn_dim,
                    .in_features = h.dim,
                    .file_rows = fused ? 2 * h.ffn_dim : h.ffn_dim};
  LinearSource up = gate;
  if (fused)
    up.first_row = h.ffn_dim;
  else
    up.name = names::kUp;
  gate_ = load.linear(gate);
  up_ = load.linear(up);
  down_ = load.linear(
      {.name = names::kDown, .layer = layer, .out_features = h.dim, .in_features = h.ffn_dim});
}

Tensor GatedMlp::operator()(const Step& step, const ops::AddRmsNormParams& norm) const {
  const Activations& a = step.activations;
  step.backend.norm_gated_mlp(norm,
                              {.gate = gate_.times(norm.out, a.gate),
                               .up = up_.times(norm.out, a.up),
                               .activation = activation_,
                               .out = a.gate},
                              down_.times(a.gate, a.delta));
  return a.delta;
}

}  // namespace hasten::models
