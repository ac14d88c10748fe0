// SPDX-License-Identifier: Apache-2.0
// Fused operations, composed of the plain ones for backends that have no kernel of their own.
#include "ops/backend.h"

namespace hasten::ops {

void Backend::matmul_group(std::span<const MatmulParams> group) {
  for (const MatmulParams& params : group) matmul(params);
}

void Backend::add_rms_norm(const AddRmsNormParams& params) {
  add(params.x, params.delta);
  rms_norm({.x = params.x, .weight = params.weight, .epsilon = params.epsilon, .out = params.out});
}

}  // namespace hasten::ops
