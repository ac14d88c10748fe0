// SPDX-License-Identifier: Apache-2.0
// Attention to keys and values of bf16, in pairs, on tile registers: up to 16 queries meet 16 keys,
// or weights of keys meet 16 elements of their values, in one instruction. A score is one chain
// along the head, 32 elements at a time; an output is one along the keys, 16 at a time, however
// many queries there are: of finite values, since a query weighs those that others of its block see
// with zero. Behind a simd header with dot_bf16_tiles.
#pragma once

#include "backends/cpu/kernels/bf16_attention.inl"

namespace hasten::cpu {
namespace {

// Keys of a run.
constexpr int kRunKeys = 16;
constexpr int kRunPairs = kRunKeys / 2;
constexpr int kTileRuns = kTileKeys / kRunKeys;
// Elements of values that are weighed at a time: as many tiles as hold sums.
constexpr int kSideElements = 4 * kGroupRows;

/// Up to 16 queries from `row` on, and what they see of a tile of keys together.
template <CacheLevel kInto>
struct TileBlock {
  const AttendCachedTask& task;
  int64_t row;
  int64_t count;
  KeyRange seen;
  const CachedTile* next;  // whose lines are asked for meanwhile; null: none

  /// Lines of 16 pairs of a run's keys of the next tile, or of the last 8; behind the last run
  /// those of the first one's next 16, if there are any.
  HASTEN_INLINE void ask_for_keys(int run, int64_t pair) const {
    if (next == nullptr) return;
    if (run == kTileRuns) {
      run = 0;
      pair += 16;
    }
    const int64_t left = task.queries.head_dim / 2 - pair;
    const uint8_t* at = next->keys[run] + pair * task.key_stride;
    for (int i = 0; i < 16; ++i, at += task.key_stride) {
      if (i % 8 == 0 && i >= left) break;
      ask_for<kInto>(at);
    }
  }
  HASTEN_INLINE void ask_for_values(int run, int64_t element) const {
    if (next == nullptr) return;
    const uint8_t* at = next->values[run] + 4 * element;
    for (int i = 0; i < kRunPairs; ++i, at += 4 * task.queries.head_dim) ask_for<kInto>(at);
  }

  /// Scores with all keys up to the last one seen. Lines of the next tile are asked for a run
  /// ahead: those of its first run's first 16 pairs have been before.
  HASTEN_INLINE void score() const {
    const TileQueries& queries = task.queries;
    const int64_t dim = queries.head_dim;
    const float* q = queries.q + row * dim;
    const int runs = (seen.end + kRunKeys - 1) / kRunKeys;
    unroll<0, kTileRuns>([](auto run) HASTEN_INLINE { clear_tile<decltype(run)::value>(); });
    const int64_t whole_pairs = dim / 32 * 16;
    for (int64_t pair = 0; pair < whole_pairs; pair += 16) {
      load_tile<4>(q + pair, 4 * dim);
      unroll<0, kTileRuns>([&](auto index) HASTEN_INLINE {
        constexpr int kRun = decltype(index)::value;
        ask_for_keys(kRun + 1, pair);
        if (kRun >= runs) return;
        load_tile<5>(task.tile->keys[kRun] + pair * task.key_stride, task.key_stride);
        dot_bf16_tiles<kRun, 4, 5>();
      });
    }
    if (dim % 32 != 0) {
      load_tile<6>(q + whole_pairs, 4 * dim);
      unroll<0, kTileRuns>([&](auto index) HASTEN_INLINE {
        constexpr int kRun = decltype(index)::value;
        ask_for_keys(kRun + 1, whole_pairs);
        if (kRun >= runs) return;
        load_tile<7>(task.tile->keys[kRun] + whole_pairs * task.key_stride, task.key_stride);
        dot_bf16_tiles<kRun, 6, 7>();
      });
    }
    unroll<0, kTileRuns>([&](auto run) HASTEN_INLINE {
      store_tile<decltype(run)::value>(queries.scores + kRunKeys * run.value, 4 * kTileKeys);
    });
  }

  /// Weights, as pairs in place of the scores.
  HASTEN_INLINE void make_weights() const {
    const TileQueries& queries = task.queries;
    for (int64_t r = 0; r < count; ++r) {
      float* scores = queries.scores + r * kTileKeys;
      if (sees_nothing(queries, row + r)) {
        for (int64_t i = 0; i < kTileKeys / 2; i += 16) store(scores + i, zero());
        continue;
      }
      const bool whole = queries.begin[row + r] == 0 && queries.end[row + r] == kTileKeys;
      bf16_softmax_row(queries, row + r, scores, whole);
    }
  }

  /// Some elements of the values of a run that nobody sees all keys of: what lies beside a key that
  /// nobody sees may be anything, a NaN too, and counts as zero.
  HASTEN_INLINE void copy_seen(int run, int64_t element, int vectors, uint8_t* to) const {
    const uint8_t* from = task.tile->values[run] + 4 * element;
    for (int pair = 0; pair < kRunPairs; ++pair) {
      const int key = run * kRunKeys + 2 * pair;
      const bool first = key >= seen.begin && key < seen.end;
      const bool second = key + 1 >= seen.begin && key + 1 < seen.end;
      for (int v = 0; v < vectors; ++v) {
        I32x16 values = load_pairs(reinterpret_cast<const float*>(from + kTileRowBytes * v));
        if (!first) values = second_halves(values);
        if (!second) values = first_halves(values);
        store_pairs(to + kTileRowBytes * v, values);
      }
      from += 4 * task.queries.head_dim;
      to += 4 * kSideElements;
    }
  }

  /// Adds kVectors * 16 elements of weighted values, from `element` on.
  template <int kVectors>
  HASTEN_INLINE void weigh(int64_t element) const {
    const TileQueries& queries = task.queries;
    float* out = queries.state.out + row * queries.padded_dim + element;
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      load_tile<decltype(v)::value>(out + kGroupRows * v.value, 4 * queries.padded_dim);
    });
    alignas(64) uint8_t copy[kRunPairs * 4 * kSideElements];
    for (int run = 0; run < kTileRuns; ++run) {
      const int begin = run * kRunKeys;
      const int end = begin + kRunKeys;
      const bool used = begin < seen.end && end > seen.begin;
      const uint8_t* values = task.tile->values[run] + 4 * element;
      int64_t stride = 4 * queries.head_dim;
      if (used && (begin < seen.begin || end > seen.end)) {
        copy_seen(run, element, kVectors, copy);
        values = copy;
        stride = 4 * kSideElements;
      }
      if (used) load_tile<6>(queries.scores + begin / 2, 4 * kTileKeys);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        ask_for_values(run, element + kGroupRows * v.value);
        if (!used) return;
        load_tile<7>(values + kTileRowBytes * v.value, stride);
        dot_bf16_tiles<decltype(v)::value, 6, 7>();
      });
    }
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      store_tile<decltype(v)::value>(out + kGroupRows * v.value, 4 * queries.padded_dim);
    });
  }
};

template <CacheLevel kInto>
inline void attend_bf16_tiles(const AttendCachedTask& task) {
  const TileQueries& queries = task.queries;
  for (int64_t row = 0; row < queries.rows; row += kTileRows) {
    const int64_t left = queries.rows - row;
    const int64_t count = left < kTileRows ? left : kTileRows;
    KeyRange seen{kTileKeys, 0};
    for (int64_t r = row; r < row + count; ++r) {
      const KeyRange own = seen_keys<1>(queries, r);
      if (own.begin < seen.begin) seen.begin = own.begin;
      if (own.end > seen.end) seen.end = own.end;
    }
    if (seen.end <= seen.begin) continue;
    const TileBlock<kInto> block{.task = task,
                                 .row = row,
                                 .count = count,
                                 .seen = seen,
                                 .next = row == 0 ? task.next : nullptr};
    block.ask_for_keys(0, 0);  // which come while the registers are configured
    // Tiles 0 to 3 are sums, 4 and 5 queries by 32 elements and those of keys, 6 and 7 queries by
    // 16 elements or keys and those of keys or values.
    const TileShape sums{count};
    const TileShape halves{count, kTileRowBytes / 2};
    const TileScope scope({sums, sums, sums, sums, sums, {kTileRows}, halves, {kRunPairs}});
    block.score();
    block.make_weights();
    for (int64_t d = 0; d < queries.head_dim; d += kSideElements) {
      with_constant<kSideElements / kGroupRows>(
          (queries.head_dim - d) / kGroupRows,
          [&](auto vectors) { block.template weigh<decltype(vectors)::value>(d); });
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
