// SPDX-License-Identifier: Apache-2.0
// The decoder: embedding, layers, output; its cache groups, its arena, and one forward pass.
#include "models/layers/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "models/layers/gated_mlp.h"
#include "models/layers/rope_frequencies.h"
#include "models/layers/wanted_tokens.h"

namespace hasten::models {
namespace {

/// One layer: h = x + post(attention(norm(x))), then h + post(mlp(norm(h))); most have no `post`.
class DecoderLayer {
 public:
  DecoderLayer(WeightLoader& load, int64_t layer, const Hyperparameters& h,
               const DecoderStyle& style, const LayerCache& cache)
      : attention_(load, layer, h, style.attention, cache),
        mlp_(load, layer, h, style.fused_gate_up) {
    const auto norm = [&](const TensorName& name) {
      return Norm(load.norm(name, layer, h.dim, style.norm_offset),
                  static_cast<float>(h.norm_epsilon));
    };
    attention_norm_ = norm(names::kAttentionNorm);
    mlp_norm_ = norm(style.post_norms ? names::kPreMlpNorm : names::kMlpNorm);
    if (style.post_norms) {
      post_attention_norm_ = norm(names::kPostAttentionNorm);
      post_mlp_norm_ = norm(names::kPostMlpNorm);
    }
  }

  void operator()(const Step& step, Residual& x) const {
    add_blocks(step, attention_(step, x.pending_norm(attention_norm_)), x);
  }

  /// The same in two parts, of which the second is for some tokens: `rows` of what the first one
  /// returns, which are all that `step` and x there have.
  Tensor write_keys(const Step& step, Residual& x) const {
    const Tensor norm = x.norm(attention_norm_);
    attention_.write_keys(step, norm);
    return norm;
  }
  void finish(const Step& step, const Tensor& norm, std::span<const int32_t> rows,
              Residual& x) const {
    add_blocks(step, attention_.attend(step, norm, rows), x);
  }

  /// 2 * the weights that only the second part multiplies a token with.
  [[nodiscard]] static int64_t ops_of_finish(const Hyperparameters& h) {
    return 2 * (2 * h.dim * h.num_heads * h.head_dim + 3 * h.dim * h.ffn_dim);
  }

 private:
  void add_blocks(const Step& step, const Tensor& attention, Residual& x) const {
    x += post_attention_norm_(step, attention);
    x += post_mlp_norm_(step, mlp_(step, x.pending_norm(mlp_norm_)));
  }

  Norm attention_norm_, post_attention_norm_;
  Attention attention_;
  Norm mlp_norm_, post_mlp_norm_;
  GatedMlp mlp_;
};

class Decoder final : public Model {
 public:
  Decoder(const BuildInput& input, const DecoderStyle& style);

  const ModelInfo& info() const override { return info_; }
  const std::vector<CacheGroup>& cache_groups() const override { return groups_; }
  void reserve(int64_t max_tokens, int64_t max_sequences, int64_t max_context) override;
  void bring_in() override;
  int64_t activation_bytes(int64_t max_tokens, int64_t max_sequences) const override;
  void forward(const ForwardInput& input, std::span<float> logits) override;

 private:
  struct Rope {
    ops::DeviceTensor inv_freq;
    float magnitude;
  };

  void load_ends(WeightLoader& load, const DecoderStyle& style, const std::string& file);
  void load_layers(WeightLoader& load, const DecoderStyle& style);
  void add_rope(const RopeFrequencies& rope);
  LayerCache place_in_cache(int64_t layer);
  void describe(const BuildInput& input, const WeightLoader& load);
  int64_t staged_logits(int64_t max_sequences) const;
  void check(const ForwardInput& input, std::span<float> logits) const;
  void find_angles(const Step& step) const;
  void finish(const Step& step, Residual& x, std::span<float> logits);
  void project_logits(const Step& step, const Tensor& x, std::span<float> logits) const;

  ops::Backend& backend_;
  const Hyperparameters h_;
  const int64_t context_;  // tokens that a sequence may reach
  const float embedding_scale_;
  ModelInfo info_;
  std::vector<CacheGroup> groups_;

  std::unique_ptr<ops::Weight> embedding_;  // [vocab_size, dim]
  std::unique_ptr<ops::Weight> output_;     // [vocab_size, dim]; null: the embedding
  Norm output_norm_;
  std::vector<DecoderLayer> layers_;
  std::vector<Rope> ropes_;  // of layers without a window, and of those with one
  ActivationSizes sizes_;
  WantedTokens wanted_;

  int64_t max_tokens_ = 0;
  int64_t max_sequences_ = 0;
  ops::DeviceTensor arena_;
  ops::DeviceTensor staging_;  // [max_sequences, vocab_size] f32 where the host is another memory
};

Decoder::Decoder(const BuildInput& input, const DecoderStyle& style)
    : backend_(input.backend),
      h_(input.hyperparameters),
      context_(input.options.context > 0 ? input.options.context : h_.max_context),
      embedding_scale_(style.embedding_scale) {
  WeightLoader load(input.checkpoint, backend_, input.options.progress);
  load_ends(load, style, input.checkpoint.path().string());
  load_layers(load, style);
  load.finish();
  sizes_ = {.dim = h_.dim,
            .query_dim = h_.num_heads * h_.head_dim,
            .kv_dim = h_.num_kv_heads * h_.head_dim,
            .ffn_dim = h_.ffn_dim,
            .rotary_dim = h_.rotary_dim,
            .num_ropes = h_.window_rope_base > 0 ? size_t{2} : size_t{1}};
  describe(input, load);
}

void Decoder::load_ends(WeightLoader& load, const DecoderStyle& style, const std::string& file) {
  const Tensor& table = load.table(names::kEmbedding, h_.dim);
  if (table.dim(0) < h_.vocab_size) {
    fail(ErrorCode::invalid_data, "{}: the embedding has {} rows for a vocabulary of {} tokens",
         file, table.dim(0), h_.vocab_size);
  }
  const bool tied = h_.tied_output.value_or(!load.has(names::kOutput));
  embedding_ = tied ? load.prepare(table) : load.prepare_embedding(table);
  if (!tied) output_ = load.prepare(load.matrix(names::kOutput, 0, table.dim(0), h_.dim));
  output_norm_ = {load.norm(names::kOutputNorm, 0, h_.dim, style.norm_offset),
                  static_cast<float>(h_.norm_epsilon)};
}

void Decoder::load_layers(WeightLoader& load, const DecoderStyle& style) {
  for (int64_t layer = 0; layer < h_.num_layers; ++layer)
    layers_.emplace_back(load, layer, h_, style, place_in_cache(layer));
}

/// Layers with the same window share a group. A window that no sequence outgrows is none, though
/// its layers keep their own rotation.
LayerCache Decoder::place_in_cache(int64_t layer) {
  LayerCache cache;
  const int64_t window = h_.layer_window(layer);
  cache.rope = window > 0 && h_.window_rope_base > 0 ? 1 : 0;
  cache.window = window < std::max(context_, h_.max_context) ? window : 0;
  const auto group = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const CacheGroup& g) { return g.window == cache.window; });
  cache.group = static_cast<size_t>(group - groups_.begin());
  if (group == groups_.end()) {
    groups_.push_back(
        {.num_kv_heads = h_.num_kv_heads, .head_dim = h_.head_dim, .window = cache.window});
  }
  cache.index = groups_[cache.group].num_layers++;
  return cache;
}

void Decoder::describe(const BuildInput& input, const WeightLoader& load) {
  info_.family = input.family;
  info_.name = input.checkpoint.format() == weights::Checkpoint::Format::gguf
                   ? std::string(input.checkpoint.metadata().get_string("general.name", ""))
                   : input.checkpoint.path().filename().string();
  info_.vocab_size = embedding_->out_features();
  info_.max_context = h_.max_context;
  info_.num_layers = h_.num_layers;
  info_.num_parameters = load.num_parameters();
  info_.weight_bytes = input.checkpoint.total_bytes();
  info_.mapped_bytes = load.mapped_bytes();
  info_.bytes_per_token = load.bytes_per_token() + embedding_->source().row_bytes();
  info_.matmul_ops_per_token = 2 * load.matmul_elements();
  info_.output_ops_per_token = 2 * info_.vocab_size * h_.dim;
  info_.last_layer_ops_per_token = DecoderLayer::ops_of_finish(h_);
  // Per key: a dot product with the query and a sum of the value, 2 * head_dim each.
  info_.attention_ops_per_token_key = 4 * h_.num_layers * h_.num_heads * h_.head_dim;
  info_.weight_types = load.weight_types();
}

int64_t Decoder::staged_logits(int64_t max_sequences) const {
  return backend_.device().kind == Device::Kind::cpu ? 0 : max_sequences * info_.vocab_size;
}

int64_t Decoder::activation_bytes(int64_t max_tokens, int64_t max_sequences) const {
  const int64_t floats = Activations::arena_size(sizes_, max_tokens) + staged_logits(max_sequences);
  return floats * static_cast<int64_t>(sizeof(float));
}

void Decoder::add_rope(const RopeFrequencies& rope) {
  ropes_.push_back({upload(backend_, rope.inv_freq), rope.magnitude});
}

void Decoder::reserve(int64_t max_tokens, int64_t max_sequences, int64_t max_context) {
  HASTEN_CHECK(max_tokens > 0 && max_sequences > 0 && max_context > 0);
  max_tokens_ = max_tokens;
  max_sequences_ = max_sequences;
  ropes_.clear();
  add_rope(stretched_rope(h_, max_context));
  if (h_.window_rope_base > 0) add_rope(plain_rope(h_.window_rope_base, h_.rotary_dim));
  wanted_.reserve(max_tokens, max_sequences, groups_.size());
  arena_ = backend_.allocate(DType::f32, {Activations::arena_size(sizes_, max_tokens)});
  if (staged_logits(max_sequences) > 0)
    staging_ = backend_.allocate(DType::f32, {max_sequences, info_.vocab_size});
  backend_.reserve({.max_tokens = max_tokens,
                    .max_sequences = max_sequences,
                    .max_features = std::max({sizes_.dim, sizes_.query_dim, sizes_.ffn_dim}),
                    .max_context = max_context,
                    .max_heads = h_.num_heads,
                    .max_head_dim = h_.head_dim});
}

void Decoder::bring_in() {
  HASTEN_CHECK(arena_.view.defined());
  backend_.bring_in_reserved();
  backend_.bring_in_memory(arena_.view);
  if (staging_.view.defined()) backend_.bring_in_memory(staging_.view);
}

void Decoder::check(const ForwardInput& input, std::span<float> logits) const {
  const auto num_tokens = static_cast<int64_t>(input.token_ids.size());
  HASTEN_CHECK(num_tokens > 0 && num_tokens <= max_tokens_);
  HASTEN_CHECK(input.positions.size() == input.token_ids.size());
  HASTEN_CHECK(input.batches.size() == groups_.size() && input.caches.size() == groups_.size());
  for (const ops::PagedBatch& batch : input.batches) {
    HASTEN_CHECK(batch.num_tokens() == num_tokens && batch.num_sequences() <= max_sequences_);
  }
  HASTEN_CHECK(static_cast<int64_t>(logits.size()) ==
               static_cast<int64_t>(input.logit_rows.size()) * info_.vocab_size);
  for (size_t i = 0; i < input.token_ids.size(); ++i) {
    const int32_t id = input.token_ids[i];
    if (id < 0 || id >= info_.vocab_size) {
      fail(ErrorCode::invalid_argument, "token {} of the step is {}; the vocabulary has {} tokens",
           i, id, info_.vocab_size);
    }
  }
  int64_t previous = -1;
  for (const int32_t row : input.logit_rows) {
    HASTEN_CHECK(row > previous && row < num_tokens);
    previous = row;
  }
}

void Decoder::forward(const ForwardInput& input, std::span<float> logits) {
  check(input, logits);
  const Step step{
      backend_, input,
      Activations::cut(arena_.view, sizes_, static_cast<int64_t>(input.token_ids.size()))};
  backend_.embed({.table = *embedding_,
                  .ids = input.token_ids,
                  .scale = embedding_scale_,
                  .out = step.activations.x});
  find_angles(step);
  Residual x(step);
  for (const DecoderLayer& layer : std::span(layers_).first(layers_.size() - 1)) layer(step, x);
  finish(step, x, logits);
}

void Decoder::find_angles(const Step& step) const {
  for (size_t i = 0; i < ropes_.size(); ++i) {
    backend_.rope_angles({.positions = step.input.positions,
                          .inv_freq = ropes_[i].inv_freq.view,
                          .magnitude = ropes_[i].magnitude,
                          .out = step.activations.angles[i]});
  }
}

/// The last layer and the logits.
void Decoder::finish(const Step& step, Residual& x, std::span<float> logits) {
  const DecoderLayer& layer = layers_.back();
  if (!wanted_.leave_some(step.input)) {
    layer(step, x);
    return project_logits(step, x.norm(output_norm_), logits);
  }
  const Tensor norm = layer.write_keys(step, x);
  const std::span<const int32_t> rows = wanted_.rows();
  if (rows.empty()) return;
  const ForwardInput input = wanted_.input();
  const Step some{backend_, input, step.activations.first(std::ssize(rows))};
  backend_.take_rows(step.activations.x, rows);
  find_angles(some);
  Residual rest(some);
  layer.finish(some, norm, rows, rest);
  project_logits(some, rest.norm(output_norm_), logits);
}

/// Straight into the caller's memory where the device can write it, else in pieces of as many rows
/// as the staging buffer has.
void Decoder::project_logits(const Step& step, const Tensor& x, std::span<float> logits) const {
  const std::span<const int32_t> all_rows = step.input.logit_rows;
  const size_t piece =
      staging_.view.defined() ? static_cast<size_t>(max_sequences_) : all_rows.size();
  for (size_t begin = 0; begin < all_rows.size(); begin += piece) {
    const auto rows = all_rows.subspan(begin, std::min(piece, all_rows.size() - begin));
    const auto num_rows = static_cast<int64_t>(rows.size());
    const Tensor host(logits.data() + begin * static_cast<size_t>(info_.vocab_size), DType::f32,
                      {num_rows, info_.vocab_size});
    const Tensor out = staging_.view.defined() ? staging_.view.slice(0, num_rows) : host;
    backend_.matmul({.weight = output_ ? *output_ : *embedding_, .x = x, .out = out, .rows = rows});
    if (h_.final_soft_cap > 0)
      backend_.soft_cap({.x = out, .cap = static_cast<float>(h_.final_soft_cap)});
    if (staging_.view.defined()) backend_.download(out, host);
  }
}

}  // namespace

std::unique_ptr<Model> make_decoder(const BuildInput& input, const DecoderStyle& style) {
  return std::make_unique<Decoder>(input, style);
}

}  // namespace hasten::models
