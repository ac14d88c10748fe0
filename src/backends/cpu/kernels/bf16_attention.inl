// SPDX-License-Identifier: Apache-2.0
// attention.inl with keys and values that lie in the cache as pairs of bf16, of neighbours in the
// head and of neighbouring keys, and are multiplied as they lie, two products to an instruction.
// Queries and weights are rounded to bf16, too. The orders of sums are those of a tile, whoever
// shares it. Behind a simd header with dot_bf16.
#pragma once

#include "backends/cpu/kernels/attention.inl"

namespace hasten::cpu {
namespace {

constexpr float kLog2E = 1.44269504F;

/// What attend_pairs takes for queries: pairs, in place of their floats. `count` is a multiple of
/// 16.
inline void round_queries(float* q, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const bool whole = i + 32 <= count;
    const I32x16 pairs = round_bf16(load(q + i), whole ? load(q + i + 16) : zero());
    store_first_pairs(q + i / 2, pairs, whole ? 16 : 8);
  }
}

HASTEN_INLINE inline I32x16 broadcast_pair(const float* p) {
  return set1_i32(load_scalar<int32_t>(reinterpret_cast<const uint8_t*>(p)));
}

/// 2^x within 3e-6 of itself, exact at zero: much less than its rounding to bf16. Zero for
/// -infinity. The coefficients are minimax for the fraction of x.
HASTEN_INLINE inline F32x16 rough_power_of_two(F32x16 x) {
  const F32x16 f = fraction(x);
  F32x16 power = set1(0.0134266867F);
  power = fma(power, f, set1(0.0522424704F));
  power = fma(power, f, set1(0.241280207F));
  power = fma(power, f, set1(0.693044845F));
  power = fma(power, f, set1(1.0F));
  return scale_by_whole(power, x);
}

/// Softmax of a row of scores, which see some key, as softmax_row; the weights become pairs.
HASTEN_INLINE inline void pair_softmax_row(const TileQueries& queries, int64_t row, float* scores) {
  const F32x16 shift = set1(-kLog2E * prepare_scores(queries, row, scores));
  const F32x16 scale = set1(kLog2E * remaining_scale(queries));
  F32x16 weights[kTileKeys / 16];
  unroll<0, kTileKeys / 16>([&](auto i) HASTEN_INLINE {
    weights[i.value] = rough_power_of_two(fma(load(scores + 16 * i.value), scale, shift));
  });
  float* sums = queries.state.sums + row * kSumLanes;
  F32x16 sum = load(sums);
  unroll<0, kTileKeys / 32>([&](auto i) HASTEN_INLINE {
    const F32x16 first = weights[2 * i.value];
    const F32x16 second = weights[2 * i.value + 1];
    store_pairs(scores + 16 * i.value, round_bf16(first, second));
    sum = add(sum, add(first, second));
  });
  store(sums, sum);
}

/// Part of a tile that is fetched while another is worked on: its runs of 16 keys [begin, end).
struct PairsAhead {
  const CachedTile* tile;
  int begin;
  int end;

  HASTEN_INLINE void fetch_keys(int64_t at) const {
    for (int run = begin; run < end; ++run) prefetch(tile->keys[run] + at);
  }
  HASTEN_INLINE void fetch_values(int64_t at) const {
    for (int run = begin; run < end; ++run) prefetch(tile->values[run] + at);
  }
};

/// Scores of kRows queries with all keys of a tile: each one chain along the head.
template <int kRows>
inline void score_pairs(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row) {
  constexpr int kVectors = kTileKeys / 16;
  const int64_t head_dim = task.queries.head_dim;
  const float* q = task.queries.q + row * head_dim;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = zero(); });
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const int64_t at = pair * task.key_stride;
    ahead.fetch_keys(at);
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

/// Adds kVectors * 16 elements of the values at [begin, end) of a tile, weighted, to the outputs of
/// kRows queries: each one chain along the keys.
template <int kVectors, int kRows>
inline void weigh_pairs(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row,
                        int64_t first_element, int32_t begin, int32_t end) {
  const TileQueries& queries = task.queries;
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  const int64_t pair_bytes = 4 * queries.head_dim;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = load(out + r.value * queries.padded_dim + 16 * v.value);
  });
  const auto add_pair = [&](int32_t t, auto&& mask) HASTEN_INLINE {
    ahead.fetch_values(8 * (kTileKeys * first_element / (16 * kFloatGroups) + t) * 4);
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
  int32_t t = begin / 2 * 2;
  if (t < begin) {
    add_pair(t, [](I32x16 v) HASTEN_INLINE { return second_halves(v); });
    t += 2;
  }
  for (; t + 1 < end; t += 2) add_pair(t, [](I32x16 v) HASTEN_INLINE { return v; });
  if (t < end) add_pair(t, [](I32x16 v) HASTEN_INLINE { return first_halves(v); });
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(out + r.value * queries.padded_dim + 16 * v.value, sum[r.value][v.value]);
  });
}

/// A tile of keys with the kRows queries from `row` on.
template <int kRows>
inline void attend_pairs_rows(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row) {
  const TileQueries& queries = task.queries;
  int32_t begin = kTileKeys;
  int32_t end = 0;
  for (int64_t r = row; r < row + kRows; ++r) {
    if (sees_nothing(queries, r)) continue;
    begin = queries.begin[r] < begin ? queries.begin[r] : begin;
    end = queries.end[r] > end ? queries.end[r] : end;
  }
  if (end <= begin) return;
  score_pairs<kRows>(task, ahead, row);
  for (int64_t r = 0; r < kRows; ++r) {
    float* scores = queries.scores + r * kTileKeys;
    if (!sees_nothing(queries, row + r)) {
      pair_softmax_row(queries, row + r, scores);
      continue;
    }
    for (int64_t i = 0; i < kTileKeys / 2; i += 16) store(scores + i, zero());
  }
  for (int64_t d = 0; d < queries.head_dim; d += 16 * kFloatGroups) {
    with_constant<kFloatGroups>((queries.head_dim - d) / 16, [&](auto vectors) {
      weigh_pairs<decltype(vectors)::value, kRows>(task, ahead, row, d, begin, end);
    });
  }
}

/// All rows, in parts as even as can be, each of which fetches some of the next tile.
inline void attend_pairs(const AttendCachedTask& task) {
  constexpr int kRuns = kTileKeys / 16;
  const int64_t rows = task.queries.rows;
  const int64_t num_parts = (rows + kFloatRows - 1) / kFloatRows;
  const int runs_each = task.next == nullptr ? 0 : num_parts >= kRuns ? 1 : kRuns;
  int64_t row = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    const int64_t count = (rows - row + num_parts - part - 1) / (num_parts - part);
    const int run = part * runs_each < kRuns ? static_cast<int>(part) * runs_each : 0;
    const PairsAhead ahead{task.next, run, part * runs_each < kRuns ? run + runs_each : run};
    with_constant<kFloatRows>(count, [&](auto part_rows) {
      attend_pairs_rows<decltype(part_rows)::value>(task, ahead, row);
    });
    row += count;
  }
}

}  // namespace
}  // namespace hasten::cpu
