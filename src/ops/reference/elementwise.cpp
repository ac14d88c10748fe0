// SPDX-License-Identifier: Apache-2.0
// Norms, activations and the other operations that treat each row or element by itself.
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/reference/operations.h"

namespace hasten::ops::reference {
namespace {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: {
      // The tanh approximation of Hendrycks and Gimpel, 2016. (1 + tanh z) / 2 is written as
      // 1 / (1 + exp(-2z)): the sum would cancel to zero far on the negative side.
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * inner));
    }
  }
  HASTEN_CHECK(false);
  return 0.0;
}

}  // namespace

// Root mean square normalisation (Zhang and Sennrich, 2019).
void rms_norm(const RmsNormParams& params) {
  const int64_t dim = params.x.shape().back();
  HASTEN_CHECK(params.weight.shape() == Shape{dim});
  HASTEN_CHECK(params.out.shape() == params.x.shape());

  const float* weight = params.weight.f32();
  for (int64_t row = 0; row < params.x.num_rows(); ++row) {
    const float* x = params.x.f32() + row * dim;
    float* out = params.out.f32() + row * dim;
    double squares = 0.0;
    for (int64_t i = 0; i < dim; ++i) squares += double{x[i]} * double{x[i]};
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(dim) + params.epsilon);
    for (int64_t i = 0; i < dim; ++i) out[i] = static_cast<float>(x[i] * factor * weight[i]);
  }
}

void gated_activation(const GatedActivationParams& params) {
  HASTEN_CHECK(params.up.shape() == params.gate.shape());
  HASTEN_CHECK(params.out.shape() == params.gate.shape());
  const float* gate = params.gate.f32();
  const float* up = params.up.f32();
  float* out = params.out.f32();
  for (int64_t i = 0; i < params.gate.num_elements(); ++i) {
    out[i] = static_cast<float>(activate(params.activation, gate[i]) * up[i]);
  }
}

void add(const Tensor& x, const Tensor& delta) {
  HASTEN_CHECK(x.shape() == delta.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) x.f32()[i] += delta.f32()[i];
}

void take_rows(const Tensor& x, std::span<const int32_t> rows) {
  const int64_t dim = x.shape().back();
  int64_t to = 0;
  for (const int32_t row : rows) {
    HASTEN_CHECK(row >= to && row < x.num_rows());
    for (int64_t i = 0; i < dim; ++i) x.f32()[to * dim + i] = x.f32()[row * dim + i];
    ++to;
  }
}

void soft_cap(const SoftCapParams& params) {
  HASTEN_CHECK(params.cap > 0.0F);
  const double cap = params.cap;
  float* x = params.x.f32();
  for (int64_t i = 0; i < params.x.num_elements(); ++i) {
    x[i] = static_cast<float>(cap * std::tanh(x[i] / cap));
  }
}

}  // namespace hasten::ops::reference
