// SPDX-License-Identifier: Apache-2.0
// Attention to keys and values of q8_0, in pairs: dot products of integers, of 8 bits in the cache
// and of 16 for queries and weights. An element of a query is rounded by up to 2^-16 of the largest
// of its head, a weight by up to 2^-16 of the largest of its tile: if all 64 are rounded to one
// side, an output is off by 2^-10 of a value. Integer sums are exact: each is of 32 or 64 products
// of 22 bits. Behind a simd header with dot_i16.
#pragma once

#include "backends/cpu/kernels/kv_elements.inl"
#include "backends/cpu/kernels/pair_attention.inl"

namespace hasten::cpu {
namespace {

constexpr float kLargestI16 = 32767.0F;
// What is not above it counts as zero: of smaller numbers the inverse overflows.
constexpr float kLeastLargest = 0x1p-100F;

/// What numbers, of which `most` is the largest, are multiplied with to become integers; zero for
/// NaN, which is left to what one is worth.
HASTEN_INLINE inline F32x16 to_i16_range(float most) {
  return set1(most > kLeastLargest ? kLargestI16 / most : 0.0F);
}

/// What attend_q8 takes for a query: pairs of integers, and what one is worth behind them, NaN
/// where an element is. `count`, its elements, is a multiple of 32.
inline void round_query_q8(const float* q, int64_t count, float* to) {
  F32x16 top = zero();
  for (int64_t i = 0; i < count; i += 16) top = max_bits(top, abs(load(q + i)));
  const float most = reduce_bits(top);
  const F32x16 inverse = to_i16_range(most);
  for (int64_t i = 0; i < count; i += 32) {
    const I32x16 first = to_int(mul(load(q + i), inverse));
    const I32x16 second = to_int(mul(load(q + i + 16), inverse));
    store_i16(to + i / 2, first);
    store_i16(to + i / 2 + 8, second);
  }
  to[count / 2] = most / kLargestI16;
}

/// Of the pairs of 16 tokens, or of 16 elements: half a line. Of two that share one, the first
/// fetches it.
constexpr int64_t kPairsBytes = 32;
HASTEN_INLINE inline bool begins_line(int64_t at) { return at % 64 == 0; }

/// Adds what elements 32 j and following of the head bring to the scores of kRows queries with all
/// keys of a tile.
template <int kRows, CacheLevel kInto>
inline void score_part_q8(const AttendCachedTask& task, const PairsAhead<kInto>& ahead,
                          const float* q, int64_t j) {
  constexpr int kVectors = kTileKeys / 16;
  const int64_t head_dim = task.queries.head_dim;
  I32Sums sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = I32Sums{}; });
  for (int64_t pair = 16 * j; pair < 16 * j + 16; ++pair) {
    const int64_t at = pair * task.key_stride;
    if (begins_line(at)) ahead.fetch_keys(at);
    if (begins_line(pair * kPairsBytes)) ahead.fetch_own_values_again(pair * kPairsBytes);
    I32x16 keys[kVectors];
    unroll<0, kVectors>(
        [&](auto v) HASTEN_INLINE { keys[v.value] = widen_i8(task.tile->keys[v.value] + at); });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const I32x16 factor = broadcast_pair(q + r.value * head_dim + pair);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        sum[r.value][v.value] = dot_i16(sum[r.value][v.value], keys[v.value], factor);
      });
    });
  }
  const int64_t at = j * task.scale_stride;
  ahead.fetch_scales(at);
  unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
    const F32x16 scale = load_kv_scales(task.tile->key_scales[v.value] + at);
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const F32x16 worth = mul(scale, set1(q[r.value * head_dim + head_dim / 2]));
      float* score = task.queries.scores + r.value * kTileKeys + 16 * v.value;
      store(score, fma(to_float(sum[r.value][v.value]), worth, load(score)));
    });
  });
}

/// Scores of kRows queries with all keys of a tile: one chain along the head of what each 32
/// elements bring.
template <int kRows, CacheLevel kInto>
inline void score_q8(const AttendCachedTask& task, const PairsAhead<kInto>& ahead, int64_t row) {
  const int64_t head_dim = task.queries.head_dim;
  float* scores = task.queries.scores;
  for (int64_t i = 0; i < kRows * kTileKeys; i += 16) store(scores + i, zero());
  for (int64_t j = 0; j < head_dim / kKvScaleElements; ++j)
    score_part_q8<kRows>(task, ahead, task.queries.q + row * head_dim, j);
}

/// Scales of the values of a tile as floats, [head_dim / 32][kTileKeys].
inline void load_value_scales(const AttendCachedTask& task, float* scales) {
  for (int64_t j = 0; j < task.queries.head_dim / kKvScaleElements; ++j, scales += kTileKeys) {
    unroll<0, kTileKeys / 16>([&](auto v) HASTEN_INLINE {
      store(scales + 16 * v.value,
            load_kv_scales(task.tile->value_scales[v.value] + j * task.scale_stride));
    });
  }
}

/// Writes the weights of a row times the scales of their values as integers of 16 bits,
/// [num_scales][kTileKeys], and what one is worth, [num_scales], NaN where a product is, of a
/// weight of zero too. Beside keys that the row does not see, in no lane of `seen`, anything may
/// lie: nothing depends on it.
inline void round_weights(const TileWeights& weights, uint64_t seen, const float* scales,
                          int64_t num_scales, float* codes, float* worth) {
  for (int64_t j = 0; j < num_scales; ++j, scales += kTileKeys, codes += kTileKeys / 2) {
    F32x16 product[kTileKeys / 16];
    F32x16 top = zero();
    unroll<0, kTileKeys / 16>([&](auto i) HASTEN_INLINE {
      product[i.value] = mul_lanes(static_cast<uint16_t>(seen >> (16 * i.value)),
                                   weights.of[i.value], load(scales + 16 * i.value));
      top = max_bits(top, product[i.value]);
    });
    const float most = reduce_bits(top);
    const F32x16 inverse = to_i16_range(most);
    unroll<0, kTileKeys / 16>([&](auto i) HASTEN_INLINE {
      store_i16(codes + 8 * i.value, to_int(mul(product[i.value], inverse)));
    });
    worth[j] = most / kLargestI16;
  }
}

/// Adds kVectors * 16 elements, even in number, of the values of the keys seen, weighted, to the
/// outputs of kRows queries. `codes`, [kRows][head_dim], and `worth`, [kRows][head_dim / 32], are
/// what round_weights wrote.
template <int kVectors, int kRows, CacheLevel kInto>
inline void weigh_q8(const AttendCachedTask& task, const PairsAhead<kInto>& ahead, int64_t row,
                     int64_t first_element, KeyRange seen, const float* codes, const float* worth) {
  const TileQueries& queries = task.queries;
  const int64_t pair_bytes = 2 * queries.head_dim;
  const int64_t num_scales = queries.head_dim / kKvScaleElements;
  codes += first_element / kKvScaleElements * (kTileKeys / 2);
  worth += first_element / kKvScaleElements;
  I32Sums sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = I32Sums{}; });
  for (int32_t t = seen.begin / 2 * 2; t < seen.end; t += 2) {
    const int64_t pair = (kTileKeys * first_element / (16 * kFloatGroups) + t) / 2;
    if (pair < queries.head_dim / 2) {
      if (begins_line(pair * kPairsBytes)) ahead.fetch_values(pair * kPairsBytes);
      if (begins_line(pair * task.key_stride)) ahead.fetch_keys_again(pair * task.key_stride);
    }
    const uint8_t* values = task.tile->values[t / 16] + t % 16 / 2 * pair_bytes + 2 * first_element;
    I32x16 elements[kVectors];
    unroll<0, kVectors>([&](auto v)
                            HASTEN_INLINE { elements[v.value] = widen_i8(values + 32 * v.value); });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      unroll<0, kVectors / 2>([&](auto run) HASTEN_INLINE {
        constexpr int kFirst = 2 * decltype(run)::value;
        const float* weights = codes + r.value * queries.head_dim + run.value * (kTileKeys / 2);
        const I32x16 factor = broadcast_pair(weights + t / 2);
        unroll<kFirst, kFirst + 2>([&](auto v) HASTEN_INLINE {
          sum[r.value][v.value] = dot_i16(sum[r.value][v.value], elements[v.value], factor);
        });
      });
    });
  }
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    float* to = out + r.value * queries.padded_dim + 16 * v.value;
    store(to, fma(to_float(sum[r.value][v.value]), set1(worth[r.value * num_scales + v.value / 2]),
                  load(to)));
  });
}

/// A tile of keys, whose values have `scales`, with the kRows queries from `row` on.
template <int kRows, CacheLevel kInto>
inline void attend_q8_rows(const AttendCachedTask& task, const float* scales, float* scratch,
                           const PairsAhead<kInto>& ahead, int64_t row) {
  const TileQueries& queries = task.queries;
  const int64_t head_dim = queries.head_dim;
  const int64_t num_scales = head_dim / kKvScaleElements;
  const KeyRange seen = seen_keys<kRows>(queries, row);
  if (seen.end <= seen.begin) return;
  score_q8<kRows>(task, ahead, row);
  float* codes = scratch;
  float* worth = codes + kRows * head_dim;
  for (int64_t r = 0; r < kRows; ++r) {
    float* own_codes = codes + r * head_dim;
    float* own_worth = worth + r * num_scales;
    if (!sees_nothing(queries, row + r)) {
      const TileWeights weights =
          pair_softmax_row(queries, row + r, queries.scores + r * kTileKeys, false);
      round_weights(weights, seen_lanes(queries, row + r), scales, num_scales, own_codes,
                    own_worth);
      continue;
    }
    for (int64_t i = 0; i < head_dim; i += 16) store(own_codes + i, zero());
    for (int64_t j = 0; j < num_scales; ++j) own_worth[j] = 0.0F;
  }
  for (int64_t d = 0; d < head_dim; d += 16 * kFloatGroups) {
    with_constant<kFloatGroups / 2>((head_dim - d) / kKvScaleElements, [&](auto num_runs) {
      constexpr int kVectors = 2 * decltype(num_runs)::value;
      weigh_q8<kVectors, kRows>(task, ahead, row, d, seen, codes, worth);
    });
  }
}

/// Scratch: scales, two floats for each element of the head; then the codes of kFloatRows rows, a
/// float for each, and what they are worth, less than one row more.
template <CacheLevel kInto>
inline void attend_q8(const AttendCachedTask& task) {
  static_assert(2 + kFloatRows + 1 <= kPairScratchRows);
  float* scales = task.scratch;
  float* scratch = scales + 2 * task.queries.head_dim;
  load_value_scales(task, scales);
  attend_in_parts<kInto>(task, [&](auto rows, const PairsAhead<kInto>& ahead, int64_t row) {
    attend_q8_rows<decltype(rows)::value>(task, scales, scratch, ahead, row);
  });
}

}  // namespace
}  // namespace hasten::cpu
