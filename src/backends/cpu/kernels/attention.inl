// SPDX-License-Identifier: Apache-2.0
// Paged attention on one tile of keys at a time, with online softmax (Milakov and Gimelshein,
// 2018). Every score is one chain along the head, every output one chain along the keys of a tile,
// so that a row's result does not depend on which rows it shares a tile with.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/elementwise.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr float kNoMax = -__builtin_inff();

inline F32x16 load_kind(FloatKind kind, const void* data, int64_t index) {
  if (kind == FloatKind::f32) return load(static_cast<const float*>(data) + index);
  if (kind == FloatKind::f16) return load_f16(static_cast<const uint16_t*>(data) + index);
  return load_bf16(static_cast<const uint16_t*>(data) + index);
}

/// The n < 16 elements at `index`; the other lanes are zero.
inline F32x16 load_kind_first(FloatKind kind, const void* data, int64_t index, int64_t n) {
  if (kind == FloatKind::f32) return load_first(static_cast<const float*>(data) + index, n);
  uint16_t lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<const uint16_t*>(data)[index + i];
  return load_kind(kind, lanes, 0);
}

/// data[index + i * stride] = v[i] for the first n lanes.
inline void store_kind(FloatKind kind, void* data, int64_t index, int64_t stride, F32x16 v,
                       int64_t n) {
  if (kind == FloatKind::f32) {
    float lanes[16];
    store(lanes, v);
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(data)[index + i * stride] = lanes[i];
    return;
  }
  uint16_t lanes[16];
  if (kind == FloatKind::f16) {
    store_f16(lanes, v);
  } else {
    store_bf16(lanes, v);
  }
  for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(data)[index + i * stride] = lanes[i];
}

inline void kv_store(const KvStoreTask& task) {
  const auto put = [&](int64_t d, F32x16 k, F32x16 v, int64_t n) {
    store_kind(task.kind, task.keys, d * task.block_size + task.offset, task.block_size, k, n);
    store_kind(task.kind, task.values, task.offset * task.head_dim + d, 1, v, n);
  };
  for_lanes(
      task.head_dim, [&](int64_t d) { put(d, load(task.k + d), load(task.v + d), 16); },
      [&](int64_t d, int64_t n) {
        put(d, load_first(task.k + d, n), load_first(task.v + d, n), n);
      });
}

inline void kv_load(const KvRunTask& task) {
  for (int64_t d = 0; d < task.head_dim; ++d) {
    float* to = task.tile_keys + d * kTileKeys + task.at;
    const int64_t from = d * task.block_size + task.first;
    for_lanes(
        task.count, [&](int64_t i) { store(to + i, load_kind(task.kind, task.keys, from + i)); },
        [&](int64_t i, int64_t n) {
          store_first(to + i, load_kind_first(task.kind, task.keys, from + i, n), n);
        });
  }
  for (int64_t t = 0; t < task.count; ++t) {
    float* to = task.tile_values + (task.at + t) * task.padded_dim;
    const int64_t from = (task.first + t) * task.head_dim;
    for_lanes(
        task.head_dim,
        [&](int64_t d) { store(to + d, load_kind(task.kind, task.values, from + d)); },
        [&](int64_t d, int64_t n) {
          store(to + d, load_kind_first(task.kind, task.values, from + d, n));
        });
  }
}

/// c[r, 16 v ...] = (kAdd: itself) + sum over k of a[r, k] * b[k, 16 v ...], for a tile of rows and
/// vectors.
template <bool kAdd, int kVectors, int kRows>
inline void multiply_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                          int64_t depth, float* c, int64_t c_stride) {
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = kAdd ? load(c + r * c_stride + 16 * v) : zero();
  }
  for (int64_t k = 0; k < depth; ++k) {
    F32x16 row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + k * b_stride + 16 * v);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 factor = set1(a[r * a_stride + k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(c + r * c_stride + 16 * v, sum[r][v]);
  }
}

/// multiply_tile over all rows and columns (a multiple of 16).
template <bool kAdd>
inline void multiply(const float* a, int64_t a_stride, int64_t rows, const float* b,
                     int64_t b_stride, int64_t depth, int64_t columns, float* c, int64_t c_stride) {
  for (int64_t column = 0; column < columns; column += 16 * kFloatGroups) {
    with_constant<kFloatGroups>((columns - column) / 16, [&](auto vectors) {
      for (int64_t r = 0; r < rows; r += kFloatRows) {
        with_constant<kFloatRows>(rows - r, [&](auto tile_rows) {
          multiply_tile<kAdd, decltype(vectors)::value, decltype(tile_rows)::value>(
              a + r * a_stride, a_stride, b + column, b_stride, depth, c + r * c_stride + column,
              c_stride);
        });
      }
    });
  }
}

/// Replaces a row of scores by exp(score - max), zero for keys that the row does not see, and
/// brings sum and output of the row to the new maximum. A row that sees nothing gets zeros, which
/// leave its sum and output as they are.
inline void softmax_row(const TileQueries& queries, int64_t row) {
  float* scores = queries.scores + row * kTileKeys;
  const int32_t begin = queries.begin[row];
  const int32_t end = queries.end[row];
  if (end <= begin) {
    for (int64_t i = 0; i < kTileKeys; i += 16) store(scores + i, zero());
    return;
  }
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    if (queries.soft_cap <= 0) break;
    const F32x16 cap = set1(queries.soft_cap);
    store(scores + i, mul(cap, hyperbolic_tangent(div(load(scores + i), cap))));
  }
  for (int32_t i = 0; i < begin; ++i) scores[i] = kNoMax;
  for (int32_t i = end; i < kTileKeys; ++i) scores[i] = kNoMax;

  F32x16 top = load(scores);
  for (int64_t i = 16; i < kTileKeys; i += 16) top = max(load(scores + i), top);
  const SoftmaxState& state = queries.state;
  const float old_max = state.max[row];
  const float tile_max = reduce_max(top);
  const float new_max = tile_max > old_max ? tile_max : old_max;

  F32x16 sum = zero();
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    const F32x16 p = exponential(sub(load(scores + i), set1(new_max)));
    store(scores + i, p);
    sum = add(sum, p);
  }
  if (new_max > old_max) {
    float lanes[16];
    store(lanes, exponential(set1(old_max - new_max)));
    const F32x16 decay = set1(lanes[0]);
    float* out = state.out + row * queries.padded_dim;
    for (int64_t d = 0; d < queries.padded_dim; d += 16) store(out + d, mul(load(out + d), decay));
    state.sum[row] *= lanes[0];
    state.max[row] = new_max;
  }
  state.sum[row] += reduce_add(sum);
}

inline void attend_tile(const AttendTileTask& task) {
  const TileQueries& queries = task.queries;
  multiply<false>(queries.q, queries.head_dim, queries.rows, task.tile_keys, kTileKeys,
                  queries.head_dim, kTileKeys, queries.scores, kTileKeys);
  for (int64_t row = 0; row < queries.rows; ++row) softmax_row(queries, row);
  multiply<true>(queries.scores, kTileKeys, queries.rows, task.tile_values, queries.padded_dim,
                 kTileKeys, queries.padded_dim, queries.state.out, queries.padded_dim);
}

/// Scores of kRows queries with kVectors * 16 keys of a tile, in the order of multiply_tile.
template <FloatKind kKind, int kVectors, int kRows>
inline void score_cached(const AttendCachedTask& task, int64_t row, int64_t first_vector) {
  const TileQueries& queries = task.queries;
  const float* q = queries.q + row * queries.head_dim;
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = zero();
  }
  for (int64_t d = 0; d < queries.head_dim; ++d) {
    F32x16 keys[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = d * task.key_stride;
      if (task.next != nullptr && at % 64 == 0) {
        prefetch(task.next->keys[first_vector + v] + at);
      }
      keys[v] = load_kind(kKind, task.tile->keys[first_vector + v] + at, 0);
    }
    for (int r = 0; r < kRows; ++r) {
      const F32x16 factor = set1(q[r * queries.head_dim + d]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, keys[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* scores = queries.scores + (row + r) * kTileKeys + 16 * first_vector;
    for (int v = 0; v < kVectors; ++v) store(scores + 16 * v, sum[r][v]);
  }
}

/// Adds kVectors * 16 elements of the values, weighted, to the outputs of kRows queries, in the
/// order of multiply_tile.
template <FloatKind kKind, int kVectors, int kRows>
inline void weigh_cached(const AttendCachedTask& task, int64_t row, int64_t first_element) {
  const TileQueries& queries = task.queries;
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  const float* weights = queries.scores + row * kTileKeys;
  constexpr int64_t kBytes = kKind == FloatKind::f32 ? 4 : 2;
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(out + r * queries.padded_dim + 16 * v);
  }
  for (int32_t t = task.tile->begin; t < task.tile->end; ++t) {
    const uint8_t* value = task.tile->values[t] + first_element * kBytes;
    if (task.next != nullptr && t >= task.next->begin && t < task.next->end) {
      const uint8_t* next = task.next->values[t] + first_element * kBytes;
      for (int64_t line = 0; line < kVectors * 16 * kBytes; line += 64) prefetch(next + line);
    }
    F32x16 elements[kVectors];
    for (int v = 0; v < kVectors; ++v) elements[v] = load_kind(kKind, value + 16 * v * kBytes, 0);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 factor = set1(weights[r * kTileKeys + t]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, elements[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(out + r * queries.padded_dim + 16 * v, sum[r][v]);
  }
}

template <FloatKind kKind>
inline void attend_cached_kind(const AttendCachedTask& task) {
  const TileQueries& queries = task.queries;
  constexpr int kKeyVectors = kTileKeys / 16;
  static_assert(kKeyVectors % kFloatGroups == 0);
  for (int64_t row = 0; row < queries.rows; row += kFloatRows) {
    with_constant<kFloatRows>(queries.rows - row, [&](auto rows) {
      for (int64_t v = 0; v < kKeyVectors; v += kFloatGroups) {
        score_cached<kKind, kFloatGroups, decltype(rows)::value>(task, row, v);
      }
    });
  }
  for (int64_t row = 0; row < queries.rows; ++row) softmax_row(queries, row);
  for (int64_t row = 0; row < queries.rows; row += kFloatRows) {
    with_constant<kFloatRows>(queries.rows - row, [&](auto rows) {
      for (int64_t d = 0; d < queries.head_dim; d += 16 * kFloatGroups) {
        with_constant<kFloatGroups>((queries.head_dim - d) / 16, [&](auto vectors) {
          weigh_cached<kKind, decltype(vectors)::value, decltype(rows)::value>(task, row, d);
        });
      }
    });
  }
}

inline void attend_cached(const AttendCachedTask& task) {
  switch (task.kind) {
    case FloatKind::f32:
      return attend_cached_kind<FloatKind::f32>(task);
    case FloatKind::f16:
      return attend_cached_kind<FloatKind::f16>(task);
    case FloatKind::bf16:
      return attend_cached_kind<FloatKind::bf16>(task);
  }
}

inline void merge_softmax(const MergeTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    if (task.part.max[row] == kNoMax && task.part.sum[row] == 0.0F) continue;
    const float old_max = task.total.max[row];
    const float part_max = task.part.max[row];
    const float new_max = part_max > old_max ? part_max : old_max;
    float lanes[16] = {old_max - new_max, part_max - new_max};
    store(lanes, exponential(load(lanes)));
    task.total.max[row] = new_max;
    task.total.sum[row] = task.total.sum[row] * lanes[0] + task.part.sum[row] * lanes[1];
    float* out = task.total.out + row * task.padded_dim;
    const float* part = task.part.out + row * task.padded_dim;
    for (int64_t d = 0; d < task.padded_dim; d += 16) {
      store(out + d, fma(load(part + d), set1(lanes[1]), mul(load(out + d), set1(lanes[0]))));
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
