// SPDX-License-Identifier: Apache-2.0
// Hyperparameters from the metadata of a GGUF file, keyed "<architecture>.<key>".
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/layers/config_reader.h"
#include "models/layers/weight_loader.h"

namespace hasten::models {
namespace {

class GgufReader final : public ConfigReader {
 public:
  explicit GgufReader(const weights::Checkpoint& checkpoint)
      : ConfigReader(checkpoint.path().string()),
        metadata_(checkpoint.metadata()),
        prefix_(architecture(checkpoint) + ".") {}

  bool has(std::string_view key) const override { return metadata_.contains(shown(key)); }
  std::optional<std::string> text(std::string_view key) const override {
    if (!has(key)) return std::nullopt;
    return std::string(metadata_.get_string(shown(key)));
  }
  bool is_array(std::string_view key) const {
    const weights::Value* value = metadata_.find(shown(key));
    return value != nullptr && value->type == weights::ValueType::array;
  }
  /// One for each layer; booleans are 0 or 1.
  std::vector<int64_t> integers(std::string_view key) const {
    return metadata_.get_i64s(shown(key), kMaxLayers);
  }

 protected:
  /// Some files repeat a number for every layer; then all must be the same.
  int64_t integer(std::string_view key) const override {
    if (!is_array(key)) return metadata_.get_i64(shown(key));
    const std::vector<int64_t> values = integers(key);
    if (values.empty() ||
        !std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; })) {
      fail(ErrorCode::unsupported, "{}: {} differs from layer to layer, which is not supported",
           file(), shown(key));
    }
    return values[0];
  }
  double number(std::string_view key) const override { return metadata_.get_f64(shown(key)); }
  bool flag(std::string_view key) const override { return metadata_.get_bool(shown(key)); }
  std::vector<double> numbers(std::string_view key) const override {
    const std::vector<float> values = metadata_.get_f32s(shown(key), kMaxHeadDim);
    return {values.begin(), values.end()};
  }
  std::string shown(std::string_view key) const override { return prefix_ + std::string(key); }

 private:
  const weights::Metadata& metadata_;
  std::string prefix_;
};

std::vector<float> find_divisors(const weights::Checkpoint& checkpoint, std::string_view name,
                                 int64_t count) {
  const Tensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return {};
  const std::string file = checkpoint.path().string();
  std::vector<float> divisors = decode_vector(*tensor, name, count, file);
  for (const float divisor : divisors) {
    if (!(divisor >= 1e-3F && divisor <= 1e6F)) {
      fail(ErrorCode::invalid_data, "{}: {} has {}; it must be between 0.001 and 1000000", file,
           name, divisor);
    }
  }
  return divisors;
}

void read_rope(const GgufReader& read, const weights::Checkpoint& checkpoint, Hyperparameters& h) {
  read.read("rope.freq_base", h.rope_base, kMinRopeBase, kMaxRopeBase);
  if (h.window_rope_base > 0)
    read.read("rope.freq_base_swa", h.window_rope_base, kMinRopeBase, kMaxRopeBase);

  RopeScaling& scaling = h.rope_scaling;
  const int64_t num_pairs = h.rotary_dim / 2;
  h.rope_divisors = find_divisors(checkpoint, "rope_freqs.weight", num_pairs);
  const std::vector<float> shorts =
      find_divisors(checkpoint, "rope_factors_short.weight", num_pairs);
  const std::vector<float> longs = find_divisors(checkpoint, "rope_factors_long.weight", num_pairs);
  if (shorts.empty() != longs.empty()) {
    fail(ErrorCode::invalid_data,
         "{}: of rope_factors_short.weight and rope_factors_long.weight "
         "only one is there",
         read.file());
  }

  // Files of the first years have a factor without a type, and mean linear; the first of all under
  // another name.
  const bool is_old = read.has("rope.scale_linear") && !read.has("rope.scaling.factor");
  const std::string_view factor = is_old ? "rope.scale_linear" : "rope.scaling.factor";
  if (const auto type = read.text("rope.scaling.type"))
    scaling.kind = rope_scaling_kind(*type, read.file());
  else if (read.has(factor))
    scaling.kind = RopeScaling::Kind::linear;
  if (!longs.empty()) {
    scaling.kind = RopeScaling::Kind::longrope;
    scaling.short_factors.assign(shorts.begin(), shorts.end());
    scaling.long_factors.assign(longs.begin(), longs.end());
  }
  if (scaling.kind == RopeScaling::Kind::none) return;

  scaling.original_context = h.max_context;
  read.read("rope.scaling.original_context_length", scaling.original_context, 1, kMaxContext);
  if (scaling.kind == RopeScaling::Kind::longrope) {
    if (longs.empty())
      fail(ErrorCode::invalid_data, "{} has no rope_factors_long.weight", read.file());
    scaling.factor =
        static_cast<double>(h.max_context) / static_cast<double>(scaling.original_context);
  } else {
    scaling.factor = 0.0;  // required
    read.read(factor, scaling.factor, 1.0, kMaxRopeFactor);
  }
  read.read("rope.scaling.yarn_beta_fast", scaling.beta_fast, 1e-3, kMaxRopeFactor);
  read.read("rope.scaling.yarn_beta_slow", scaling.beta_slow, 1e-3, kMaxRopeFactor);
  if (read.has("rope.scaling.attn_factor")) {
    read.read("rope.scaling.attn_factor", scaling.attention_factor, 1e-3, 1e3);
    // GGUF counts YaRN's from the paper's formula, where config.json states the product.
    if (scaling.kind == RopeScaling::Kind::yarn)
      scaling.attention_factor *= 1.0 + 0.1 * std::log(scaling.factor);
  }
  if (scaling.kind == RopeScaling::Kind::yarn) h.max_context = stretched_context(h);
}

/// Which layers have a window is a period, of which the last layer sees everything, or a list.
void read_windows(const GgufReader& read, Hyperparameters& h) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  h.use_window = true;  // the key is written only where windows are in use
  read.read("attention.sliding_window", h.window, 0, kMaxContext);
  if (!read.is_array(kPattern)) return read.read(kPattern, h.window_pattern, 0, kMaxLayers);
  const std::vector<int64_t> windowed = read.integers(kPattern);
  if (std::ssize(windowed) != h.num_layers) {
    fail(ErrorCode::invalid_data, "{}: {} has {} elements for {} layers", read.file(), kPattern,
         windowed.size(), h.num_layers);
  }
  h.layer_windowed.assign(windowed.begin(), windowed.end());
}

}  // namespace

Hyperparameters read_gguf(const weights::Checkpoint& checkpoint, Hyperparameters h) {
  const GgufReader read(checkpoint);
  int64_t num_experts = 0;  // Mixtral's files call themselves "llama"
  read.read("expert_count", num_experts, 0, kMaxFfnDim);
  if (num_experts > 0) {
    fail(ErrorCode::unsupported, "{}: mixtures of experts are not supported; it has {}",
         read.file(), num_experts);
  }
  read.read("block_count", h.num_layers, 1, kMaxLayers);
  read.read("embedding_length", h.dim, 1, kMaxDim);
  read.read("feed_forward_length", h.ffn_dim, 1, kMaxFfnDim);
  read.read("context_length", h.max_context, 1, kMaxContext);
  read.read("attention.layer_norm_rms_epsilon", h.norm_epsilon, kMinEpsilon, kMaxEpsilon);
  // The number of tokens is written only by some; the embedding's rows say it otherwise.
  read.read("vocab_size", h.vocab_size, 0, kMaxVocab);

  read.read("attention.head_count", h.num_heads, 1, kMaxHeads);
  h.num_kv_heads = h.num_heads;
  read.read("attention.head_count_kv", h.num_kv_heads, 1, kMaxHeads);
  h.head_dim = h.dim / h.num_heads;
  read.read("attention.key_length", h.head_dim, 1, kMaxHeadDim);
  int64_t value_dim = h.head_dim;
  read.read("attention.value_length", value_dim, 1, kMaxHeadDim);
  if (value_dim != h.head_dim) {
    fail(ErrorCode::unsupported, "{}: values of {} elements beside keys of {} are not supported",
         read.file(), value_dim, h.head_dim);
  }
  h.rotary_dim = h.head_dim;
  read.read("rope.dimension_count", h.rotary_dim, 1, kMaxHeadDim);
  read_rope(read, checkpoint, h);

  h.tied_output.reset();  // the output matrix is there, or it is not
  read_windows(read, h);
  read.read("attn_logit_softcapping", h.attention_soft_cap, 0.0, kMaxSoftCap);
  read.read("final_logit_softcapping", h.final_soft_cap, 0.0, kMaxSoftCap);
  if (read.has("attention.scale")) {
    double scale = 0.0;
    read.read("attention.scale", scale, 1e-6, 1e3);
    h.query_scalar = 1.0 / (scale * scale);
  }
  return h;
}

}  // namespace hasten::models
