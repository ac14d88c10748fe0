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

/// The weights of a row that sees some key, as pairs in place of its scores. `whole`: it sees all.
HASTEN_INLINE inline void bf16_softmax_row(const TileQueries& queries, int64_t row, float* scores,
                                           bool whole) {
  const TileWeights weights = pair_softmax_row(queries, row, scores, whole);
  unroll<0, kTileKeys / 32>([&](auto i) HASTEN_INLINE {
    store_pairs(scores + 16 * i.value,
                round_bf16(weights.of[2 * i.value], weights.of[2 * i.value + 1]));
  });
}

/// Keys or values of a tile.
enum class Half : uint8_t { keys, values };

/// How long before it is read a line is asked for, in eighths of what a tile's keys (or values)
/// take. Of what a core drops, less is dropped each time (Zen 5: 12, 6 and 3 alone take 4 to 11 %
/// longer; others are in docs/performance-log.md).
constexpr int kAsks[] = {14, 10, 6, 3, 1};
constexpr int kNumAsks = sizeof(kAsks) / sizeof(kAsks[0]);
static_assert(kAsks[0] <= 16, "that is behind the next tile, for its last values");

/// The lines of a tile and of the next one by the places at which they are read, four at each:
/// those of a pair of elements of all keys, then of 64 elements of the values of a pair of keys.
///
/// With three rows and more two places are asked for at a time, which are fewer instructions; one
/// or two rows are done so soon with a place that this would be too much at once.
template <int kHeadDim, CacheLevel kInto>  // kHeadDim 0: any
class LinesAhead {
 public:
  explicit LinesAhead(const AttendCachedTask& task)
      : tile_(task.tile),
        next_(task.next),
        key_stride_(task.key_stride),
        pairs_((kHeadDim > 0 ? kHeadDim : task.queries.head_dim) / 2) {}

  /// Asks at one place of a tile, of keys and behind them values, for what is read later; two
  /// places at a time at even ones for what is far, at odd ones for the rest.
  template <int kRows>
  HASTEN_INLINE void fetch(int64_t at) const {
    const auto ask = [&](auto i) HASTEN_INLINE {
      fetch_places<places_at_once(kRows)>(at / places_at_once(kRows) * places_at_once(kRows) +
                                          distance(kAsks[i.value]));
    };
    if constexpr (places_at_once(kRows) == 1)
      unroll<0, kNumAsks>(ask);
    else if (at % 2 == 0)
      unroll<0, kNumAsks / 2>(ask);
    else
      unroll<kNumAsks / 2, kNumAsks>(ask);
  }

  /// Calls multiply(at) for the places of eighths [kBegin, kEnd) of the tile's keys or values, and
  /// asks for what fetch() does. Which keys or values that are the compiler knows: it changes from
  /// one eighth to another, and there is a loop for those in which it stays, no more, since all
  /// loops have to fit in what the core keeps decoded.
  template <int kRows, Half kOwn, int kBegin, int kEnd, class F>
  HASTEN_INLINE void for_places(F&& multiply) const {
    static_assert(kHeadDim > 0 && kHeadDim % 64 == 0);
    constexpr int kStop = next_change(kBegin) < kEnd ? next_change(kBegin) : kEnd;
    constexpr int kStep = places_at_once(kRows);
    const auto ask = [&](int64_t at, auto i) HASTEN_INLINE {
      constexpr int kAhead = kAsks[decltype(i)::value];
      constexpr int kHalves = (kBegin + kAhead) / 8;
      fetch_of<kOwn, kHalves, kStep>(at + distance(kAhead) - kHalves * pairs_);
    };
#pragma GCC unroll 1
    for (int64_t at = kBegin * pairs_ / 8; at < kStop * pairs_ / 8; at += kStep) {
      unroll<0, kNumAsks / kStep>([&](auto i) HASTEN_INLINE { ask(at, i); });
      multiply(at);
      if constexpr (kStep == 2) {
        unroll<kNumAsks / kStep, kNumAsks>([&](auto i) HASTEN_INLINE { ask(at, i); });
        multiply(at + 1);
      }
    }
    if constexpr (kStop < kEnd) for_places<kRows, kOwn, kStop, kEnd>(multiply);
  }

  /// Some of the next tile's last values, while the weights of a part's row `row` are computed,
  /// when nothing else is read.
  HASTEN_INLINE void fetch_last_values(int64_t row) const {
    constexpr int kLines = 2;  // of each run; twice as much is no better
    const int64_t first = pairs_ - (row + 1) * kLines;
    if (first < 0 || next_ == nullptr) return;
    unroll<0, kTileKeys / 16>([&](auto run) HASTEN_INLINE {
      fetch_lines<kLines>(next_->values[run.value] + first * kLineBytes);
    });
  }

 private:
  static constexpr int places_at_once(int rows) { return rows <= 2 ? 1 : 2; }
  /// The first eighth behind `eighth` in which something else is asked for, or 8.
  static constexpr int next_change(int eighth) {
    for (int next = eighth + 1; next < 8; ++next) {
      for (const int ask : kAsks) {
        if ((next + ask) % 8 == 0) return next;
      }
    }
    return 8;
  }
  /// In places; even, so that two places lie side by side.
  HASTEN_INLINE int64_t distance(int eighths) const { return pairs_ * eighths / 8 / 2 * 2; }

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
  /// Of the half that is read kHalves behind this tile's own.
  template <Half kOwn, int kHalves, int kPlaces>
  HASTEN_INLINE void fetch_of(int64_t place) const {
    constexpr bool kNext = kHalves + (kOwn == Half::values ? 1 : 0) >= 2;
    if (kNext && next_ == nullptr) return;
    const CachedTile& tile = kNext ? *next_ : *tile_;
    if constexpr ((kOwn == Half::keys) == (kHalves % 2 == 0))
      fetch_keys<kPlaces>(tile, place);
    else
      fetch_values<kPlaces>(tile, place);
  }
  template <int kPlaces>
  HASTEN_INLINE void fetch_keys(const CachedTile& tile, int64_t pair) const {
    const CachedTile* from = &tile;
    // Has the compiler load the addresses here: it would keep them all in vector registers.
    __asm__ volatile("" : "+r"(from));
    unroll<0, kTileKeys / 16>([&](auto run) HASTEN_INLINE {
      const uint8_t* at = from->keys[run.value] + pair * key_stride_;
      ask_for<kInto>(at);
      if constexpr (kPlaces == 2) ask_for<kInto>(at + key_stride_);
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
    unroll<0, kLines>([&](auto line)
                          HASTEN_INLINE { ask_for<kInto>(at + line.value * kLineBytes); });
  }

  const CachedTile* tile_;
  const CachedTile* next_;  // null: none
  int64_t key_stride_;
  int64_t pairs_;  // of a head's elements
};

/// Scores of kRows queries with the first 16 kVectors keys of a tile: each one chain along the
/// head. kHeadDim is the head's elements where the tile is seen whole by a part that asks for all
/// of it, and there is code for that; or 0.
template <int kHeadDim, int kVectors, int kRows, CacheLevel kInto>
inline void score_bf16(const AttendCachedTask& task, const PairsAhead<kInto>& ahead, int64_t row) {
  const int64_t head_dim = kHeadDim > 0 ? kHeadDim : task.queries.head_dim;
  const float* q = task.queries.q + row * head_dim;
  const LinesAhead<kHeadDim, kInto> lines(task);
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v)
                                   HASTEN_INLINE { sum[r.value][v.value] = zero(); });
  const auto multiply = [&](int64_t pair) HASTEN_INLINE {
    const int64_t at = pair * task.key_stride;
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
  };
  if constexpr (kHeadDim > 0) {
    lines.template for_places<kRows, Half::keys, 0, 8>(multiply);
  } else {
    for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
      if (ahead.again)
        lines.template fetch<kRows>(pair);
      else
        ahead.fetch_keys(pair * task.key_stride);
      multiply(pair);
    }
  }
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(task.queries.scores + r.value * kTileKeys + 16 * v.value, sum[r.value][v.value]);
  });
}

/// Adds kVectors * 16 elements of the values of the keys seen, weighted, to the outputs of kRows
/// queries: each one chain along the keys. kHeadDim as score_bf16's, where all keys are seen and
/// first_element is kFirst.
template <int kHeadDim, int kFirst, int kVectors, int kRows, CacheLevel kInto>
inline void weigh_bf16(const AttendCachedTask& task, const PairsAhead<kInto>& ahead, int64_t row,
                       int64_t first_element, KeyRange seen) {
  const TileQueries& queries = task.queries;
  const int64_t head_dim = kHeadDim > 0 ? kHeadDim : queries.head_dim;
  const int64_t padded_dim = kHeadDim > 0 ? kHeadDim : queries.padded_dim;
  float* out = queries.state.out + row * padded_dim + first_element;
  const int64_t first_place = first_element / (16 * kFloatGroups) * (kTileKeys / 2);
  const LinesAhead<kHeadDim, kInto> lines(task);
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = load(out + r.value * padded_dim + 16 * v.value);
  });
  const auto add_pair = [&](int64_t pair, auto&& mask) HASTEN_INLINE {
    const uint8_t* values = task.tile->values[pair / 8] + (pair % 8 * head_dim + first_element) * 4;
    I32x16 elements[kVectors];
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      elements[v.value] = mask(load_pairs(reinterpret_cast<const float*>(values + 64 * v.value)));
    });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const I32x16 factor = broadcast_pair(queries.scores + r.value * kTileKeys + pair);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        sum[r.value][v.value] = dot_bf16(sum[r.value][v.value], elements[v.value], factor);
      });
    });
  };
  const auto all = [](I32x16 v) HASTEN_INLINE { return v; };
  if constexpr (kHeadDim > 0) {
    static_assert(kTileKeys * 8 % kHeadDim == 0);
    constexpr int kChunk = kTileKeys * 8 / kHeadDim;  // eighths that 64 elements are
    constexpr int kBegin = kFirst / (16 * kFloatGroups) * kChunk;
    lines.template for_places<kRows, Half::values, kBegin, kBegin + kChunk>(
        [&](int64_t place) HASTEN_INLINE { add_pair(place - first_place, all); });
  } else {
    const auto fetch_and_add = [&](int64_t pair, auto&& mask) HASTEN_INLINE {
      const int64_t place = first_place + pair;
      if (place < head_dim / 2) {
        if (ahead.again)
          lines.template fetch<kRows>(head_dim / 2 + place);
        else
          ahead.fetch_values(place * kLineBytes);
      }
      add_pair(pair, mask);
    };
    // What lies beside a key that nobody sees may be anything, a NaN too: it counts as zero.
    int64_t pair = seen.begin / 2;
    if (2 * pair < seen.begin) {
      fetch_and_add(pair, [](I32x16 v) HASTEN_INLINE { return second_halves(v); });
      ++pair;
    }
    for (; 2 * pair + 1 < seen.end; ++pair) fetch_and_add(pair, all);
    if (2 * pair < seen.end)
      fetch_and_add(pair, [](I32x16 v) HASTEN_INLINE { return first_halves(v); });
  }
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    store(out + r.value * padded_dim + 16 * v.value, sum[r.value][v.value]);
  });
}

/// A tile of keys, all of which the kRows queries from `row` on see, of a head of kHeadDim.
template <int kHeadDim, int kRows, CacheLevel kInto>
inline void attend_whole_bf16(const AttendCachedTask& task, const PairsAhead<kInto>& ahead,
                              int64_t row) {
  static_assert(kHeadDim % (16 * kFloatGroups) == 0);
  const TileQueries& queries = task.queries;
  const KeyRange seen{0, kTileKeys};
  score_bf16<kHeadDim, kTileKeys / 16, kRows>(task, ahead, row);
  const LinesAhead<kHeadDim, kInto> lines(task);
  for (int64_t r = 0; r < kRows; ++r) {
    lines.fetch_last_values(r);
    bf16_softmax_row(queries, row + r, queries.scores + r * kTileKeys, true);
  }
  unroll<0, kHeadDim / (16 * kFloatGroups)>([&](auto chunk) HASTEN_INLINE {
    constexpr int kFirst = decltype(chunk)::value * 16 * kFloatGroups;
    weigh_bf16<kHeadDim, kFirst, kFloatGroups, kRows>(task, ahead, row, kFirst, seen);
  });
}

/// A tile of keys with the kRows queries from `row` on.
template <int kRows, CacheLevel kInto>
inline void attend_bf16_rows(const AttendCachedTask& task, const PairsAhead<kInto>& ahead,
                             int64_t row) {
  const TileQueries& queries = task.queries;
  const KeyRange seen = seen_keys<kRows>(queries, row);
  if (seen.end <= seen.begin) return;
  if (ahead.again && all_seen<kRows>(queries, row)) {
    if (queries.head_dim == 64) return attend_whole_bf16<64, kRows>(task, ahead, row);
    if (queries.head_dim == 128) return attend_whole_bf16<128, kRows>(task, ahead, row);
  }
  with_constant<kTileKeys / 16>((seen.end + 15) / 16, [&](auto vectors) {
    score_bf16<0, decltype(vectors)::value, kRows>(task, ahead, row);
  });
  const LinesAhead<0, kInto> lines(task);
  for (int64_t r = 0; r < kRows; ++r) {
    float* scores = queries.scores + r * kTileKeys;
    if (ahead.again) lines.fetch_last_values(r);
    if (!sees_nothing(queries, row + r)) {
      bf16_softmax_row(queries, row + r, scores, false);
      continue;
    }
    for (int64_t i = 0; i < kTileKeys / 2; i += 16) store(scores + i, zero());
  }
  for (int64_t d = 0; d < queries.head_dim; d += 16 * kFloatGroups) {
    with_constant<kFloatGroups>((queries.head_dim - d) / 16, [&](auto vectors) {
      weigh_bf16<0, 0, decltype(vectors)::value, kRows>(task, ahead, row, d, seen);
    });
  }
}

template <CacheLevel kInto>
inline void attend_bf16(const AttendCachedTask& task) {
  attend_in_parts<kInto>(task, [&](auto rows, const PairsAhead<kInto>& ahead, int64_t row) {
    attend_bf16_rows<decltype(rows)::value>(task, ahead, row);
  });
}

}  // namespace
}  // namespace hasten::cpu
