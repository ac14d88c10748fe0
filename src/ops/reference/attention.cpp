// SPDX-License-Identifier: Apache-2.0
// Attention over the paged cache as the textbook has it: all scores, their softmax, the mean value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "ops/kv_row.h"
#include "ops/reference/operations.h"
#include "ops/reference/paged_kv_cache.h"

namespace hasten::ops::reference {
namespace {

/// Keys and values of one sequence and one KV head at positions first .. first + num_keys - 1.
struct VisibleKeys {
  int64_t first = 0;
  std::vector<float> keys;    // [num_keys, head_dim]
  std::vector<float> values;  // [num_keys, head_dim]
};

/// The lowest position that a query at `position` sees; window 0 is no window.
int64_t first_visible(int64_t position, int64_t window) {
  return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
}

VisibleKeys gather(const AttentionParams& params, int64_t sequence, int64_t kv_head,
                   int64_t first) {
  const auto& cache = dynamic_cast<const PagedKvCache&>(params.cache);
  const KvCacheSpec& spec = cache.spec();
  const int64_t num_keys = params.batch.context_len[sequence] - first;
  const int32_t* table =
      params.batch.block_tables.data() + sequence * params.batch.block_table_stride;

  VisibleKeys visible{.first = first,
                      .keys = std::vector<float>(num_keys * spec.head_dim),
                      .values = std::vector<float>(num_keys * spec.head_dim)};
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t position = first + i;
    const int64_t block = table[position / spec.block_size];
    const int64_t slot = block * spec.block_size + position % spec.block_size;
    decode_kv_row(spec.types.keys, cache.key(params.layer, slot, kv_head), spec.head_dim,
                  visible.keys.data() + i * spec.head_dim);
    decode_kv_row(spec.types.values, cache.value(params.layer, slot, kv_head), spec.head_dim,
                  visible.values.data() + i * spec.head_dim);
  }
  return visible;
}

/// One query head of one token: query and out are [head_dim].
void attend(const AttentionParams& params, int64_t position, const VisibleKeys& visible,
            const float* query, float* out) {
  const int64_t head_dim = params.q.dim(2);
  const KvTypes& types = params.cache.spec().types;
  std::vector<float> q(query, query + head_dim);
  if (is_rotated(types.keys)) rotate(q.data(), head_dim);
  const int64_t first = first_visible(position, params.window);
  const int64_t num_keys = position - first + 1;
  const float* keys = visible.keys.data() + (first - visible.first) * head_dim;
  const float* values = visible.values.data() + (first - visible.first) * head_dim;

  std::vector<double> weights(static_cast<size_t>(num_keys));
  double max_score = -std::numeric_limits<double>::infinity();
  for (int64_t key = 0; key < num_keys; ++key) {
    double score = 0.0;
    for (int64_t i = 0; i < head_dim; ++i) score += double{q[i]} * double{keys[key * head_dim + i]};
    score *= params.scale;
    if (params.soft_cap > 0.0F) score = params.soft_cap * std::tanh(score / params.soft_cap);
    weights[key] = score;
    max_score = std::max(max_score, score);
  }

  double total = 0.0;
  for (double& weight : weights) {
    weight = std::exp(weight - max_score);
    total += weight;
  }

  for (int64_t i = 0; i < head_dim; ++i) {
    double sum = 0.0;
    for (int64_t key = 0; key < num_keys; ++key) sum += weights[key] * values[key * head_dim + i];
    out[i] = static_cast<float>(sum / total);
  }
  if (is_rotated(types.values)) rotate(out, head_dim);
}

void check_batch(const PagedBatch& batch, int64_t block_size) {
  const int64_t num_sequences = batch.num_sequences();
  HASTEN_CHECK(static_cast<int64_t>(batch.query_start.size()) == num_sequences + 1);
  HASTEN_CHECK(batch.query_start.front() == 0 && batch.query_start.back() == batch.num_tokens());
  HASTEN_CHECK(static_cast<int64_t>(batch.block_tables.size()) >=
               num_sequences * batch.block_table_stride);
  for (int64_t s = 0; s < num_sequences; ++s) {
    const int64_t query_len = batch.query_start[s + 1] - batch.query_start[s];
    HASTEN_CHECK(query_len >= 0 && query_len <= batch.context_len[s]);
    HASTEN_CHECK(batch.context_len[s] <= batch.block_table_stride * block_size);
  }
}

}  // namespace

void kv_write(const KvWriteParams& params) {
  const auto& cache = dynamic_cast<const PagedKvCache&>(params.cache);
  const KvCacheSpec& spec = cache.spec();
  const Shape shape{params.batch.num_tokens(), spec.num_kv_heads, spec.head_dim};
  HASTEN_CHECK(params.k.shape() == shape && params.v.shape() == shape);

  for (int64_t t = 0; t < params.batch.num_tokens(); ++t) {
    const int64_t slot = params.batch.slots[t];
    for (int64_t h = 0; h < spec.num_kv_heads; ++h) {
      const int64_t offset = (t * spec.num_kv_heads + h) * spec.head_dim;
      encode_kv_row(spec.types.keys, params.k.f32() + offset, spec.head_dim,
                    cache.key(params.layer, slot, h));
      encode_kv_row(spec.types.values, params.v.f32() + offset, spec.head_dim,
                    cache.value(params.layer, slot, h));
    }
  }
}

void attention(const AttentionParams& params) {
  const KvCacheSpec& spec = params.cache.spec();
  const PagedBatch& batch = params.batch;
  const int64_t num_heads = params.q.dim(1);
  HASTEN_CHECK(params.q.shape() == (Shape{batch.num_tokens(), num_heads, spec.head_dim}));
  HASTEN_CHECK(params.out.shape() == params.q.shape());
  HASTEN_CHECK(num_heads % spec.num_kv_heads == 0);
  check_batch(batch, spec.block_size);

  const int64_t heads_per_kv_head = num_heads / spec.num_kv_heads;
  for (int64_t s = 0; s < batch.num_sequences(); ++s) {
    const int64_t query_len = batch.query_start[s + 1] - batch.query_start[s];
    const int64_t first_position = batch.context_len[s] - query_len;
    if (query_len == 0) continue;
    for (int64_t kv_head = 0; kv_head < spec.num_kv_heads; ++kv_head) {
      const VisibleKeys visible =
          gather(params, s, kv_head, first_visible(first_position, params.window));
      for (int64_t i = 0; i < query_len; ++i) {
        for (int64_t g = 0; g < heads_per_kv_head; ++g) {
          const int64_t token = batch.query_start[s] + i;
          const int64_t head = kv_head * heads_per_kv_head + g;
          const int64_t offset = (token * num_heads + head) * spec.head_dim;
          attend(params, first_position + i, visible, params.q.f32() + offset,
                 params.out.f32() + offset);
        }
      }
    }
  }
}

}  // namespace hasten::ops::reference
