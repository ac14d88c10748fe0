// SPDX-License-Identifier: Apache-2.0
// Attention to keys and values of bf16, in pairs: how they are kept, and dot products of two,
// summed as floats. Queries and weights are rounded to bf16, too. Behind a simd header with
// dot_bf16.
#pragma once

#include "backends/cpu/kernels/pair_attention.inl"

namespace hasten::cpu {
namespace {

/// The keys of up to 16 tokens.
inline void store_bf16_keys(const KvStorePairsTask& task, int64_t token, int64_t count) {
  for (int64_t i = 0; i < task.head_dim; i += 32) {
    const bool whole = i + 32 <= task.head_dim;
    I32x16 pairs[16];  // [tokens][pairs], then [pairs][tokens]
    for (int64_t t = 0; t < 16; ++t) {
      if (t >= count) {
        pairs[t] = zero_i32();
        continue;
      }
      const float* x = task.k + (token + t) * task.token_stride + i;
      pairs[t] = round_bf16(load(x), whole ? load(x + 16) : zero());
    }
    transpose(pairs);
    uint8_t* to = task.keys + (i / 2 * task.block_size + task.first + token) * 4;
    for (int p = 0; p < (whole ? 16 : 8); ++p, to += task.block_size * 4) {
      store_first_pairs(to, pairs[p], count);
    }
  }
}

/// What KvStorePairsTask says. A pair of values is of two tokens, of which one may be another
/// thread's.
inline void store_bf16_pairs(const KvStorePairsTask& task) {
  for (int64_t token = 0; token < task.count; token += 16) {
    store_bf16_keys(task, token, task.count - token < 16 ? task.count - token : 16);
  }
  for (int64_t token = 0; token < task.count;) {
    const int64_t at = task.first + token;
    const float* v = task.v + token * task.token_stride;
    uint8_t* to = task.values + at / 2 * task.head_dim * 4;
    const bool both = at % 2 == 0 && token + 1 < task.count;
    for (int64_t i = 0; i < task.head_dim; i += 16, to += 64) {
      if (both) {
        store_pairs(to, round_halves(load(v + i), load(v + task.token_stride + i)));
      } else if (at % 2 == 0) {
        store_first_halves(to, round_halves(load(v + i), zero()));
      } else {
        store_second_halves(to, round_halves(zero(), load(v + i)));
      }
    }
    token += both ? 2 : 1;
  }
}

/// What attend_bf16 takes for a query: pairs. `count`, its elements, is a multiple of 16.
inline void round_query_bf16(const float* q, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 32) {
    const bool whole = i + 32 <= count;
    const I32x16 pairs = round_bf16(load(q + i), whole ? load(q + i + 16) : zero());
    store_first_pairs(to + i / 2, pairs, whole ? 16 : 8);
  }
}

/// The weights of a row that sees some key, as pairs in place of its scores.
HASTEN_INLINE inline void bf16_softmax_row(const TileQueries& queries, int64_t row, float* scores) {
  const TileWeights weights = pair_softmax_row(queries, row, scores);
  unroll<0, kTileKeys / 32>([&](auto i) HASTEN_INLINE {
    store_pairs(scores + 16 * i.value,
                round_bf16(weights.of[2 * i.value], weights.of[2 * i.value + 1]));
  });
}

/// Scores of kRows queries with all keys of a tile: each one chain along the head.
template <int kRows>
inline void score_bf16(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row) {
  constexpr int kVectors = kTileKeys / 16;
  const int64_t head_dim = task.queries.head_dim;
  const float* q = task.queries.q + row * head_dim;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = zero(); });
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const int64_t at = pair * task.key_stride;
    ahead.fetch_keys(at);
    ahead.fetch_own_values_again(pair * kLineBytes);
    I32x16 keys[kVectors];
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      keys[v.value] = load_pairs(reinterpret_cast<const float*>(task.tile->keys[v.value] + at));
    });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const I32x16 factor = broadcast_pair(q + r.value * head_dim + pair);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        sum[r.value][v.value] = dot_bf16(sum[r.value][v.value], keys[v.value], factor);
      });
    });
  }
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(task.queries.scores + r.value * kTileKeys + 16 * v.value, sum[r.value][v.value]);
  });
}

/// Adds kVectors * 16 elements of the values of the keys seen, weighted, to the outputs of kRows
/// queries: each one chain along the keys.
template <int kVectors, int kRows>
inline void weigh_bf16(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row,
                       int64_t first_element, KeyRange seen) {
  const TileQueries& queries = task.queries;
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  const int64_t pair_bytes = 4 * queries.head_dim;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = load(out + r.value * queries.padded_dim + 16 * v.value);
  });
  const auto add_pair = [&](int32_t t, auto&& mask) HASTEN_INLINE {
    const int64_t line = (kTileKeys * first_element / (16 * kFloatGroups) + t) / 2;
    if (line < queries.head_dim / 2) {
      ahead.fetch_values(line * kLineBytes);
      ahead.fetch_keys_again(line * task.key_stride);
    }
    const uint8_t* values = task.tile->values[t / 16] + t % 16 / 2 * pair_bytes + 4 * first_element;
    I32x16 elements[kVectors];
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      elements[v.value] = mask(load_pairs(reinterpret_cast<const float*>(values + 64 * v.value)));
    });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const I32x16 factor = broadcast_pair(queries.scores + r.value * kTileKeys + t / 2);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        sum[r.value][v.value] = dot_bf16(sum[r.value][v.value], elements[v.value], factor);
      });
    });
  };
  // What lies beside a key that nobody sees may be anything, a NaN too: it counts as zero.
  int32_t t = seen.begin / 2 * 2;
  if (t < seen.begin) {
    add_pair(t, [](I32x16 v) HASTEN_INLINE { return second_halves(v); });
    t += 2;
  }
  for (; t + 1 < seen.end; t += 2) add_pair(t, [](I32x16 v) HASTEN_INLINE { return v; });
  if (t < seen.end) add_pair(t, [](I32x16 v) HASTEN_INLINE { return first_halves(v); });
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(out + r.value * queries.padded_dim + 16 * v.value, sum[r.value][v.value]);
  });
}

/// A tile of keys with the kRows queries from `row` on.
template <int kRows>
inline void attend_bf16_rows(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row) {
  const TileQueries& queries = task.queries;
  const KeyRange seen = seen_keys<kRows>(queries, row);
  if (seen.end <= seen.begin) return;
  score_bf16<kRows>(task, ahead, row);
  for (int64_t r = 0; r < kRows; ++r) {
    float* scores = queries.scores + r * kTileKeys;
    ahead.fetch_last_values(r, queries.head_dim / 2 * kLineBytes);
    if (!sees_nothing(queries, row + r)) {
      bf16_softmax_row(queries, row + r, scores);
      continue;
    }
    for (int64_t i = 0; i < kTileKeys / 2; i += 16) store(scores + i, zero());
  }
  for (int64_t d = 0; d < queries.head_dim; d += 16 * kFloatGroups) {
    with_constant<kFloatGroups>((queries.head_dim - d) / 16, [&](auto vectors) {
      weigh_bf16<decltype(vectors)::value, kRows>(task, ahead, row, d, seen);
    });
  }
}

inline void attend_bf16(const AttendCachedTask& task) {
  attend_in_parts(task, [&](auto rows, const PairsAhead& ahead, int64_t row) {
    attend_bf16_rows<decltype(rows)::value>(task, ahead, row);
  });
}

}  // namespace
}  // namespace hasten::cpu
