// SPDX-License-Identifier: Apache-2.0
// The gated feed-forward block (GLU variants, Shazeer, 2020).
#pragma once

#include <cstdint>

#include "models/layers/hyperparameters.h"
#include "models/layers/step.h"
#include "models/layers/weight_loader.h"

namespace hasten::models {

/// Const after construction.
class GatedMlp {
 public:
  /// `fused`: gate and up are one matrix in the file, gate's rows first.
  GatedMlp(WeightLoader& load, int64_t layer, const Hyperparameters& h, bool fused);

  /// Down · (activation(Gate x) ∘ Up x); x, which the norm makes, and the result are
  /// [num_tokens, dim].
  Tensor operator()(const Step& step, const ops::AddRmsNormParams& norm) const;

 private:
  ops::Activation activation_;
  Linear gate_, up_, down_;
};

}  // namespace hasten::models
