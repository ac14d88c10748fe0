// SPDX-License-Identifier: Apache-2.0
// Random weights, and what a converter from safetensors to GGUF does to them.
#include "models/tiny_model_test.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numbers>
#include <stdexcept>

#include "base/hash.h"
#include "weights/gguf_writer.h"

namespace hasten::models {
namespace {

/// The part of the config that describes the language model.
const json::Object& text_config(const json::Object& config) {
  const json::Value* text = config.if_contains("text_config");
  return text == nullptr ? config : text->as_object();
}

int64_t integer(const json::Object& config, std::string_view key, int64_t fallback = 0) {
  const json::Value* value = config.if_contains(key);
  return value == nullptr || !value->is_number() ? fallback : value->to_number<int64_t>();
}

double number(const json::Object& config, std::string_view key, double fallback = 0.0) {
  const json::Value* value = config.if_contains(key);
  return value == nullptr || !value->is_number() ? fallback : value->to_number<double>();
}

std::string architecture_of(const json::Object& config) {
  return std::string(config.at("architectures").as_array()[0].as_string());
}

/// Uniform in [-1, 1), counter-based.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  double next() { return static_cast<double>(mix64(seed_ + count_++) >> 11) * 0x1p-52 - 1.0; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

struct Builder {
  TinyModel& model;
  Random random;

  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    // Large enough that attention prefers some keys and that soft caps bend.
    add(name, {rows, columns}, 0.0, 2.5 / std::sqrt(static_cast<double>(columns)));
  }
  void vector(const std::string& name, int64_t size, double mean, double spread) {
    add(name, {size}, mean, spread);
  }

 private:
  void add(const std::string& name, Shape shape, double mean, double spread) {
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (float& value : values) value = static_cast<float>(mean + spread * random.next());
    model.tensors.push_back({name, shape, std::move(values)});
  }
};

void add_layer(Builder& build, const std::string& prefix, const json::Object& c,
               const std::string& architecture) {
  const bool gemma = architecture.starts_with("Gemma");
  const int64_t dim = integer(c, "hidden_size"), ffn = integer(c, "intermediate_size");
  const int64_t heads = integer(c, "num_attention_heads");
  const int64_t kv_heads = integer(c, "num_key_value_heads", heads);
  const int64_t head_dim = integer(c, "head_dim", dim / heads);
  const auto norm = [&](const std::string& name, int64_t size) {
    build.vector(prefix + name + ".weight", size, gemma ? 0.0 : 1.0, 0.4);
  };
  norm("input_layernorm", dim);
  norm("post_attention_layernorm", dim);
  if (gemma) norm("pre_feedforward_layernorm", dim);
  if (gemma) norm("post_feedforward_layernorm", dim);
  if (architecture.starts_with("Qwen3") || architecture.starts_with("Gemma3")) {
    norm("self_attn.q_norm", head_dim);
    norm("self_attn.k_norm", head_dim);
  }
  if (architecture.starts_with("Phi3")) {
    build.matrix(prefix + "self_attn.qkv_proj.weight", (heads + 2 * kv_heads) * head_dim, dim);
    build.matrix(prefix + "mlp.gate_up_proj.weight", 2 * ffn, dim);
  } else {
    const json::Value* stated = c.if_contains("attention_bias");
    const bool bias = architecture.starts_with("Qwen2") || (stated && stated->as_bool());
    for (const auto& [name, rows] : {std::pair("q", heads * head_dim),
                                     {"k", kv_heads * head_dim},
                                     {"v", kv_heads * head_dim}}) {
      build.matrix(prefix + "self_attn." + name + "_proj.weight", rows, dim);
      if (bias) build.vector(prefix + "self_attn." + name + "_proj.bias", rows, 0.0, 0.5);
    }
    build.matrix(prefix + "mlp.gate_proj.weight", ffn, dim);
    build.matrix(prefix + "mlp.up_proj.weight", ffn, dim);
  }
  build.matrix(prefix + "self_attn.o_proj.weight", dim, heads * head_dim);
  build.matrix(prefix + "mlp.down_proj.weight", dim, ffn);
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != text.npos) text.replace(at, from.size(), to);
}

/// The GGUF name of a Hugging Face tensor.
std::string gguf_name(std::string name, const std::string& architecture) {
  replace(name, "language_model.", "");
  const bool gemma = architecture.starts_with("Gemma");
  const std::vector<std::pair<std::string_view, std::string_view>> words = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", gemma ? "post_attention_norm" : "ffn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  for (const auto& [from, to] : words) replace(name, from, to);
  return name;
}

/// Rows (j, j + half) of each head become rows (2j, 2j + 1).
void interleave(TinyTensor& tensor, int64_t num_heads) {
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape.rank() == 2 ? tensor.shape[1] : 1;
  const int64_t head_dim = rows / num_heads;
  std::vector<float> result(tensor.values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim, j = row % head_dim;
    const int64_t half = head_dim / 2;
    const int64_t target = head * head_dim + (j < half ? 2 * j : 2 * (j - half) + 1);
    std::copy_n(tensor.values.begin() + row * columns, columns, result.begin() + target * columns);
  }
  tensor.values = std::move(result);
}

std::vector<float> floats(const json::Value& array) {
  std::vector<float> result;
  for (const json::Value& value : array.as_array()) result.push_back(value.to_number<float>());
  return result;
}

/// Llama 3.1's scaling as the divisors that the converter stores.
std::vector<float> llama3_divisors(const json::Object& scaling, double base, int64_t head_dim) {
  const double factor = number(scaling, "factor");
  const double low = number(scaling, "low_freq_factor");
  const double high = number(scaling, "high_freq_factor");
  const double context = number(scaling, "original_max_position_embeddings");
  std::vector<float> result;
  for (int64_t j = 0; j < head_dim; j += 2) {
    const double exponent = static_cast<double>(j) / static_cast<double>(head_dim);
    const double wavelength = 2.0 * std::numbers::pi * std::pow(base, exponent);
    if (wavelength < context / high) {
      result.push_back(1.0F);
    } else if (wavelength > context / low) {
      result.push_back(static_cast<float>(factor));
    } else {
      const double smooth = (context / wavelength - low) / (high - low);
      result.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
    }
  }
  return result;
}

class GgufConverter {
 public:
  GgufConverter(const TinyModel& model, const std::filesystem::path& file)
      : model_(model),
        c_(text_config(model.config)),
        architecture_(architecture_of(model.config)),
        writer_(file) {
    const std::map<std::string_view, std::string_view> prefixes = {
        {"Ll", "llama"},      {"Mi", "llama"},      {"Qwen2", "qwen2"}, {"Qwen3", "qwen3"},
        {"Gemma2", "gemma2"}, {"Gemma3", "gemma3"}, {"Phi3", "phi3"}};
    for (const auto& [start, name] : prefixes)
      if (architecture_.starts_with(start)) prefix_ = name;
  }

  void run() {
    writer_.set_string("general.architecture", prefix_);
    writer_.set_string("general.name", "tiny");
    write_sizes();
    write_rope();
    for (const TinyTensor& source : model_.tensors) add_tensor(source);
    for (const TinyTensor& tensor : tensors_)
      writer_.declare(tensor.name, DType::f32, tensor.shape);
    for (const TinyTensor& tensor : tensors_)
      writer_.append(std::as_bytes(std::span(tensor.values)));
    writer_.finish();
  }

 private:
  void u32(const std::string& key, int64_t value) {
    writer_.set_u32(prefix_ + "." + key, static_cast<uint32_t>(value));
  }
  void f32(const std::string& key, double value) {
    writer_.set_f32(prefix_ + "." + key, static_cast<float>(value));
  }
  int64_t heads() const { return integer(c_, "num_attention_heads"); }
  int64_t kv_heads() const { return integer(c_, "num_key_value_heads", heads()); }
  int64_t head_dim() const { return integer(c_, "head_dim", integer(c_, "hidden_size") / heads()); }
  int64_t rotary_dim() const {
    return static_cast<int64_t>(static_cast<double>(head_dim()) *
                                number(c_, "partial_rotary_factor", 1.0));
  }

  void write_sizes() {
    u32("block_count", integer(c_, "num_hidden_layers"));
    u32("context_length", integer(c_, "max_position_embeddings"));
    u32("embedding_length", integer(c_, "hidden_size"));
    u32("feed_forward_length", integer(c_, "intermediate_size"));
    u32("attention.head_count", heads());
    u32("attention.head_count_kv", kv_heads());
    u32("attention.key_length", head_dim());
    u32("attention.value_length", head_dim());
    f32("attention.layer_norm_rms_epsilon", number(c_, "rms_norm_eps"));
    const json::Value* use = c_.if_contains("use_sliding_window");
    if (use == nullptr && integer(c_, "sliding_window") > 0)
      u32("attention.sliding_window", integer(c_, "sliding_window"));
    if (prefix_ == "gemma2") {
      f32("attn_logit_softcapping", number(c_, "attn_logit_softcapping"));
      f32("final_logit_softcapping", number(c_, "final_logit_softcapping"));
    }
  }

  void write_rope() {
    u32("rope.dimension_count", rotary_dim());
    const double base = number(c_, "rope_theta", 10000.0);
    f32("rope.freq_base", base);
    const json::Value* value = c_.if_contains("rope_scaling");
    if (value == nullptr || !value->is_object()) return;
    const json::Object& scaling = value->as_object();
    const std::string kind(scaling.at("rope_type").as_string());
    if (kind == "linear" || kind == "yarn") {
      writer_.set_string(prefix_ + ".rope.scaling.type", kind);
      f32("rope.scaling.factor", number(scaling, "factor"));
    }
    if (kind == "yarn") {
      u32("rope.scaling.original_context_length",
          integer(scaling, "original_max_position_embeddings"));
    }
    if (kind == "llama3") {
      add_vector("rope_freqs.weight", llama3_divisors(scaling, base, head_dim()));
    }
    if (kind == "longrope") {
      const double original = number(c_, "original_max_position_embeddings");
      const double stretch = number(c_, "max_position_embeddings") / original;
      u32("rope.scaling.original_context_length", static_cast<int64_t>(original));
      f32("rope.scaling.attn_factor", std::sqrt(1.0 + std::log(stretch) / std::log(original)));
      add_vector("rope_factors_long.weight", floats(scaling.at("long_factor")));
      add_vector("rope_factors_short.weight", floats(scaling.at("short_factor")));
    }
  }

  void add_vector(const std::string& name, std::vector<float> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    tensors_.push_back({name, shape, std::move(values)});
  }

  void add_tensor(const TinyTensor& source) {
    TinyTensor tensor = source;
    tensor.name = gguf_name(source.name, architecture_);
    if (prefix_ == "llama") {
      if (tensor.name.find("attn_q.") != std::string::npos) interleave(tensor, heads());
      if (tensor.name.find("attn_k.") != std::string::npos) interleave(tensor, kv_heads());
    }
    if (prefix_.starts_with("gemma") && tensor.name.ends_with("norm.weight")) {
      for (float& value : tensor.values) value += 1.0F;
    }
    tensors_.push_back(std::move(tensor));
  }

  const TinyModel& model_;
  const json::Object& c_;
  std::string architecture_;
  std::string prefix_;
  weights::GgufWriter writer_;
  std::vector<TinyTensor> tensors_;
};

}  // namespace

TinyModel TinyModel::random(std::string_view config, uint64_t seed) {
  TinyModel model{.config = json::parse(config, "tiny config").as_object(), .tensors = {}};
  const json::Object& c = text_config(model.config);
  const std::string architecture = architecture_of(model.config);
  const std::string prefix = model.config.contains("text_config") ? "language_model." : "";
  const int64_t dim = integer(c, "hidden_size"), vocab = integer(c, "vocab_size");
  Builder build{model, Random(mix64(seed))};
  build.matrix(prefix + "model.embed_tokens.weight", vocab, dim);
  for (int64_t layer = 0; layer < integer(c, "num_hidden_layers"); ++layer)
    add_layer(build, prefix + "model.layers." + std::to_string(layer) + ".", c, architecture);
  build.vector(prefix + "model.norm.weight", dim, architecture.starts_with("Gemma") ? 0.0 : 1.0,
               0.4);
  const json::Value* tied = c.if_contains("tie_word_embeddings");
  if (tied != nullptr && !tied->as_bool()) build.matrix("lm_head.weight", vocab, dim);
  return model;
}

TinyTensor& TinyModel::tensor(std::string_view name) {
  for (TinyTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no tensor " + std::string(name));
}

void TinyModel::write_folder(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << json::serialize(config);
  json::Object header;
  int64_t offset = 0;
  for (const TinyTensor& tensor : tensors) {
    json::Array shape;
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) shape.push_back(tensor.shape[axis]);
    const auto bytes = static_cast<int64_t>(tensor.values.size() * sizeof(float));
    header[tensor.name] = json::Object{
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", json::Array{offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size) << text;
  for (const TinyTensor& tensor : tensors) {
    out.write(reinterpret_cast<const char*>(tensor.values.data()),
              static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
  }
}

void TinyModel::write_gguf(const std::filesystem::path& file) const {
  GgufConverter(*this, file).run();
}

}  // namespace hasten::models
