// SPDX-License-Identifier: Apache-2.0
// Matrices for tests of weights.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "quant/codec.h"
#include "tensor/tensor.h"

namespace hasten::cpu {

/// Normally distributed around 0.01, encoded as `dtype`.
inline OwnedTensor random_matrix(DType dtype, int64_t rows, int64_t columns, uint32_t seed = 11) {
  OwnedTensor matrix(dtype, {rows, columns});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.01F, 0.1F);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (float& v : row) v = normal(random);
    quant::encode_row(dtype, row.data(), matrix.view.row(r), columns);
  }
  return matrix;
}

}  // namespace hasten::cpu
