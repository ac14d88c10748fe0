// SPDX-License-Identifier: Apache-2.0
// Hyperparameters from the config.json of a Hugging Face folder.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "models/layers/config_reader.h"

namespace hasten::models {
namespace {

class JsonReader final : public ConfigReader {
 public:
  JsonReader(const json::Object& object, std::string file, std::string prefix = {})
      : ConfigReader(std::move(file)), object_(object), prefix_(std::move(prefix)) {}

  bool has(std::string_view key) const override {
    const json::Value* value = object_.if_contains(key);
    return value != nullptr && !value->is_null();
  }
  /// As the others, but null stands for zero: it turns off what a family has by default.
  void read_or_null(std::string_view key, double& field, double max) const {
    if (is_null(key)) field = 0.0;
    read(key, field, 0.0, max);
  }
  void read_or_null(std::string_view key, int64_t& field, int64_t max) const {
    if (is_null(key)) field = 0;
    read(key, field, 0, max);
  }
  std::optional<std::string> text(std::string_view key) const override {
    if (!has(key)) return std::nullopt;
    if (!object_.at(key).is_string()) wrong_type(key, "a string");
    return std::string(object_.at(key).get_string());
  }
  /// The object under `key`, or nullopt.
  std::optional<JsonReader> nested(std::string_view key) const {
    if (!has(key)) return std::nullopt;
    if (!object_.at(key).is_object()) wrong_type(key, "an object");
    return JsonReader(object_.at(key).get_object(), file(), shown(key) + ".");
  }
  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> result;
    for (const json::Value& value : array(key)) {
      if (!value.is_string()) wrong_type(key, "an array of strings");
      result.emplace_back(value.get_string());
    }
    return result;
  }

 protected:
  int64_t integer(std::string_view key) const override {
    const json::Value& value = object_.at(key);
    // Whole numbers are sometimes written as floats (4096.0).
    if (value.is_double() && std::nearbyint(value.get_double()) == value.get_double() &&
        std::abs(value.get_double()) < 0x1p53) {
      return static_cast<int64_t>(value.get_double());
    }
    if (!value.is_int64()) wrong_type(key, "a whole number");
    return value.get_int64();
  }
  double number(std::string_view key) const override { return to_number(object_.at(key), key); }
  bool flag(std::string_view key) const override {
    if (!object_.at(key).is_bool()) wrong_type(key, "true or false");
    return object_.at(key).get_bool();
  }
  std::vector<double> numbers(std::string_view key) const override {
    std::vector<double> result;
    for (const json::Value& value : array(key)) result.push_back(to_number(value, key));
    return result;
  }
  std::string shown(std::string_view key) const override { return prefix_ + std::string(key); }

 private:
  bool is_null(std::string_view key) const {
    const json::Value* value = object_.if_contains(key);
    return value != nullptr && value->is_null();
  }
  [[noreturn]] void wrong_type(std::string_view key, std::string_view wanted) const {
    fail(ErrorCode::invalid_data, "{}: {} must be {}", file(), shown(key), wanted);
  }
  const json::Array& array(std::string_view key) const {
    if (!object_.at(key).is_array()) wrong_type(key, "an array");
    return object_.at(key).get_array();
  }
  double to_number(const json::Value& value, std::string_view key) const {
    if (value.is_double()) return value.get_double();
    if (!value.is_int64()) wrong_type(key, "a number");
    return static_cast<double>(value.get_int64());
  }

  const json::Object& object_;
  std::string prefix_;
};

ops::Activation read_activation(const JsonReader& read, ops::Activation fallback) {
  // Gemma files carry both keys; hidden_activation is the one that counts.
  const auto name =
      read.has("hidden_activation") ? read.text("hidden_activation") : read.text("hidden_act");
  if (!name) return fallback;
  if (*name == "silu" || *name == "swish") return ops::Activation::silu;
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_new") return ops::Activation::gelu_tanh;
  fail(ErrorCode::unsupported,
       "{}: activation {} is not known; known are silu and gelu_pytorch_tanh", read.file(),
       printable(*name));
}

void read_windows(const JsonReader& read, Hyperparameters& h) {
  read.read_or_null("sliding_window", h.window, kMaxContext);
  read.read("use_sliding_window", h.use_window);
  read.read("sliding_window_pattern", h.window_pattern, 0, kMaxLayers);
  read.read("max_window_layers", h.first_window_layer, 0, kMaxContext);
  if (!read.has("layer_types")) return;
  const std::vector<std::string> types = read.texts("layer_types");
  if (static_cast<int64_t>(types.size()) != h.num_layers) {
    fail(ErrorCode::invalid_data, "{}: layer_types names {} layers of {}", read.file(),
         types.size(), h.num_layers);
  }
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      fail(ErrorCode::unsupported, "{}: layers of type {} are not supported", read.file(),
           printable(type));
    }
    h.layer_windowed.push_back(type == "sliding_attention");
  }
}

/// `read` is the object that describes the scaling, `config` the one around it.
void read_rope_scaling(const JsonReader& read, const JsonReader& config, Hyperparameters& h) {
  RopeScaling& scaling = h.rope_scaling;
  const auto type = read.has("rope_type") ? read.text("rope_type") : read.text("type");
  scaling.kind = rope_scaling_kind(type.value_or("default"), read.file());
  if (scaling.kind == RopeScaling::Kind::none) return;

  const JsonReader& origin = read.has("original_max_position_embeddings") ? read : config;
  const bool says_original = origin.has("original_max_position_embeddings");
  scaling.original_context = scaling.kind == RopeScaling::Kind::llama3 ? 0 : h.max_context;
  origin.read("original_max_position_embeddings", scaling.original_context, 1, kMaxContext);
  const double stretched =
      static_cast<double>(h.max_context) / static_cast<double>(scaling.original_context);

  // Where the original context is known, the ratio can stand for the factor; longrope prefers it.
  const bool by_ratio =
      says_original && (scaling.kind == RopeScaling::Kind::longrope || !read.has("factor"));
  scaling.factor = by_ratio ? std::max(stretched, 1.0) : 0.0;
  if (!by_ratio) read.read("factor", scaling.factor, 1.0, kMaxRopeFactor);
  if (read.has("attention_factor"))
    read.read("attention_factor", scaling.attention_factor, 1e-3, 1e3);

  switch (scaling.kind) {
    case RopeScaling::Kind::yarn:
      read.read("beta_fast", scaling.beta_fast, 1e-3, kMaxRopeFactor);
      read.read("beta_slow", scaling.beta_slow, 1e-3, kMaxRopeFactor);
      read.read("mscale", scaling.mscale, 0.0, 1e3);
      read.read("mscale_all_dim", scaling.mscale_all_dim, 0.0, 1e3);
      read.read("truncate", scaling.truncate);
      break;
    case RopeScaling::Kind::llama3:
      scaling.low_freq_factor = scaling.high_freq_factor = 0.0;  // required
      read.read("low_freq_factor", scaling.low_freq_factor, 1e-3, kMaxRopeFactor);
      read.read("high_freq_factor", scaling.high_freq_factor, 1e-3, kMaxRopeFactor);
      if (scaling.high_freq_factor <= scaling.low_freq_factor) {
        fail(ErrorCode::invalid_data, "{}: high_freq_factor {} is not above low_freq_factor {}",
             read.file(), scaling.high_freq_factor, scaling.low_freq_factor);
      }
      break;
    case RopeScaling::Kind::longrope:
      read.read("short_factor", scaling.short_factors, h.rotary_dim / 2, 1e-3, 1e6);
      read.read("long_factor", scaling.long_factors, h.rotary_dim / 2, 1e-3, 1e6);
      break;
    default:
      break;
  }
  // max_position_embeddings of a YaRN file is the context before stretching (Qwen2.5). For linear
  // scaling files disagree (Gemma 3 states the one after it), so there it is taken as it is.
  if (scaling.kind == RopeScaling::Kind::yarn ||
      (scaling.kind == RopeScaling::Kind::longrope && !says_original)) {
    h.max_context = stretched_context(h);
  }
}

void read_rope(const JsonReader& config, Hyperparameters& h) {
  // transformers 5 keeps all of it in rope_parameters, by type of layer where they differ.
  const auto parameters = config.nested("rope_parameters");
  const auto full = parameters ? parameters->nested("full_attention") : std::nullopt;
  const auto sliding = parameters ? parameters->nested("sliding_attention") : std::nullopt;
  const auto scaling = full ? full : parameters ? parameters : config.nested("rope_scaling");
  const JsonReader& base = parameters ? *scaling : config;

  double rotary_share = 1.0;
  (base.has("partial_rotary_factor") ? base : config)
      .read("partial_rotary_factor", rotary_share, 0.0, 1.0);
  h.rotary_dim = static_cast<int64_t>(static_cast<double>(h.head_dim) * rotary_share);

  (base.has("rope_theta") ? base : config)
      .read("rope_theta", h.rope_base, kMinRopeBase, kMaxRopeBase);
  if (h.window_rope_base > 0) {
    config.read("rope_local_base_freq", h.window_rope_base, kMinRopeBase, kMaxRopeBase);
    if (sliding) sliding->read("rope_theta", h.window_rope_base, kMinRopeBase, kMaxRopeBase);
  }
  if (scaling) read_rope_scaling(*scaling, config, h);
}

}  // namespace

Hyperparameters read_hugging_face(const weights::Checkpoint& checkpoint, Hyperparameters h) {
  const JsonReader outer(*checkpoint.config(), (checkpoint.path() / "config.json").string());
  // A multimodal model describes its language model in an object of its own.
  const JsonReader read = outer.nested("text_config").value_or(outer);
  if (const auto quantization = outer.nested("quantization_config")) {
    fail(ErrorCode::unsupported,
         "{}: weights quantised by {} are not supported; use the original or a GGUF file",
         outer.file(), printable(quantization->text("quant_method").value_or("an unnamed method")));
  }
  bool bidirectional = false;
  read.read("use_bidirectional_attention", bidirectional);
  if (bidirectional) {
    fail(ErrorCode::unsupported, "{}: use_bidirectional_attention is not supported", read.file());
  }
  read.read("num_hidden_layers", h.num_layers, 1, kMaxLayers);
  read.read("hidden_size", h.dim, 1, kMaxDim);
  read.read("intermediate_size", h.ffn_dim, 1, kMaxFfnDim);
  read.read("max_position_embeddings", h.max_context, 1, kMaxContext);
  read.read("rms_norm_eps", h.norm_epsilon, kMinEpsilon, kMaxEpsilon);
  read.read("vocab_size", h.vocab_size, 0, kMaxVocab);
  h.activation = read_activation(read, h.activation);

  read.read("num_attention_heads", h.num_heads, 1, kMaxHeads);
  if (h.num_kv_heads == 0) h.num_kv_heads = h.num_heads;
  read.read("num_key_value_heads", h.num_kv_heads, 1, kMaxHeads);
  if (h.head_dim == 0) h.head_dim = h.dim / h.num_heads;
  read.read("head_dim", h.head_dim, 1, kMaxHeadDim);
  read_rope(read, h);
  read_windows(read, h);

  read.read_or_null("attn_logit_softcapping", h.attention_soft_cap, kMaxSoftCap);
  read.read_or_null("final_logit_softcapping", h.final_soft_cap, kMaxSoftCap);
  read.read("query_pre_attn_scalar", h.query_scalar, 0.0, 1e6);
  read.read("attention_bias", h.qkv_bias);
  const JsonReader& ties = read.has("tie_word_embeddings") ? read : outer;
  if (ties.has("tie_word_embeddings")) ties.read("tie_word_embeddings", h.tied_output.emplace());
  return h;
}

}  // namespace hasten::models
