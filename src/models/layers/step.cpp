// SPDX-License-Identifier: Apache-2.0
// Laying out the activations, and the two small parts that every layer is made with.
#include "models/layers/step.h"

#include <utility>

#include "base/checked.h"

namespace hasten::models {
namespace {

/// Hands out pieces of the arena, each starting on a cache line.
class Cutter {
 public:
  explicit Cutter(const Tensor& arena) : arena_(arena) {}

  Tensor take(Shape shape) {
    const int64_t begin = used_;
    used_ += round_up(shape.num_elements(), kFloatsPerLine);
    if (!arena_.defined()) return {};
    HASTEN_CHECK(used_ <= arena_.num_elements());
    return {arena_.f32() + begin, DType::f32, shape, arena_.device()};
  }
  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kFloatsPerLine = Buffer::kAlignment / sizeof(float);
  Tensor arena_;  // undefined: only count
  int64_t used_ = 0;
};

Activations lay_out(Cutter& cutter, const ActivationSizes& sizes, int64_t num_tokens) {
  Activations a;
  a.x = cutter.take({num_tokens, sizes.dim});
  a.norm = cutter.take({num_tokens, sizes.dim});
  a.delta = cutter.take({num_tokens, sizes.dim});
  a.q = cutter.take({num_tokens, sizes.query_dim});
  a.k = cutter.take({num_tokens, sizes.kv_dim});
  a.v = cutter.take({num_tokens, sizes.kv_dim});
  a.heads = cutter.take({num_tokens, sizes.query_dim});
  a.gate = cutter.take({num_tokens, sizes.ffn_dim});
  a.up = cutter.take({num_tokens, sizes.ffn_dim});
  for (size_t i = 0; i < sizes.num_ropes; ++i)
    a.angles[i] = cutter.take({num_tokens, 2, sizes.rotary_dim / 2});
  return a;
}

}  // namespace

int64_t Activations::arena_size(const ActivationSizes& sizes, int64_t num_tokens) {
  Cutter counter{Tensor()};
  lay_out(counter, sizes, num_tokens);
  return counter.used();
}

Activations Activations::cut(const Tensor& arena, const ActivationSizes& sizes,
                             int64_t num_tokens) {
  Cutter cutter(arena);
  return lay_out(cutter, sizes, num_tokens);
}

Activations Activations::first(int64_t num_tokens) const {
  Activations some = *this;
  for (Tensor* tensor : {&some.x, &some.norm, &some.delta, &some.q, &some.k, &some.v, &some.heads,
                         &some.gate, &some.up})
    *tensor = tensor->slice(0, num_tokens);
  for (Tensor& tensor : some.angles)
    if (tensor.defined()) tensor = tensor.slice(0, num_tokens);
  return some;
}

Tensor Norm::operator()(const Step& step, const Tensor& x) const {
  if (weight_.view.defined()) {
    step.backend.rms_norm({.x = x, .weight = weight_.view, .epsilon = epsilon_, .out = x});
  }
  return x;
}

void Residual::operator+=(const Tensor& delta) {
  HASTEN_CHECK(!pending_.defined());
  pending_ = delta;
}

Tensor Residual::norm(const Norm& norm) {
  step_.backend.add_rms_norm(pending_norm(norm));
  return step_.activations.norm;
}

ops::AddRmsNormParams Residual::pending_norm(const Norm& norm) {
  const Activations& a = step_.activations;
  return {.x = a.x,
          .delta = std::exchange(pending_, Tensor()),
          .weight = norm.weight(),
          .epsilon = norm.epsilon(),
          .out = a.norm};
}

}  // namespace hasten::models
