// SPDX-License-Identifier: Apache-2.0
// The attention block: project, normalise, rotate, store, attend, project back.
#include "models/layers/attention.h"

#include <array>
#include <cmath>

namespace hasten::models {
namespace {

/// Row `first_row` of the fused matrix, or the matrix of its own.
LinearSource projection(const Hyperparameters& h, const AttentionStyle& style,
                        const TensorName& name, int64_t layer, int64_t first_row,
                        int64_t num_heads) {
  LinearSource source{.name = name,
                      .layer = layer,
                      .out_features = num_heads * h.head_dim,
                      .in_features = h.dim,
                      .bias_required = style.qkv_bias};
  if (style.fused_qkv) {
    source.name = names::kQkv;
    source.first_row = first_row;
    source.file_rows = (h.num_heads + 2 * h.num_kv_heads) * h.head_dim;
  }
  return source;
}

}  // namespace

Attention::Attention(WeightLoader& load, int64_t layer, const Hyperparameters& h,
                     const AttentionStyle& style, const LayerCache& cache)
    : num_heads_(h.num_heads),
      num_kv_heads_(h.num_kv_heads),
      head_dim_(h.head_dim),
      scale_(static_cast<float>(
          1.0 / std::sqrt(h.query_scalar > 0 ? h.query_scalar : static_cast<double>(h.head_dim)))),
      soft_cap_(static_cast<float>(h.attention_soft_cap)),
      rope_layout_(style.rope_layout),
      cache_(cache) {
  const int64_t query_dim = num_heads_ * head_dim_;
  const int64_t kv_dim = num_kv_heads_ * head_dim_;
  query_ = load.linear(projection(h, style, names::kQuery, layer, 0, num_heads_));
  key_ = load.linear(projection(h, style, names::kKey, layer, query_dim, num_kv_heads_));
  value_ =
      load.linear(projection(h, style, names::kValue, layer, query_dim + kv_dim, num_kv_heads_));
  output_ = load.linear({.name = names::kAttentionOutput,
                         .layer = layer,
                         .out_features = h.dim,
                         .in_features = query_dim});
  if (style.qk_norm) {
    const auto epsilon = static_cast<float>(h.norm_epsilon);
    query_norm_ = {load.norm(names::kQueryNorm, layer, head_dim_, style.norm_offset), epsilon};
    key_norm_ = {load.norm(names::kKeyNorm, layer, head_dim_, style.norm_offset), epsilon};
  }
}

Tensor Attention::operator()(const Step& step, const ops::AddRmsNormParams& norm) const {
  const Activations& a = step.activations;
  const Tensor& x = norm.out;
  const std::array projections = {query_.times(x, a.q), key_.times(x, a.k), value_.times(x, a.v)};
  step.backend.norm_matmul_group(norm, projections);
  write_projected(step);
  return attend_projected(step);
}

void Attention::write_keys(const Step& step, const Tensor& x) const {
  const Activations& a = step.activations;
  const std::array projections = {key_.times(x, a.k), value_.times(x, a.v)};
  step.backend.matmul_group(projections);
  write_projected(step);
}

Tensor Attention::attend(const Step& step, const Tensor& x, std::span<const int32_t> rows) const {
  step.backend.matmul(query_.times(x, step.activations.q, rows));
  return attend_projected(step);
}

/// Normalises and rotates the keys, and stores them with the values.
void Attention::write_projected(const Step& step) const {
  const Activations& a = step.activations;
  const int64_t num_tokens = step.num_tokens();
  key_norm_(step, a.k.reshape({num_tokens * num_kv_heads_, head_dim_}));
  const Tensor k = a.k.reshape({num_tokens, num_kv_heads_, head_dim_});
  step.backend.rope({.x = k, .angles = a.angles[cache_.rope], .layout = rope_layout_});
  step.backend.kv_write({.cache = *step.input.caches[cache_.group],
                         .layer = cache_.index,
                         .k = k,
                         .v = a.v.reshape({num_tokens, num_kv_heads_, head_dim_}),
                         .batch = step.input.batches[cache_.group]});
}

/// Normalises and rotates the queries, attends, and projects back.
Tensor Attention::attend_projected(const Step& step) const {
  const Activations& a = step.activations;
  const int64_t num_tokens = step.num_tokens();
  query_norm_(step, a.q.reshape({num_tokens * num_heads_, head_dim_}));
  const Tensor q = a.q.reshape({num_tokens, num_heads_, head_dim_});
  step.backend.rope({.x = q, .angles = a.angles[cache_.rope], .layout = rope_layout_});
  step.backend.attention({.q = q,
                          .cache = *step.input.caches[cache_.group],
                          .layer = cache_.index,
                          .batch = step.input.batches[cache_.group],
                          .scale = scale_,
                          .soft_cap = soft_cap_,
                          .window = cache_.window,
                          .out = a.heads.reshape({num_tokens, num_heads_, head_dim_})});
  step.backend.matmul(output_.times(a.heads, a.delta));
  return a.delta;
}

}  // namespace hasten::models
