// SPDX-License-Identifier: Apache-2.0
// What the layers of a decoder share during one step: input, activations, and the residual stream.
#pragma once

#include <array>
#include <cstdint>

#include "models/model.h"

namespace hasten::models {

/// RoPE tables that one model may use side by side: layers with and without a window (Gemma 3).
inline constexpr size_t kMaxRopes = 2;

/// Floats per token of each activation.
struct ActivationSizes {
  int64_t dim = 0;
  int64_t query_dim = 0;  // num_heads * head_dim
  int64_t kv_dim = 0;     // num_kv_heads * head_dim
  int64_t ffn_dim = 0;
  int64_t rotary_dim = 0;
  size_t num_ropes = 0;
};

/// Views into one arena, all f32; every layer uses the same ones.
struct Activations {
  Tensor x;                              // [num_tokens, dim], the residual stream
  Tensor norm;                           // [num_tokens, dim], input of a block
  Tensor delta;                          // [num_tokens, dim], output of a block
  Tensor q;                              // [num_tokens, query_dim]
  Tensor k;                              // [num_tokens, kv_dim]
  Tensor v;                              // [num_tokens, kv_dim]
  Tensor heads;                          // [num_tokens, query_dim], output of attention
  Tensor gate;                           // [num_tokens, ffn_dim]
  Tensor up;                             // [num_tokens, ffn_dim]
  std::array<Tensor, kMaxRopes> angles;  // [num_tokens, 2, rotary_dim / 2]

  /// Floats that `cut` needs for that many tokens; grows with num_tokens.
  [[nodiscard]] static int64_t arena_size(const ActivationSizes& sizes, int64_t num_tokens);
  /// Lays the activations of num_tokens into `arena` [at least arena_size] f32. Arithmetic only.
  [[nodiscard]] static Activations cut(const Tensor& arena, const ActivationSizes& sizes,
                                       int64_t num_tokens);
  /// Those of the first tokens, in the same memory.
  [[nodiscard]] Activations first(int64_t num_tokens) const;
};

/// Lives for one forward pass.
struct Step {
  ops::Backend& backend;
  const ForwardInput& input;
  Activations activations;

  [[nodiscard]] int64_t num_tokens() const { return static_cast<int64_t>(input.token_ids.size()); }
};

/// RMS norm (Zhang & Sennrich, 2019) with its weights, or nothing at all where a model has none.
class Norm {
 public:
  Norm() = default;
  Norm(ops::DeviceTensor weight, float epsilon) : weight_(std::move(weight)), epsilon_(epsilon) {}

  /// Normalises each row of `x` [num_rows, size of the weights] in place and returns it; without
  /// weights it returns `x` as it is.
  Tensor operator()(const Step& step, const Tensor& x) const;

  const Tensor& weight() const { return weight_.view; }
  float epsilon() const { return epsilon_; }

 private:
  ops::DeviceTensor weight_;  // [size] f32
  float epsilon_ = 0.0F;
};

/// The residual stream x. An addition waits for the norm that follows it, since backends do both in
/// one pass over memory; so `x += block(x.pending_norm(n))` costs what the fused operation costs.
class Residual {
 public:
  explicit Residual(const Step& step) : step_(step) {}

  /// Adds a block's output. It must stay as it is until the next norm.
  void operator+=(const Tensor& delta);
  /// norm(x), in a buffer that lives until the next call.
  Tensor norm(const Norm& norm);
  /// The same, left to the one operation that takes it, which must run before x is used again.
  [[nodiscard]] ops::AddRmsNormParams pending_norm(const Norm& norm);

 private:
  const Step& step_;
  Tensor pending_;  // not yet added, or undefined
};

}  // namespace hasten::models
