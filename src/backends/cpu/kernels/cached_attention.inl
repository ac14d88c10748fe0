// SPDX-License-Identifier: Apache-2.0
// Attention of a few rows to keys and values where they lie in the cache, without a tile of floats.
// Its sums have the order of attend_tile.
#pragma once

#include "backends/cpu/kernels/attention.inl"
#include "backends/cpu/kernels/kv_elements.inl"

namespace hasten::cpu {
namespace {

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

/// Keys of a tile that lie one behind the other.
struct KeyRun {
  const uint8_t* values;  // of the first
  const uint8_t* scales;  // likewise; null: none
  const float* weights;   // of the first query; those of the next are kTileKeys behind
  int64_t count;
  const uint8_t* ahead;  // what is fetched meanwhile, as many bytes as are worked on
};

/// sum[r][v] += weight of query r times element first_element + 16 v ... of the value, key by key.
template <KvKind kKind, int kVectors, int kRows>
HASTEN_INLINE inline void weigh_run(KeyRun run, int64_t head_dim, int64_t first_element,
                                    F32x16 (&sum)[kRows][kVectors]) {
  constexpr int64_t kPartBytes = kv_code_bytes(kKind, 16 * kVectors);
  const int64_t value_bytes = kv_code_bytes(kKind, head_dim);
  const int64_t scale_bytes = value_scale_bytes<kKind>(head_dim);
  const float* const weights_end = run.weights + run.count;
#pragma GCC unroll 2  // as in for_key_rows
  for (; run.weights != weights_end; ++run.weights) {
    for (int64_t line = 0; line < kPartBytes; line += 64) prefetch_far(run.ahead + line);
    F32x16 elements[kVectors];
    unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
      constexpr int kVector = decltype(v)::value;
      const int64_t d = first_element + 16 * kVector;
      const uint8_t* codes = run.values + value_code_at<kKind>(d);
      // Where groups of vectors begin at even multiples of 16, the compiler knows the nibble.
      const bool high =
          kKind == KvKind::q4_0 && (kVectors % 2 == 0 ? kVector % 2 != 0 : d % 32 != 0);
      elements[kVector] =
          scale_value_codes<kKind>(high ? load_kv_codes_shuffled<kKind, true>(codes)
                                        : load_kv_codes_shuffled<kKind, false>(codes),
                                   run.scales, d);
    });
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const F32x16 factor = set1(run.weights[r.value * kTileKeys]);
      unroll<0, kVectors>([&](auto v) HASTEN_INLINE {
        sum[r.value][v.value] = fma(factor, elements[v.value], sum[r.value][v.value]);
      });
    });
    run.values += value_bytes;
    run.scales += scale_bytes;
    run.ahead += kPartBytes;
  }
}

/// Adds kVectors * 16 elements of the values, weighted, to the outputs of kRows queries, in the
/// order of multiply_tile.
template <KvKind kKind, int kVectors, int kRows>
inline void weigh_cached(const AttendCachedTask& task, int64_t row, int64_t first_element) {
  const TileQueries& queries = task.queries;
  const int64_t padded_dim = queries.padded_dim;
  float* out = queries.state.out + row * padded_dim + first_element;
  F32x16 sum[kRows][kVectors];
  unroll_tile<kRows, kVectors>([&](auto r, auto v) HASTEN_INLINE {
    sum[r.value][v.value] = to_code_order<kKind>(load(out + r.value * padded_dim + 16 * v.value));
  });
  const int64_t value_bytes = kv_code_bytes(kKind, queries.head_dim);
  const int64_t scale_bytes = value_scale_bytes<kKind>(queries.head_dim);
  const CachedTile& tile = *task.tile;
  const CachedTile& next = fetched_tile(task, row);
  for (int32_t begin = tile.begin; begin < tile.end;) {
    const int32_t index = begin / 16;
    const int64_t first = begin % 16;
    const int32_t end = 16 * index + 16 < tile.end ? 16 * index + 16 : tile.end;
    const int64_t count = end - begin;
    const uint8_t* scales = nullptr;
    if constexpr (has_scales(kKind)) {
      scales = tile.value_scales[index] + first * scale_bytes;
      for (int64_t line = 0; line < 16 * scale_bytes; line += 64)
        prefetch_far(next.value_scales[index] + line);
    }
    weigh_run<kKind>(KeyRun{.values = tile.values[index] + first * value_bytes,
                            .scales = scales,
                            .weights = queries.scores + row * kTileKeys + begin,
                            .count = count,
                            .ahead = next.values[index] + first * value_bytes +
                                     count * kv_code_bytes(kKind, first_element)},
                     queries.head_dim, first_element, sum);
    begin = end;
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

}  // namespace
}  // namespace hasten::cpu
