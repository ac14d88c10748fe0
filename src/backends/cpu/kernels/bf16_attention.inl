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

/// The lines of a tile and of the next one by the places at which they are read, four at each:
/// those of a pair of elements of all keys, then of 64 elements of the values of a pair of keys.
class LinesAhead {
 public:
  explicit LinesAhead(const AttendCachedTask& task)
      : tile_(task.tile),
        next_(task.next),
        key_stride_(task.key_stride),
        pairs_(task.queries.head_dim / 2) {}

  /// At each place of a tile, asks for what is read three quarters of a tile later, again for what
  /// is read after half of that, and again: of what a core drops, less is dropped each time
  /// (Zen 5: a tile and half a tile ahead take up to 12 % longer, 3/4 and 3/8 up to 9 %). With
  /// several rows two places at a time, which are fewer instructions; one or two rows are done so
  /// soon with a place that this would be too much at once.
  template <int kRows>
  HASTEN_INLINE void fetch(int64_t at) const {
    const int64_t step = pairs_ * 3 / 8 / 2 * 2;  // even, so that two places lie side by side
    if constexpr (kRows <= 2) {
      fetch_places<1>(at + 4 * step);
      fetch_places<1>(at + 2 * step);
      fetch_places<1>(at + step);
    } else if (at % 2 == 0) {
      fetch_places<2>(at + 4 * step);
    } else {
      fetch_places<2>(at - 1 + 2 * step);
      fetch_places<2>(at - 1 + step);
    }
  }

 private:
  template <int kPlaces>
  HASTEN_INLINE void fetch_places(int64_t place) const {
    const CachedTile* tile = tile_;
    if (place >= 2 * pairs_) {
      if (next_ == nullptr) return;
      place -= 2 * pairs_;
      tile = next_;
    }
    if (place < pairs_) return fetch_keys<kPlaces>(*tile, place);
    fetch_values<kPlaces>(*tile, place - pairs_);
  }
  template <int kPlaces>
  HASTEN_INLINE void fetch_keys(const CachedTile& tile, int64_t pair) const {
    const CachedTile* from = &tile;
    // Has the compiler load the addresses here: it would keep them all in vector registers.
    __asm__ volatile("" : "+r"(from));
    unroll<0, kTileKeys / 16>([&](auto run) HASTEN_INLINE {
      const uint8_t* at = from->keys[run.value] + pair * key_stride_;
      prefetch(at);
      if constexpr (kPlaces == 2) prefetch(at + key_stride_);
    });
  }
  template <int kPlaces>
  HASTEN_INLINE void fetch_values(const CachedTile& tile, int64_t place) const {
    const int64_t pair_bytes = 8 * pairs_;
    if (pairs_ % (kTileKeys / 2) == 0) {
      const int64_t pair = place % (kTileKeys / 2);
      const uint8_t* at =
          tile.values[pair / 8] + pair % 8 * pair_bytes + place / (kTileKeys / 2) * 4 * kLineBytes;
      unroll<0, kPlaces>([&](auto next)
                             HASTEN_INLINE { fetch_lines<4>(at + next.value * pair_bytes); });
      return;
    }
    // Heads that are not whole places, as they lie: not much later than they are read.
    const int64_t of_run = pairs_ / 4;
    const int64_t run =
        int64_t{place >= of_run} + int64_t{place >= 2 * of_run} + int64_t{place >= 3 * of_run};
    fetch_lines<4 * kPlaces>(tile.values[run] + (place - run * of_run) * 4 * kLineBytes);
  }
  template <int kLines>
  HASTEN_INLINE static void fetch_lines(const uint8_t* at) {
    unroll<0, kLines>([&](auto line) HASTEN_INLINE { prefetch(at + line.value * kLineBytes); });
  }

  const CachedTile* tile_;
  const CachedTile* next_;  // null: none
  int64_t key_stride_;
  int64_t pairs_;  // of a head's elements
};

/// Scores of kRows queries with the first 16 kVectors keys of a tile: each one chain along the
/// head.
template <int kVectors, int kRows>
inline void score_bf16(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row) {
  const int64_t head_dim = task.queries.head_dim;
  const float* q = task.queries.q + row * head_dim;
  const LinesAhead lines(task);
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = zero(); });
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const int64_t at = pair * task.key_stride;
    if (ahead.again)
      lines.fetch<kRows>(pair);
    else
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

/// Adds kVectors * 16 elements of the values of the keys seen, weighted, to the outputs of kRows
/// queries: each one chain along the keys.
template <int kVectors, int kRows>
inline void weigh_bf16(const AttendCachedTask& task, const PairsAhead& ahead, int64_t row,
                       int64_t first_element, KeyRange seen) {
  const TileQueries& queries = task.queries;
  float* out = queries.state.out + row * queries.padded_dim + first_element;
  const int64_t pair_bytes = 4 * queries.head_dim;
  const int64_t pairs = queries.head_dim / 2;
  const LinesAhead lines(task);
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = load(out + r.value * queries.padded_dim + 16 * v.value);
  });
  const auto add_pair = [&](int32_t t, auto&& mask) HASTEN_INLINE {
    const int64_t place = (kTileKeys * first_element / (16 * kFloatGroups) + t) / 2;
    if (place < pairs) {
      if (ahead.again)
        lines.fetch<kRows>(pairs + place);
      else
        ahead.fetch_values(place * kLineBytes);
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
  with_constant<kTileKeys / 16>((seen.end + 15) / 16, [&](auto vectors) {
    score_bf16<decltype(vectors)::value, kRows>(task, ahead, row);
  });
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
