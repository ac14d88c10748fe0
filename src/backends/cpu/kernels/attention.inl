// SPDX-License-Identifier: Apache-2.0
// Paged attention on one tile of keys at a time, with online softmax (Milakov and Gimelshein,
// 2018). Every score is one chain along the head, every output one chain along the keys of a tile,
// so that a row's result does not depend on which rows it shares a tile with.
#pragma once

#include <type_traits>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/elementwise.inl"
#include "backends/cpu/kernels/kv_elements.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr float kNoMax = -__builtin_inff();

inline void kv_store(const KvStoreTask& task) {
  const auto scatter = [&](int64_t first, const auto* lanes, int64_t n) {
    using Element = std::remove_cvref_t<decltype(*lanes)>;
    auto* to = static_cast<Element*>(task.data) + task.first + first * task.stride;
    for (int64_t lane = 0; lane < n; ++lane) to[lane * task.stride] = lanes[lane];
  };
  const auto put = [&](int64_t i, F32x16 v, int64_t n) {
    if (task.kind == KvKind::f32) {
      float lanes[16];
      store(lanes, v);
      return scatter(i, lanes, n);
    }
    uint16_t lanes[16];
    if (task.kind == KvKind::f16) {
      constexpr float kLargest = 65504.0F;  // min and max let a NaN through as their second
      store_f16(lanes, max(set1(-kLargest), min(set1(kLargest), v)));
    } else {
      store_bf16(lanes, v);
    }
    scatter(i, lanes, n);
  };
  for_lanes(
      task.count, [&](int64_t i) { put(i, load(task.x + i), 16); },
      [&](int64_t i, int64_t n) { put(i, load_first(task.x + i, n), n); });
}

template <KvKind kKind>
inline void load_keys(const KvRunTask& task) {
  const int64_t row_bytes = kv_key_row_bytes(kKind, task.block_size);
  const uint8_t* scales = task.keys + kv_code_bytes(kKind, task.block_size * task.head_dim) +
                          task.first * kKvScaleBytes;
  for (int64_t i = 0; i < task.count; i += 16) {
    const int64_t n = task.count - i < 16 ? task.count - i : 16;
    const uint8_t* codes = task.keys + kv_key_row_bytes(kKind, task.first + i);
    float* to = task.tile_keys + task.at + i;
    for (int64_t j = 0; j < num_key_row_runs<kKind>(task.head_dim); ++j) {
      F32x16 scale = zero();
      if constexpr (has_scales(kKind)) {
        scale = load_first_kv_scales(scales + (j * task.block_size + i) * kKvScaleBytes, n);
      }
      for_key_rows<kKind>(task.head_dim, j, [&](int64_t row, auto high) {
        F32x16 keys = load_first_kv_codes<kKind, decltype(high)::value>(codes + row * row_bytes, n);
        if constexpr (has_scales(kKind)) keys = mul(keys, scale);
        if (n == 16) {
          store(to, keys);
        } else {
          store_first(to, keys, n);
        }
        to += kTileKeys;
      });
    }
  }
}

template <KvKind kKind>
inline void load_values(const KvRunTask& task) {
  const int64_t row_bytes = kv_code_bytes(kKind, task.head_dim);
  const int64_t scale_bytes = task.head_dim / kKvScaleElements * kKvScaleBytes;
  const uint8_t* scales = task.values + task.block_size * row_bytes;
  for (int64_t t = 0; t < task.count; ++t) {
    const uint8_t* codes = task.values + (task.first + t) * row_bytes;
    const uint8_t* scale = scales + (task.first + t) * scale_bytes;
    float* to = task.tile_values + (task.at + t) * task.padded_dim;
    for (int64_t d = 0; d < task.head_dim; d += 16) {
      const int64_t n = task.head_dim - d < 16 ? task.head_dim - d : 16;
      const uint8_t* at = codes + value_code_at<kKind>(d);
      const bool high = kKind == KvKind::q4_0 && d % 32 != 0;
      const F32x16 elements =
          high ? load_first_kv_codes<kKind, true>(at, n) : load_first_kv_codes<kKind, false>(at, n);
      store(to + d, scale_value_codes<kKind>(elements, scale, d));
    }
  }
}

inline void kv_load(const KvRunTask& task) {
  with_kv_kind(task.key_kind, [&](auto kind) { load_keys<KvKind{decltype(kind)::value}>(task); });
  with_kv_kind(task.value_kind,
               [&](auto kind) { load_values<KvKind{decltype(kind)::value}>(task); });
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

/// What the scores are multiplied with that prepare_scores leaves.
inline float remaining_scale(const TileQueries& queries) {
  return queries.soft_cap > 0 ? 1.0F : queries.score_scale;
}

/// Caps a row of scores, makes those of keys that the row does not see -infinity, and returns the
/// row's maximum, to which sums and output are brought if it is new. The row sees some key.
inline float prepare_scores(const TileQueries& queries, int64_t row, float* scores) {
  const int32_t begin = queries.begin[row];
  const int32_t end = queries.end[row];
  for (int64_t i = 0; i < kTileKeys; i += 16) {
    if (queries.soft_cap <= 0) break;
    const F32x16 cap = set1(queries.soft_cap);
    const F32x16 score = mul(load(scores + i), set1(queries.score_scale));
    store(scores + i, mul(cap, hyperbolic_tangent(div(score, cap))));
  }
  for (int32_t i = 0; i < begin; ++i) scores[i] = kNoMax;
  for (int32_t i = end; i < kTileKeys; ++i) scores[i] = kNoMax;

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
  const F32x16 most = set1(prepare_scores(queries, row, scores));
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

/// The tile that is fetched while rows from `row` on are worked on. Where there is nothing to fetch
/// it is the one that is there already, which costs less than to ask each time.
inline const CachedTile& fetched_tile(const AttendCachedTask& task, int64_t row) {
  return task.next != nullptr && row == 0 ? *task.next : *task.tile;
}

/// Scores of kRows queries with kVectors * 16 keys of a tile, in the order of multiply_tile.
template <KvKind kKind, int kVectors, int kRows>
inline void score_cached(const AttendCachedTask& task, int64_t row, int64_t first_vector) {
  const TileQueries& queries = task.queries;
  const int64_t head_dim = queries.head_dim;
  const int64_t key_stride = task.key_stride;
  const float* q = queries.q + row * head_dim;
  const CachedTile& tile = *task.tile;
  const CachedTile& next = fetched_tile(task, row);
  const uint8_t* tile_keys[kVectors];
  const uint8_t* next_keys[kVectors];
  F32x16 sum[kRows][kVectors];
  unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
    tile_keys[v.value] = tile.keys[first_vector + v.value];
    next_keys[v.value] = next.keys[first_vector + v.value];
  });
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = zero(); });
  for (int64_t j = 0; j < num_key_row_runs<kKind>(head_dim); ++j) {
    F32x16 scales[kVectors];
    unroll<0, has_scales(kKind) ? kVectors : 0>([&](auto v) HASTEN_INLINE {
      const int64_t at = j * task.scale_stride;
      prefetch_far(next.key_scales[first_vector + v.value] + at);
      scales[v.value] = load_kv_scales(tile.key_scales[first_vector + v.value] + at);
    });
    for_key_rows<kKind>(head_dim, j, [&](int64_t key_row, auto high) HASTEN_INLINE {
      const int64_t at = key_row * key_stride;
      F32x16 keys[kVectors];
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        constexpr int kVector = decltype(v)::value;
        if (at % 64 == 0 && decltype(high)::value == 0) prefetch_far(next_keys[kVector] + at);
        keys[kVector] =
            load_kv_codes_shuffled<kKind, decltype(high)::value>(tile_keys[kVector] + at);
        if constexpr (has_scales(kKind)) keys[kVector] = mul(keys[kVector], scales[kVector]);
      });
      unroll<0, kRows>([&](auto r) HASTEN_INLINE {
        const F32x16 factor = set1(q[r.value * head_dim]);
        unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
          sum[r.value][v.value] = fma(factor, keys[v.value], sum[r.value][v.value]);
        });
      });
      ++q;  // the rows come in the order of the elements
    });
  }
  float* scores = queries.scores + row * kTileKeys + 16 * first_vector;
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(scores + r.value * kTileKeys + 16 * v.value,
          from_code_order<kKind>(sum[r.value][v.value]));
  });
}

/// Adds kVectors * 16 elements of the values, weighted, to the outputs of kRows queries, in the
/// order of multiply_tile. Each part of the elements fetches as large a part of the next values.
template <KvKind kKind, int kVectors, int kRows>
inline void weigh_cached(const AttendCachedTask& task, int64_t row, int64_t first_element) {
  constexpr int64_t kShareBytes = kv_code_bytes(kKind, 16 * kVectors);  // of a key
  const TileQueries& queries = task.queries;
  const int64_t padded_dim = queries.padded_dim;
  float* out = queries.state.out + row * padded_dim + first_element;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = to_code_order<kKind>(load(out + r.value * padded_dim + 16 * v.value));
  });
  const int64_t value_bytes = kv_code_bytes(kKind, queries.head_dim);
  const int64_t scale_bytes =
      has_scales(kKind) ? queries.head_dim / kKvScaleElements * kKvScaleBytes : 0;
  const CachedTile& tile = *task.tile;
  const CachedTile& next = fetched_tile(task, row);
  for (int32_t begin = tile.begin; begin < tile.end;) {
    const int32_t run = begin / 16;
    const int32_t run_end = 16 * run + 16 < tile.end ? 16 * run + 16 : tile.end;
    const int64_t first = begin % 16;
    const uint8_t* codes = tile.values[run] + first * value_bytes;
    const uint8_t* scales = nullptr;
    // As many bytes as are worked on, in the order in which they lie.
    const uint8_t* ahead = next.values[run] + first * value_bytes +
                           (run_end - begin) * kv_code_bytes(kKind, first_element);
    if constexpr (has_scales(kKind)) {
      scales = tile.value_scales[run] + first * scale_bytes;
      for (int64_t line = 0; line < 16 * scale_bytes; line += 64)
        prefetch_far(next.value_scales[run] + line);
    }
    const float* weights = queries.scores + row * kTileKeys + begin;
    const float* const weights_end = weights + (run_end - begin);
#pragma GCC unroll 2
    for (; weights != weights_end; ++weights) {
      for (int64_t line = 0; line < kShareBytes; line += 64) prefetch_far(ahead + line);
      F32x16 elements[kVectors];
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        constexpr int kVector = decltype(v)::value;
        const int64_t d = first_element + 16 * kVector;
        const uint8_t* at = codes + value_code_at<kKind>(d);
        // Where groups of vectors begin at even multiples of 16, the compiler knows the nibble.
        const bool high =
            kKind == KvKind::q4_0 && (kVectors % 2 == 0 ? kVector % 2 != 0 : d % 32 != 0);
        elements[kVector] =
            scale_value_codes<kKind>(high ? load_kv_codes_shuffled<kKind, true>(at)
                                          : load_kv_codes_shuffled<kKind, false>(at),
                                     scales, d);
      });
      unroll<0, kRows>([&](auto r) HASTEN_INLINE {
        const F32x16 factor = set1(weights[r.value * kTileKeys]);
        unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
          sum[r.value][v.value] = fma(factor, elements[v.value], sum[r.value][v.value]);
        });
      });
      codes += value_bytes;
      scales += scale_bytes;
      ahead += kShareBytes;
    }
    begin = run_end;
  }
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(out + r.value * padded_dim + 16 * v.value, from_code_order<kKind>(sum[r.value][v.value]));
  });
}

template <KvKind kKind>
inline void score_all_cached(const AttendCachedTask& task) {
  constexpr int kKeyVectors = kTileKeys / 16;
  for (int64_t row = 0; row < task.queries.rows; row += kCachedTileRows) {
    with_constant<kCachedTileRows>(task.queries.rows - row, [&](auto rows) {
      constexpr int kVectors = cached_vectors(decltype(rows)::value);
      static_assert(kKeyVectors % kVectors == 0);
      for (int64_t v = 0; v < kKeyVectors; v += kVectors) {
        score_cached<kKind, kVectors, decltype(rows)::value>(task, row, v);
      }
    });
  }
}

template <KvKind kKind>
inline void weigh_all_cached(const AttendCachedTask& task) {
  const TileQueries& queries = task.queries;
  for (int64_t row = 0; row < queries.rows; row += kCachedTileRows) {
    with_constant<kCachedTileRows>(queries.rows - row, [&](auto rows) {
      constexpr int kMostVectors = cached_vectors(decltype(rows)::value);
      static_assert(kMostVectors == 1 || kMostVectors % 2 == 0);  // see `high` in weigh_cached
      for (int64_t d = 0; d < queries.head_dim; d += 16 * kMostVectors) {
        with_constant<kMostVectors>((queries.head_dim - d) / 16, [&](auto vectors) {
          weigh_cached<kKind, decltype(vectors)::value, decltype(rows)::value>(task, row, d);
        });
      }
    });
  }
}

inline void attend_cached(const AttendCachedTask& task) {
  with_kv_kind(task.key_kind,
               [&](auto kind) { score_all_cached<KvKind{decltype(kind)::value}>(task); });
  for (int64_t row = 0; row < task.queries.rows; ++row) softmax_row(task.queries, row);
  with_kv_kind(task.value_kind,
               [&](auto kind) { weigh_all_cached<KvKind{decltype(kind)::value}>(task); });
}

inline void merge_softmax(const MergeTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    const float part_max = task.part.max[row];
    const float* part_sums = task.part.sums + row * kSumLanes;
    if (part_max == kNoMax && reduce_add(load(part_sums)) == 0.0F) continue;  // it saw nothing
    const float old_max = task.total.max[row];
    // What has the greater maximum stays as it is.
    const bool grows = part_max > old_max;
    const F32x16 decay = exponential(set1(grows ? old_max - part_max : part_max - old_max));
    const F32x16 total_weight = grows ? decay : set1(1.0F);
    const F32x16 part_weight = grows ? set1(1.0F) : decay;
    task.total.max[row] = grows ? part_max : old_max;
    const auto add_part = [&](float* total, const float* part) {
      store(total, fma(load(part), part_weight, mul(load(total), total_weight)));
    };
    add_part(task.total.sums + row * kSumLanes, part_sums);
    float* out = task.total.out + row * task.padded_dim;
    const float* part = task.part.out + row * task.padded_dim;
    for (int64_t d = 0; d < task.padded_dim; d += 16) add_part(out + d, part + d);
  }
}

}  // namespace
}  // namespace hasten::cpu
