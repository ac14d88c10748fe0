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

/// What the scores are multiplied with that prepare_scores leaves.
inline float remaining_scale(const TileQueries& queries) {
  return queries.soft_cap > 0 ? 1.0F : queries.score_scale;
}

/// Caps a row of scores, makes those of keys that the row does not see -infinity, whatever they
/// were, and returns the row's maximum, to which sums and output are brought if it is new. The row
/// sees some key, all of them if `whole`.
HASTEN_INLINE inline float prepare_scores(const TileQueries& queries, int64_t row, float* scores,
                                          bool whole) {
  const int32_t begin = queries.begin[row];
  const int32_t end = queries.end[row];
  for (int64_t i = 0; i < end; i += 16) {
    if (queries.soft_cap <= 0) break;
    const F32x16 cap = set1(queries.soft_cap);
    const F32x16 score = mul(load(scores + i), set1(queries.score_scale));
    store(scores + i, mul(cap, hyperbolic_tangent(div(score, cap))));
  }
  // Whole vectors: single lanes would have to leave the core's store buffer before they are loaded.
  alignas(64) static constexpr float kLanes[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  for (int32_t i = 0; i < kTileKeys; i += 16) {
    if (whole || (begin <= i && i + 16 <= end)) continue;
    const F32x16 key = add(load(kLanes), set1(static_cast<float>(i)));
    const F32x16 score =
        select_less(key, set1(static_cast<float>(end)), load(scores + i), set1(kNoMax));
    store(scores + i, select_less(key, set1(static_cast<float>(begin)), set1(kNoMax), score));
  }

  F32x16 top = load(scores);
  for (int64_t i = 16; i < kTileKeys; i += 16) top = max(load(scores + i), top);
  top = mul(top, set1(remaining_scale(queries)));
  const SoftmaxState& state = queries.state;
  const float old_max = state.max[row];
  if (!any_greater(top, set1(old_max + kMaxSlack))) return old_max;
  const float new_max = reduce_max(top);
  float lanes[16];
  store(lanes, exponential(set1(old_max - new_max)));
  const F32x16 decay = set1(lanes[0]);
  float* out = state.out + row * queries.padded_dim;
  for (int64_t d = 0; d < queries.padded_dim; d += 16) store(out + d, mul(load(out + d), decay));
  float* sums = state.sums + row * kSumLanes;
  store(sums, mul(load(sums), decay));
  state.max[row] = new_max;
  return new_max;
}

inline bool sees_nothing(const TileQueries& queries, int64_t row) {
  return queries.end[row] <= queries.begin[row];
}

/// Replaces a row of scores by exp(score - max), zero for keys that the row does not see, and adds
/// them to its sums. A row that sees nothing gets zeros.
inline void softmax_row(const TileQueries& queries, int64_t row) {
  float* scores = queries.scores + row * kTileKeys;
  if (sees_nothing(queries, row)) {
    for (int64_t i = 0; i < kTileKeys; i += 16) store(scores + i, zero());
    return;
  }
  const F32x16 most = set1(prepare_scores(queries, row, scores, false));
  float* sums = queries.state.sums + row * kSumLanes;
  F32x16 sum = load(sums);
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    const F32x16 p = exponential(sub(load(scores + i), most));
    store(scores + i, p);
    sum = add(sum, p);
  }
  store(sums, sum);
}

inline void attend_tile(const AttendTileTask& task) {
  const TileQueries& queries = task.queries;
  multiply<false>(queries.q, queries.head_dim, queries.rows, task.tile_keys, kTileKeys,
                  queries.head_dim, kTileKeys, queries.scores, kTileKeys);
  for (int64_t row = 0; row < queries.rows; ++row) softmax_row(queries, row);
  multiply<true>(queries.scores, kTileKeys, queries.rows, task.tile_values, queries.padded_dim,
                 kTileKeys, queries.padded_dim, queries.state.out, queries.padded_dim);
}

inline bool saw_nothing(const SoftmaxState& state, int64_t row) {
  return state.max[row] == kNoMax && reduce_add(load(state.sums + row * kSumLanes)) == 0.0F;
}

/// Merged with nothing, a part is a copy of itself, down to the signs of zeros.
inline void merge_softmax(const MergeTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    if (saw_nothing(task.part, row)) continue;
    float* sums = task.total.sums + row * kSumLanes;
    float* out = task.total.out + row * task.padded_dim;
    const float* part_sums = task.part.sums + row * kSumLanes;
    const float* part = task.part.out + row * task.padded_dim;
    const float part_max = task.part.max[row];
    if (saw_nothing(task.total, row)) {
      task.total.max[row] = part_max;
      store(sums, load(part_sums));
      for (int64_t d = 0; d < task.padded_dim; d += 16) store(out + d, load(part + d));
      continue;
    }
    const float old_max = task.total.max[row];
    // What has the greater maximum stays as it is.
    const bool grows = part_max > old_max;
    const F32x16 decay = exponential(set1(grows ? old_max - part_max : part_max - old_max));
    const F32x16 total_weight = grows ? decay : set1(1.0F);
    const F32x16 part_weight = grows ? set1(1.0F) : decay;
    task.total.max[row] = grows ? part_max : old_max;
    const auto add_part = [&](float* to, const float* from) {
      store(to, fma(load(from), part_weight, mul(load(to), total_weight)));
    };
    add_part(sums, part_sums);
    for (int64_t d = 0; d < task.padded_dim; d += 16) add_part(out + d, part + d);
  }
}

inline void finish_softmax(const FinishSoftmaxTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    const F32x16 sum = set1(reduce_add(load(task.sums + row * kSumLanes)));
    const float* values = task.values + row * task.padded_dim;
    float* out = task.out + row * task.head_dim;
    for_lanes(
        task.head_dim, [&](int64_t i) { store(out + i, div(load(values + i), sum)); },
        [&](int64_t i, int64_t n) {
          store_first(out + i, div(load_first(values + i, n), sum), n);
        });
  }
}

}  // namespace
}  // namespace hasten::cpu
