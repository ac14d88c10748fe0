// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer put together from the parts of this folder.
#pragma once

#include <memory>
#include <string_view>

#include "models/layers/attention.h"
#include "models/layers/hyperparameters.h"
#include "models/model.h"

namespace hasten::models {

/// What a family decides beyond its hyperparameters. As it stands it is Llama's.
struct DecoderStyle {
  AttentionStyle attention;
  bool fused_gate_up = false;
  bool post_norms = false;       // the output of both blocks is normalised too
  float norm_offset = 0.0F;      // added to the weights of every norm
  float embedding_scale = 1.0F;  // multiplies the embedding
};

/// What a family is given to build its model from. The references live as long as the model.
struct BuildInput {
  std::string_view family;
  const weights::Checkpoint& checkpoint;
  ops::Backend& backend;
  const LoadOptions& options;
  Hyperparameters hyperparameters;
};

/// Loads the weights and returns the model. Errors as load_model.
[[nodiscard]] std::unique_ptr<Model> make_decoder(const BuildInput& input,
                                                  const DecoderStyle& style);

}  // namespace hasten::models
