// SPDX-License-Identifier: Apache-2.0
// attention.inl with keys and values of bf16 as they are, and two products to an instruction: of
// neighbours in the head, and of neighbouring keys. Weights are rounded to bf16; a query is the sum
// of two, as scores are exponents and what they are off by is multiplied. The orders of sums are
// those of a tile, whoever shares it. Behind a simd header with dot_bf16.
#pragma once

#include "backends/cpu/kernels/attention.inl"

namespace hasten::cpu {
namespace {

/// What multiply_tile takes for an element: a pair of bf16.
struct PairElements {
  using Vector = I32x16;
  static constexpr int kUnits = 1;
  static HASTEN_INLINE Vector load_row(const float* p) { return load_pairs(p); }
  static HASTEN_INLINE Vector broadcast(const float* p) {
    return set1_i32(load_scalar<int32_t>(reinterpret_cast<const uint8_t*>(p)));
  }
  static HASTEN_INLINE F32x16 multiply_add(Vector a, Vector b, F32x16 sum) {
    return dot_bf16(sum, b, a);
  }
};

/// n <= 16 bf16 of both places as pairs; the others are zero, as is what is at null.
inline I32x16 load_pairs_of(const uint8_t* first, const uint8_t* second, int64_t n) {
  const auto halves = [&](const uint8_t* p) HASTEN_INLINE {
    if (p == nullptr) return zero_i32();
    return n == 16 ? load_halves(p) : load_first_halves(p, n);
  };
  return pair_up(halves(first), halves(second));
}

/// Likewise, a being the sum of two pairs, one behind the other.
struct SplitElements {
  using Vector = I32x16;
  struct Factor {
    I32x16 high;
    I32x16 low;
  };
  static constexpr int kUnits = 2;
  static HASTEN_INLINE Vector load_row(const float* p) { return load_pairs(p); }
  static HASTEN_INLINE Factor broadcast(const float* p) {
    return {PairElements::broadcast(p), PairElements::broadcast(p + 1)};
  }
  static HASTEN_INLINE F32x16 multiply_add(const Factor& a, Vector b, F32x16 sum) {
    return dot_bf16(dot_bf16(sum, b, a.low), b, a.high);
  }
};

inline void load_bf16_keys(const KvRunTask& task) {
  const int64_t row_bytes = kv_key_row_bytes(KvKind::bf16, task.block_size);
  for (int64_t i = 0; i < task.count; i += 16) {
    const int64_t n = task.count - i < 16 ? task.count - i : 16;
    const uint8_t* row = task.keys + kv_key_row_bytes(KvKind::bf16, task.first + i);
    float* to = task.tile_keys + task.at + i;
    if (n == 16) {
      for (int64_t d = 0; d < task.head_dim; d += 2, row += 2 * row_bytes, to += kTileKeys) {
        store_pairs(to, pair_up(load_halves(row), load_halves(row + row_bytes)));
      }
      continue;
    }
    for (int64_t d = 0; d < task.head_dim; d += 2, row += 2 * row_bytes, to += kTileKeys) {
      store_first_pairs(to, load_pairs_of(row, row + row_bytes, n), n);
    }
  }
}

inline void load_bf16_values(const KvRunTask& task) {
  const int64_t row_bytes = kv_code_bytes(KvKind::bf16, task.head_dim);
  const uint8_t* row = task.values + task.first * row_bytes;
  for (int64_t t = task.at; t < task.at + task.count;) {
    // Half a pair, where blocks end between its two: the first half comes first.
    const bool first = t % 2 == 0;
    const bool second = !first || t + 1 < task.at + task.count;
    float* to = task.tile_values + t / 2 * task.padded_dim;
    for (int64_t d = 0; d < task.padded_dim; d += 16) {
      const int64_t n = task.head_dim - d < 16 ? task.head_dim - d : 16;
      const uint8_t* at = row + 2 * d;
      const I32x16 pairs =
          load_pairs_of(first ? at : nullptr, second ? at + (first ? row_bytes : 0) : nullptr, n);
      store_pairs(to + d, first ? pairs : bit_or(pairs, load_pairs(to + d)));
    }
    const int64_t count = first && second ? 2 : 1;
    t += count;
    row += count * row_bytes;
  }
}

/// What queries become for SplitElements: of each pair of floats the nearest pair of bf16 and, of
/// what that leaves, again, so that 16 bits of a float are kept. In place; `count` is even.
inline void split_queries(float* q, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const int64_t left = count - i;
    const F32x16 first = left < 16 ? load_first(q + i, left) : load(q + i);
    const F32x16 second = left >= 32   ? load(q + i + 16)
                          : left <= 16 ? zero()
                                       : load_first(q + i + 16, left - 16);
    float high[16];
    float low[16];
    store_pairs(high, round_bf16(first, second));
    const auto* rounded = reinterpret_cast<const uint8_t*>(high);
    const F32x16 rest = sub(first, as_float(pair_up(zero_i32(), load_halves(rounded))));
    const F32x16 second_rest =
        sub(second, as_float(pair_up(zero_i32(), load_halves(rounded + 32))));
    store_pairs(low, round_bf16(rest, second_rest));
    for (int64_t k = 0; k < 16 && i + 2 * k < count; ++k) {
      __builtin_memcpy(q + i + 2 * k, &high[k], 4);
      __builtin_memcpy(q + i + 2 * k + 1, &low[k], 4);
    }
  }
}

inline void bf16_kv_load(const KvRunTask& task) {
  load_bf16_keys(task);
  load_bf16_values(task);
}

/// Softmax of a row, whose weights become pairs.
inline void bf16_softmax_row(const TileQueries& queries, int64_t row) {
  softmax_row(queries, row);
  float* scores = queries.scores + row * kTileKeys;
  for (int64_t i = 0; i < kTileKeys / 2; i += 16) {
    store_pairs(scores + i, round_bf16(load(scores + 2 * i), load(scores + 2 * i + 16)));
  }
}

inline void bf16_attend_tile(const AttendTileTask& task) {
  const TileQueries& queries = task.queries;
  multiply<SplitElements, false>(queries.q, queries.head_dim, queries.rows, task.tile_keys,
                                 kTileKeys, queries.head_dim / 2, kTileKeys, queries.scores,
                                 kTileKeys);
  for (int64_t row = 0; row < queries.rows; ++row) bf16_softmax_row(queries, row);
  multiply<PairElements, true>(queries.scores, kTileKeys, queries.rows, task.tile_values,
                               queries.padded_dim, kTileKeys / 2, queries.padded_dim,
                               queries.state.out, queries.padded_dim);
}

/// Scores of kRows queries with all keys of a tile, in the order of multiply_tile.
template <int kRows>
inline void bf16_score_cached(const AttendCachedTask& task, int64_t row) {
  constexpr int kVectors = kTileKeys / 16;
  const TileQueries& queries = task.queries;
  const float* q = queries.q + row * queries.head_dim;
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = zero();
  }
  for (int64_t d = 0; d < queries.head_dim; d += 2, q += 2) {
    const int64_t at = d * task.key_stride;
    I32x16 keys[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      if (task.next != nullptr) prefetch_far(task.next->keys[v] + at);
      const uint8_t* codes = task.tile->keys[v] + at;
      keys[v] = pair_up(load_halves(codes), load_halves(codes + task.key_stride));
    }
    for (int r = 0; r < kRows; ++r) {
      const auto factor = SplitElements::broadcast(q + r * queries.head_dim);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = SplitElements::multiply_add(factor, keys[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* scores = queries.scores + (row + r) * kTileKeys;
    for (int v = 0; v < kVectors; ++v) store(scores + 16 * v, sum[r][v]);
  }
}

/// Adds kVectors * 16 elements of the values, weighted, to the outputs of kRows queries, in the
/// order of multiply_tile.
template <int kVectors, int kRows>
inline void bf16_weigh_cached(const AttendCachedTask& task, int64_t row, int64_t first_element) {
  const TileQueries& queries = task.queries;
  const CachedTile& tile = *task.tile;
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  const float* weights = queries.scores + row * kTileKeys;
  const int64_t first_byte = kv_code_bytes(KvKind::bf16, first_element);
  F32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(out + r * queries.padded_dim + 16 * v);
  }
  for (int32_t t = tile.begin / 2 * 2; t < tile.end; t += 2) {
    const uint8_t* first = t >= tile.begin ? tile.values[t] + first_byte : nullptr;
    const uint8_t* second = t + 1 < tile.end ? tile.values[t + 1] + first_byte : nullptr;
    for (int32_t later = t; task.next != nullptr && later < t + 2; ++later) {
      if (later < task.next->begin || later >= task.next->end) continue;
      for (int64_t line = 0; line < kv_code_bytes(KvKind::bf16, kVectors * 16); line += 64) {
        prefetch_far(task.next->values[later] + first_byte + line);
      }
    }
    I32x16 elements[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      elements[v] = load_pairs_of(first == nullptr ? nullptr : first + 32 * v,
                                  second == nullptr ? nullptr : second + 32 * v, 16);
    }
    for (int r = 0; r < kRows; ++r) {
      const I32x16 factor = PairElements::broadcast(weights + r * kTileKeys + t / 2);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = dot_bf16(sum[r][v], elements[v], factor);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(out + r * queries.padded_dim + 16 * v, sum[r][v]);
  }
}

inline void bf16_attend_cached(const AttendCachedTask& task) {
  const TileQueries& queries = task.queries;
  for (int64_t row = 0; row < queries.rows; row += kFloatRows) {
    with_constant<kFloatRows>(queries.rows - row, [&](auto rows) {
      bf16_score_cached<decltype(rows)::value>(task, row);
    });
  }
  for (int64_t row = 0; row < queries.rows; ++row) bf16_softmax_row(queries, row);
  for (int64_t row = 0; row < queries.rows; row += kFloatRows) {
    with_constant<kFloatRows>(queries.rows - row, [&](auto rows) {
      for (int64_t d = 0; d < queries.head_dim; d += 16 * kFloatGroups) {
        with_constant<kFloatGroups>((queries.head_dim - d) / 16, [&](auto vectors) {
          bf16_weigh_cached<decltype(vectors)::value, decltype(rows)::value>(task, row, d);
        });
      }
    });
  }
}

}  // namespace
}  // namespace hasten::cpu
