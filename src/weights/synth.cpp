// SPDX-License-Identifier: Apache-2.0
// Puts a synthetic model together: metadata, vocabulary, tensors.
#include "weights/synth.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "quant/codec.h"
#include "weights/gguf_format.h"
#include "weights/gguf_writer.h"
#include "weights/synth/random_weights.h"
#include "weights/synth/shapes.h"
#include "weights/synth/tensors.h"
#include "weights/synth/vocabulary.h"

namespace hasten::weights {
namespace {

using synthetic::ModelShape;
using synthetic::TensorPlan;

// general.file_type: enum llama_ftype of llama.h. Nothing: there is no number for that type.
std::optional<uint32_t> file_type(DType type) {
  switch (type) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::q4_0:
      return 2;
    case DType::q4_1:
      return 3;
    case DType::q8_0:
      return 7;
    case DType::q5_0:
      return 8;
    case DType::q5_1:
      return 9;
    case DType::q2_k:
      return 10;
    case DType::q3_k:
      return 11;
    case DType::q4_k:
      return 14;
    case DType::q5_k:
      return 16;
    case DType::q6_k:
      return 18;
    case DType::iq4_nl:
      return 25;
    case DType::iq4_xs:
      return 30;
    case DType::bf16:
      return 32;
    default:
      break;
  }
  return std::nullopt;
}

bool can_write(DType type) { return quant::has_codec(type) && file_type(type).has_value(); }

// The keys of a family, as llama.cpp's converter writes them.
class ShapeKeys {
 public:
  ShapeKeys(GgufWriter& writer, const ModelShape& shape) : writer_(writer), shape_(shape) {}

  void write() {
    const bool gemma2 = shape_.architecture == "gemma2";
    u32("block_count", shape_.num_layers);
    u32("context_length", shape_.context);
    u32("embedding_length", shape_.hidden);
    u32("feed_forward_length", shape_.feed_forward);
    u32("attention.head_count", shape_.num_heads);
    u32("attention.head_count_kv", shape_.num_kv_heads);
    f32("attention.layer_norm_rms_epsilon", shape_.rms_epsilon);
    if (shape_.architecture != "phi3") {
      u32("attention.key_length", shape_.head_dim);
      u32("attention.value_length", shape_.head_dim);
    }
    if (shape_.sliding_window > 0) u32("attention.sliding_window", shape_.sliding_window);
    if (!gemma2) f32("rope.freq_base", shape_.rope_base);  // Gemma 2's is the default, 10000
    if (shape_.architecture == "llama") u32("vocab_size", shape_.vocabulary_size);
    if (shape_.architecture == "llama" || shape_.architecture == "phi3")
      u32("rope.dimension_count", shape_.head_dim);
    if (gemma2) {
      f32("attn_logit_softcapping", 50);
      f32("final_logit_softcapping", 30);
    }
    if (shape_.architecture == "phi3") write_longrope();
  }

 private:
  void write_longrope() {
    const int64_t original = shape_.original_context > 0 ? shape_.original_context : shape_.context;
    u32("rope.scaling.original_context_length", original);
    if (original == shape_.context) return;
    // LongRoPE, Ding et al. 2024: attention is scaled by sqrt(1 + ln(scale) / ln(original)).
    const auto length = static_cast<double>(original);
    const double scale = static_cast<double>(shape_.context) / length;
    f32("rope.scaling.attn_factor",
        static_cast<float>(std::sqrt(1 + std::log(scale) / std::log(length))));
  }

  [[nodiscard]] std::string key(std::string_view name) const {
    return fmt::format("{}.{}", shape_.architecture, name);
  }
  void u32(std::string_view name, int64_t value) {
    writer_.set_u32(key(name), static_cast<uint32_t>(value));
  }
  void f32(std::string_view name, float value) { writer_.set_f32(key(name), value); }

  GgufWriter& writer_;
  const ModelShape& shape_;
};

void write_metadata(GgufWriter& writer, const ModelShape& shape, DType type) {
  writer.set_string("general.architecture", shape.architecture);
  writer.set_string("general.type", "model");
  writer.set_string("general.name", fmt::format("{} with random weights", shape.name));
  writer.set_u32("general.file_type", file_type(type).value());
  writer.set_u32("general.quantization_version", 2);
  ShapeKeys(writer, shape).write();
  synthetic::write_vocabulary(writer, shape.vocabulary, shape.vocabulary_size);
}

int64_t bytes_of(const TensorPlan& plan) {
  return Tensor(static_cast<const void*>(nullptr), plan.dtype, plan.shape).num_bytes();
}

}  // namespace

std::vector<std::string_view> synth_shapes() {
  std::vector<std::string_view> names;
  for (const ModelShape& shape : synthetic::model_shapes()) names.push_back(shape.name);
  return names;
}

DType synth_type(std::string_view name, std::string_view flag) {
  const auto type = dtype_from_name(name);
  if (type && can_write(*type)) return *type;
  std::string known;
  for (const DTypeInfo& row : dtypes())
    if (can_write(row.dtype)) known += fmt::format(" {}", row.name);
  fail_param("type", "{} {} is unknown; known:{}", flag, name, known);
}

SynthResult synth(const SynthOptions& options) {
  const ModelShape& shape = synthetic::find_shape(options.shape);
  if (!can_write(options.type)) {
    fail(ErrorCode::invalid_argument, "weights cannot be of type {}", info(options.type).name);
  }
  const std::vector<TensorPlan> plans = synthetic::plan_tensors(shape, options.type);
  GgufWriter writer(options.out);
  write_metadata(writer, shape, options.type);
  SynthResult result;
  int64_t bytes_total = 0;
  for (const TensorPlan& plan : plans) {
    writer.declare(plan.name, plan.dtype, plan.shape);
    result.num_parameters += plan.shape.num_elements();
    ++result.tensors_of_type[plan.dtype];
    bytes_total += bytes_of(plan);
  }
  synthetic::RandomWeights weights(options.seed);
  int64_t bytes_done = 0;
  const auto append = [&](std::span<const std::byte> bytes) {
    writer.append(bytes);
    bytes_done += static_cast<int64_t>(bytes.size());
    if (options.progress) options.progress(bytes_done, bytes_total);
  };
  for (const TensorPlan& plan : plans) {
    if (!plan.values.empty()) {
      append(std::as_bytes(std::span(plan.values)));
    } else {
      weights.generate(plan.dtype, plan.mean, plan.deviation, plan.shape.num_elements(),
                       hash_bytes(plan.name), append);
    }
  }
  writer.finish();
  result.num_bytes = static_cast<int64_t>(std::filesystem::file_size(options.out));
  return result;
}

}  // namespace hasten::weights
