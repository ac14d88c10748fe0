// SPDX-License-Identifier: Apache-2.0
// Which tensors a model of a given shape has, under the names that llama.cpp gives them.
#pragma once

#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"
#include "weights/synth/shapes.h"

namespace hasten::weights::synthetic {

struct TensorPlan {
  std::string name = {};
  DType dtype = DType::f32;
  Shape shape = {};
  float mean = 0;  // of its normal distribution
  float deviation = 0;
  std::vector<float> values = {};  // when not empty: its elements, instead of random ones
};

/// The tensors in file order; matrices are of `type`, or of what `storable_type` makes of it.
[[nodiscard]] std::vector<TensorPlan> plan_tensors(const ModelShape& shape, DType type);

/// `type`, or the type that llama.cpp falls back to for rows that are no whole blocks of it.
[[nodiscard]] DType storable_type(DType type, int64_t row_elements);

}  // namespace hasten::weights::synthetic
