// SPDX-License-Identifier: Apache-2.0
// Products with weights of any format: a row is decoded to float, then used as it is.
#include <vector>

#include "base/error.h"
#include "ops/reference/operations.h"
#include "quant/codec.h"

namespace hasten::ops::reference {

void embed(const EmbedParams& params) {
  const Tensor& table = params.table.source();
  const auto num_tokens = static_cast<int64_t>(params.ids.size());
  const int64_t dim = table.dim(1);
  HASTEN_CHECK(params.out.shape() == (Shape{num_tokens, dim}));
  for (const int32_t id : params.ids) {
    if (id < 0 || id >= table.dim(0)) {
      fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", id,
           table.dim(0));
    }
  }

  float* out = params.out.f32();
  for (const int32_t id : params.ids) {
    quant::decode_row(table.dtype(), table.row(id), out, dim);
    for (int64_t i = 0; i < dim; ++i) out[i] *= params.scale;
    out += dim;
  }
}

void matmul(const MatmulParams& params) {
  const Tensor& weight = params.weight.source();
  const int64_t n = weight.dim(0);
  const int64_t k = weight.dim(1);
  const bool gathered = !params.rows.empty();
  const int64_t m = gathered ? static_cast<int64_t>(params.rows.size()) : params.x.dim(0);
  HASTEN_CHECK(params.x.shape() == (Shape{params.x.dim(0), k}));
  HASTEN_CHECK(params.out.shape() == (Shape{m, n}));
  HASTEN_CHECK(!params.bias.defined() || params.bias.shape() == Shape{n});
  for (const int32_t row : params.rows) HASTEN_CHECK(row >= 0 && row < params.x.dim(0));

  std::vector<float> w(static_cast<size_t>(k));
  for (int64_t column = 0; column < n; ++column) {
    quant::decode_row(weight.dtype(), weight.row(column), w.data(), k);
    for (int64_t row = 0; row < m; ++row) {
      const float* x = params.x.f32() + (gathered ? params.rows[row] : row) * k;
      double sum = params.bias.defined() ? params.bias.f32()[column] : 0.0;
      for (int64_t i = 0; i < k; ++i) sum += double{w[i]} * double{x[i]};
      params.out.f32()[row * n + column] = static_cast<float>(sum);
    }
  }
}

}  // namespace hasten::ops::reference
