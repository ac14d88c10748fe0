// SPDX-License-Identifier: Apache-2.0
// The tensors of each family.
#include "weights/synth/tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace hasten::weights::synthetic {
namespace {

// Factors by which Llama 3.1 divides its rotary frequencies: 1 above the high limit, `factor` below
// the low one, a smooth change between (limits 1 and 4 wavelengths per original context).
std::vector<float> llama3_rope_factors(const ModelShape& shape) {
  constexpr double kLow = 1;
  constexpr double kHigh = 4;
  const auto original = static_cast<double>(shape.original_context);
  std::vector<float> factors;
  for (int64_t i = 0; i < shape.head_dim / 2; ++i) {
    const double wavelength = 2 * std::numbers::pi *
                              std::pow(shape.rope_base, 2.0 * static_cast<double>(i) /
                                                            static_cast<double>(shape.head_dim));
    const double turns = original / wavelength;
    double factor = 1;
    if (turns < kLow) factor = shape.llama3_rope_factor;
    if (turns >= kLow && turns <= kHigh) {
      const double smooth = (turns - kLow) / (kHigh - kLow);
      factor = 1 / ((1 - smooth) / shape.llama3_rope_factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

// Factors of longrope rising geometrically from 1 to `last`, as the published ones roughly do.
std::vector<float> longrope_factors(const ModelShape& shape, double last) {
  const int64_t count = shape.head_dim / 2;
  std::vector<float> factors;
  for (int64_t i = 0; i < count; ++i) {
    factors.push_back(static_cast<float>(
        std::pow(last, static_cast<double>(i) / static_cast<double>(count - 1))));
  }
  return factors;
}

class Planner {
 public:
  Planner(const ModelShape& shape, DType type) : shape_(shape), type_(type) {}

  std::vector<TensorPlan> plan() {
    matrix("token_embd.weight", shape_.vocabulary_size, shape_.hidden);
    rope_factors();
    for (int64_t i = 0; i < shape_.num_layers; ++i) layer(fmt::format("blk.{}.", i));
    output_norm();
    if (!shape_.tied_output) matrix("output.weight", shape_.vocabulary_size, shape_.hidden);
    return std::move(plan_);
  }

 private:
  void layer(const std::string& prefix) {
    const bool gemma = shape_.architecture == "gemma2" || shape_.architecture == "gemma3";
    norm(prefix + "attn_norm.weight", shape_.hidden);
    attention(prefix);
    if (gemma) norm(prefix + "post_attention_norm.weight", shape_.hidden);
    norm(prefix + "ffn_norm.weight", shape_.hidden);
    feed_forward(prefix);
    if (gemma) norm(prefix + "post_ffw_norm.weight", shape_.hidden);
  }

  void attention(const std::string& prefix) {
    const int64_t q_width = shape_.num_heads * shape_.head_dim;
    const int64_t kv_width = shape_.num_kv_heads * shape_.head_dim;
    if (shape_.architecture == "phi3") {
      matrix(prefix + "attn_qkv.weight", q_width + 2 * kv_width, shape_.hidden);
    } else {
      matrix(prefix + "attn_q.weight", q_width, shape_.hidden);
      matrix(prefix + "attn_k.weight", kv_width, shape_.hidden);
      matrix(prefix + "attn_v.weight", kv_width, shape_.hidden);
    }
    if (shape_.architecture == "qwen2") {
      bias(prefix + "attn_q.bias", q_width);
      bias(prefix + "attn_k.bias", kv_width);
      bias(prefix + "attn_v.bias", kv_width);
    }
    if (shape_.architecture == "qwen3" || shape_.architecture == "gemma3") {
      norm(prefix + "attn_q_norm.weight", shape_.head_dim);
      norm(prefix + "attn_k_norm.weight", shape_.head_dim);
    }
    matrix(prefix + "attn_output.weight", shape_.hidden, q_width, residual_scale());
  }

  void feed_forward(const std::string& prefix) {
    if (shape_.architecture == "phi3") {
      matrix(prefix + "ffn_up.weight", 2 * shape_.feed_forward, shape_.hidden);
    } else {
      matrix(prefix + "ffn_gate.weight", shape_.feed_forward, shape_.hidden);
      matrix(prefix + "ffn_up.weight", shape_.feed_forward, shape_.hidden);
    }
    matrix(prefix + "ffn_down.weight", shape_.hidden, shape_.feed_forward, residual_scale());
  }

  // What is added to the residual stream shrinks with depth, so that the sum keeps its size (as
  // GPT-2 initialises).
  [[nodiscard]] double residual_scale() const {
    return 1 / std::sqrt(2.0 * static_cast<double>(shape_.num_layers));
  }

  // [rows, columns] that keeps the variance of its input, times `scale`.
  void matrix(std::string name, int64_t rows, int64_t columns, double scale = 1) {
    const double deviation = scale / std::sqrt(static_cast<double>(columns));
    plan_.push_back({.name = std::move(name),
                     .dtype = storable_type(type_, columns),
                     .shape = {rows, columns},
                     .mean = 0,
                     .deviation = static_cast<float>(deviation)});
  }

  void norm(std::string name, int64_t size) { vector(std::move(name), size, 1, 0.1F); }
  void bias(std::string name, int64_t size) { vector(std::move(name), size, 0, 0.1F); }

  // Where the output matrix is the embedding, weights of one sign here would let every token
  // predict itself; of both signs, they make it like any other.
  void output_norm() {
    if (shape_.tied_output) {
      vector("output_norm.weight", shape_.hidden, 0, 1);
    } else {
      norm("output_norm.weight", shape_.hidden);
    }
  }

  void vector(std::string name, int64_t size, float mean, float deviation) {
    plan_.push_back({.name = std::move(name),
                     .dtype = DType::f32,
                     .shape = {size},
                     .mean = mean,
                     .deviation = deviation});
  }

  void rope_factors() {
    if (shape_.llama3_rope_factor > 0) {
      factors("rope_freqs.weight", llama3_rope_factors(shape_));
    } else if (shape_.original_context > 0) {
      const double scale =
          static_cast<double>(shape_.context) / static_cast<double>(shape_.original_context);
      factors("rope_factors_long.weight", longrope_factors(shape_, 2 * scale));
      factors("rope_factors_short.weight", longrope_factors(shape_, 2.8));
    }
  }

  void factors(std::string name, std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    plan_.push_back({.name = std::move(name),
                     .dtype = DType::f32,
                     .shape = {count},
                     .mean = 0,
                     .deviation = 0,
                     .values = std::move(values)});
  }

  const ModelShape& shape_;
  DType type_;
  std::vector<TensorPlan> plan_;
};

// The 32-element format that llama.cpp puts in place of one of 256.
DType smaller_block(DType type) {
  switch (type) {
    case DType::q2_k:
    case DType::q3_k:
    case DType::iq4_xs:
      return DType::iq4_nl;
    case DType::q4_k:
      return DType::q5_0;
    case DType::q5_k:
      return DType::q5_1;
    case DType::q6_k:
      return DType::q8_0;
    default:
      return type;
  }
}

}  // namespace

DType storable_type(DType type, int64_t row_elements) {
  for (const DType candidate : {type, smaller_block(type)}) {
    if (row_elements % info(candidate).block_size == 0) return candidate;
  }
  return DType::f16;
}

std::vector<TensorPlan> plan_tensors(const ModelShape& shape, DType type) {
  return Planner(shape, type).plan();
}

}  // namespace hasten::weights::synthetic
