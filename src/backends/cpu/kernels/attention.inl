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
/// brings sum and output of the row to the new maximum.
inline void softmax_row(const AttendTileTask& task, int64_t row) {
  float* scores = task.scores + row * kTileKeys;
  const int32_t begin = task.begin[row];
  const int32_t end = task.end[row];
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    if (task.soft_cap <= 0) break;
    const F32x16 cap = set1(task.soft_cap);
    store(scores + i, mul(cap, hyperbolic_tangent(div(load(scores + i), cap))));
  }
  for (int32_t i = 0; i < begin; ++i) scores[i] = kNoMax;
  for (int32_t i = end; i < kTileKeys; ++i) scores[i] = kNoMax;

  F32x16 top = load(scores);
  for (int64_t i = 16; i < kTileKeys; i += 16) top = max(load(scores + i), top);
  float lanes[16];
  store(lanes, top);
  const float old_max = task.state.max[row];
  float new_max = old_max;
  for (int i = 0; i < 16; ++i) new_max = lanes[i] > new_max ? lanes[i] : new_max;

  F32x16 sum = zero();
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    const F32x16 p = exponential(sub(load(scores + i), set1(new_max)));
    store(scores + i, p);
    sum = add(sum, p);
  }
  if (new_max > old_max) {
    store(lanes, exponential(set1(old_max - new_max)));
    const F32x16 decay = set1(lanes[0]);
    float* out = task.state.out + row * task.padded_dim;
    for (int64_t d = 0; d < task.padded_dim; d += 16) store(out + d, mul(load(out + d), decay));
    task.state.sum[row] *= lanes[0];
    task.state.max[row] = new_max;
  }
  task.state.sum[row] += reduce_add(sum);
}

/// Rows that see nothing of the tile must not be passed together with rows that do: their scores
/// become zeros, which leave sum and output as they are.
inline void attend_tile(const AttendTileTask& task) {
  multiply<false>(task.q, task.head_dim, task.rows, task.tile_keys, kTileKeys, task.head_dim,
                  kTileKeys, task.scores, kTileKeys);
  for (int64_t row = 0; row < task.rows; ++row) {
    if (task.end[row] > task.begin[row]) {
      softmax_row(task, row);
    } else {
      for (int64_t i = 0; i < kTileKeys; i += 16) store(task.scores + row * kTileKeys + i, zero());
    }
  }
  multiply<true>(task.scores, kTileKeys, task.rows, task.tile_values, task.padded_dim, kTileKeys,
                 task.padded_dim, task.state.out, task.padded_dim);
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
