// SPDX-License-Identifier: Apache-2.0
// What is common to both formats of hyperparameters: bounds, derived values, consistency.
#include "models/layers/hyperparameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "models/layers/config_reader.h"

namespace hasten::models {
namespace {

template <class T>
void check_bounds(const ConfigReader& reader, const std::string& key, bool present, T value, T min,
                  T max) {
  if (value >= min && value <= max) return;  // false for NaN
  if (!present) fail(ErrorCode::invalid_data, "{} has no {}", reader.file(), key);
  fail(ErrorCode::invalid_data, "{}: {} is {}; it must be between {} and {}", reader.file(), key,
       value, min, max);
}

void check_consistent(const Hyperparameters& h, const std::string& file) {
  if (h.num_heads % h.num_kv_heads != 0) {
    fail(ErrorCode::invalid_data, "{}: {} attention heads do not divide among {} key/value heads",
         file, h.num_heads, h.num_kv_heads);
  }
  if (h.head_dim < 1 || h.head_dim > kMaxHeadDim) {
    fail(ErrorCode::invalid_data, "{}: the size of a head is {}; it must be between 1 and {}", file,
         h.head_dim, kMaxHeadDim);
  }
  if (h.rotary_dim < 2 || h.rotary_dim > h.head_dim || h.rotary_dim % 2 != 0) {
    fail(ErrorCode::invalid_data,
         "{}: {} rotary dimensions; they must be even, at least 2 and at most the {} of a head",
         file, h.rotary_dim, h.head_dim);
  }
}

}  // namespace

void ConfigReader::read(std::string_view key, int64_t& field, int64_t min, int64_t max) const {
  const bool present = has(key);
  if (present) field = integer(key);
  check_bounds(*this, shown(key), present, field, min, max);
}

void ConfigReader::read(std::string_view key, double& field, double min, double max) const {
  const bool present = has(key);
  if (present) field = number(key);
  check_bounds(*this, shown(key), present, field, min, max);
}

void ConfigReader::read(std::string_view key, bool& field) const {
  if (has(key)) field = flag(key);
}

void ConfigReader::read(std::string_view key, std::vector<double>& field, int64_t count, double min,
                        double max) const {
  if (has(key)) field = numbers(key);
  if (static_cast<int64_t>(field.size()) != count) {
    fail(ErrorCode::invalid_data, "{}: {} has {} numbers; it must have {}", file_, shown(key),
         field.size(), count);
  }
  for (const double value : field) check_bounds(*this, shown(key), true, value, min, max);
}

RopeScaling::Kind rope_scaling_kind(std::string_view name, const std::string& file) {
  using Kind = RopeScaling::Kind;
  if (name == "default" || name == "none") return Kind::none;
  if (name == "linear") return Kind::linear;
  if (name == "dynamic") return Kind::dynamic;
  if (name == "yarn") return Kind::yarn;
  if (name == "llama3") return Kind::llama3;
  if (name == "longrope" || name == "su") return Kind::longrope;
  fail(ErrorCode::unsupported,
       "{}: RoPE scaling of type {} is not known; known are default, linear, dynamic, yarn, "
       "llama3 and longrope",
       file, printable(name));
}

int64_t stretched_context(const Hyperparameters& h) {
  const double context =
      static_cast<double>(h.rope_scaling.original_context) * h.rope_scaling.factor;
  return std::max(h.max_context, static_cast<int64_t>(std::min(context, double{kMaxContext})));
}

int64_t Hyperparameters::layer_window(int64_t layer) const {
  if (!use_window) return 0;
  if (!layer_windowed.empty()) return layer_windowed[static_cast<size_t>(layer)] ? window : 0;
  const bool global = window_pattern > 0 && (layer + 1) % window_pattern == 0;
  return global || layer < first_window_layer ? 0 : window;
}

Hyperparameters read_hyperparameters(const weights::Checkpoint& checkpoint,
                                     const Hyperparameters& defaults) {
  Hyperparameters h = checkpoint.format() == weights::Checkpoint::Format::gguf
                          ? read_gguf(checkpoint, defaults)
                          : read_hugging_face(checkpoint, defaults);
  check_consistent(h, checkpoint.path().string());
  return h;
}

}  // namespace hasten::models
