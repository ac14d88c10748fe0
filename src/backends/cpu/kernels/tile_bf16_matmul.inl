// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights with activations that are rounded to bf16, on tile registers: 16 rows
// by 16 weights by 32 columns to an instruction. Each output element is one chain along these
// chunks of columns, however many rows there are. Behind a simd header with dot_bf16_tiles.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr int64_t kChunkColumns = 32;
static_assert(kTileBytes == kChunkColumns * kGroupRows * 2, "a chunk of a group of weights");
// Chunks of columns that all tiles of rows of a pass are multiplied with before the next ones: two
// groups of their weights leave room in the first-level cache for activations that pass.
constexpr int64_t kBlockChunks = 8;
// Groups side by side, of many rows.
constexpr int64_t kSideGroups = 2;
static_assert(kPassRows / kTileRows * kSideGroups * kTileBytes <= kMatmulScratchBytes);

/// Weights of some groups, from a chunk on.
template <int kGroups>
struct WeightChunks {
  const uint8_t* groups[kGroups];

  /// The last chunk of columns that are no whole chunks, which only a copy can be read of beyond
  /// them, where zeros are.
  static WeightChunks last(const Bf16MatmulTask& task, int64_t first_group, int64_t stride,
                           uint8_t (&copies)[kGroups][kTileBytes]) {
    const int64_t begin = task.columns / kChunkColumns * kTileBytes;
    const int64_t bytes = (task.columns % kChunkColumns + 1) / 2 * kTileRowBytes;
    WeightChunks chunks;
    for (int g = 0; g < kGroups; ++g) {
      const uint8_t* group = task.groups + (first_group + g * stride) * task.group_bytes;
      for (int64_t i = 0; i < kTileBytes; i += kTileRowBytes) {
        store_i32(copies[g] + i, i < bytes
                                     ? load_i32(reinterpret_cast<const int32_t*>(group + begin + i))
                                     : zero_i32());
      }
      chunks.groups[g] = copies[g];
    }
    return chunks;
  }
};

/// Calls f(chunk, weights, count) for the whole chunks of the columns, `most` at a time, and then
/// for the last one if it is none: the first one's index, and the weights of groups first_group + g
/// * stride from it on.
template <int kGroups, class F>
HASTEN_INLINE inline void for_chunks(const Bf16MatmulTask& task, int64_t first_group,
                                     int64_t stride, int64_t most, F&& f) {
  const int64_t whole = task.columns / kChunkColumns;
  for (int64_t chunk = 0; chunk < whole; chunk += most) {
    WeightChunks<kGroups> weights;
    for (int g = 0; g < kGroups; ++g) {
      weights.groups[g] =
          task.groups + (first_group + g * stride) * task.group_bytes + chunk * kTileBytes;
    }
    f(chunk, weights, whole - chunk < most ? whole - chunk : most);
  }
  if (task.columns % kChunkColumns == 0) return;
  alignas(64) uint8_t copies[kGroups][kTileBytes];
  f(whole, WeightChunks<kGroups>::last(task, first_group, stride, copies), 1);
}

/// A single tile of rows with kGroups groups, all columns at once.
template <int kGroups>
inline void tile_bf16_direct(const Bf16MatmulTask& task, int64_t first_group, int64_t stride) {
  static_assert(kGroups == 1 || kGroups == 4);
  constexpr int64_t kAhead =
      kGroups > 1 ? 2048 : 8192;  // bytes, of each stream; of four, 1 to 4 KiB are alike
  unroll<0, kGroups>([&](auto g) HASTEN_INLINE { clear_tile<decltype(g)::value>(); });
  for_chunks<kGroups>(
      task, first_group, stride, task.columns,
      [&](int64_t first, const WeightChunks<kGroups>& weights, int64_t count) HASTEN_INLINE {
        const int64_t x_bytes = task.num_rows * kTileRowBytes;  // of a chunk
        const uint8_t* x = task.tiles + first * x_bytes;
        for (int64_t at = 0; at < count * kTileBytes; at += kTileBytes, x += x_bytes) {
          load_tile<4>(x, kTileRowBytes);
          unroll<0, kGroups>([&](auto group) HASTEN_INLINE {
            constexpr int kGroup = decltype(group)::value;
            constexpr int kB = 5 + kGroup % 3;
            const uint8_t* chunk = weights.groups[kGroup] + at;
            unroll<0, kTileRows>([&](auto line)
                                     HASTEN_INLINE { prefetch(chunk + kAhead + 64 * line.value); });
            load_tile<kB>(chunk, kTileRowBytes);
            dot_bf16_tiles<kGroup, 4, kB>();
          });
        }
      });
  alignas(64) float sums[kTileRows * kGroupRows];
  unroll<0, kGroups>([&](auto group) HASTEN_INLINE {
    constexpr int kGroup = decltype(group)::value;
    store_tile<kGroup>(sums, kTileRowBytes);
    for (int64_t r = 0; r < task.num_rows; ++r) {
      store_output(load(sums + r * kGroupRows), task.out, r, first_group + kGroup * stride);
    }
  });
}

/// Up to kTileRows rows. Each of several streams of memory is a part of the groups; all ask for
/// their lines, also where WeightStreams says in_order, which no processor with tiles does.
inline void tile_bf16_few_rows(const Bf16MatmulTask& task) {
  constexpr int kStreams = 4;
  const TileShape rows{task.num_rows};
  const TileShape weights{kTileRows};
  const TileScope scope({rows, rows, rows, rows, rows, weights, weights, weights});
  int64_t group = 0;
  if (task.streams == WeightStreams::several || task.num_rows > kOneStreamRows) {
    const int64_t stride = task.num_groups / kStreams;
    for (; group < stride; ++group) tile_bf16_direct<kStreams>(task, group, stride);
    group = stride * kStreams;
  }
  for (; group < task.num_groups; ++group) tile_bf16_direct<1>(task, group, 0);
}

/// A tile of rows, or two side by side, and where its sums with kSideGroups groups are.
struct SideTiles {
  const uint8_t* x[2];  // from the first chunk on
  int64_t x_bytes[2];   // of a chunk
  float* sums[2];       // [kSideGroups][16][16]
};

/// sums of kTiles tiles and kGroups groups += `count` chunks; `first`: they are nothing before.
template <int kTiles, int kGroups, class F>
HASTEN_INLINE inline void multiply_chunks(const SideTiles& tiles,
                                          const WeightChunks<kSideGroups>& weights, int64_t count,
                                          bool first, F&& before_chunk) {
  unroll_tile<kTiles, kGroups>([&](auto tile, auto group) HASTEN_INLINE {
    constexpr int kTile = decltype(tile)::value;
    constexpr int kGroup = decltype(group)::value;
    constexpr int kSums = 2 * kTile + kGroup;
    if (first) {
      clear_tile<kSums>();
    } else {
      load_tile<kSums>(tiles.sums[kTile] + kGroup * kTileRows * kGroupRows, kTileRowBytes);
    }
  });
  const uint8_t* x0 = tiles.x[0];
  const uint8_t* x1 = tiles.x[kTiles - 1];
  for (int64_t at = 0; at < count * kTileBytes; at += kTileBytes) {
    before_chunk();
    load_tile<6>(weights.groups[0] + at, kTileRowBytes);
    load_tile<4>(x0, kTileRowBytes);
    dot_bf16_tiles<0, 4, 6>();
    if constexpr (kGroups == 2) {
      load_tile<7>(weights.groups[1] + at, kTileRowBytes);
      dot_bf16_tiles<1, 4, 7>();
    }
    if constexpr (kTiles == 2) {
      load_tile<5>(x1, kTileRowBytes);
      dot_bf16_tiles<2, 5, 6>();
      if constexpr (kGroups == 2) dot_bf16_tiles<3, 5, 7>();
    }
    x0 += tiles.x_bytes[0];
    x1 += tiles.x_bytes[kTiles - 1];
  }
  unroll_tile<kTiles, kGroups>([&](auto tile, auto group) HASTEN_INLINE {
    constexpr int kTile = decltype(tile)::value;
    constexpr int kGroup = decltype(group)::value;
    store_tile<2 * kTile + kGroup>(tiles.sums[kTile] + kGroup * kTileRows * kGroupRows,
                                   kTileRowBytes);
  });
}

/// Groups first_group to first_group + kGroups of the task times the tiles [first, end), while what
/// lies behind them comes from memory.
template <int kGroups>
inline void tile_bf16_groups(const Bf16MatmulTask& task, int64_t first_group, const RowTiles& tiles,
                             int64_t first, int64_t end) {
  auto* const sums = reinterpret_cast<float*>(task.scratch);
  constexpr int64_t kSumsOfTile = kSideGroups * kTileRows * kGroupRows;
  const int64_t bytes = kGroups * task.group_bytes;
  const uint8_t* ahead = task.groups + first_group * task.group_bytes + bytes;
  if (first_group + kGroups >= task.num_groups) {
    if (end < tiles.count)
      ahead = task.groups;
    else if (task.next_groups != nullptr)
      ahead = task.next_groups;
  }
  const int64_t chunks = (task.columns + kChunkColumns - 1) / kChunkColumns;
  const int64_t calls = chunks * ((end - first + 1) / 2);
  const int64_t lines = (bytes / 64 + calls - 1) / calls;  // to ask for in each
  const uint8_t* const ahead_end = ahead + bytes;
  const auto ask = [&]() HASTEN_INLINE {
    for (int64_t i = 0; i < lines && ahead < ahead_end; ++i, ahead += 64) prefetch_far(ahead);
  };
  for_chunks<kSideGroups>(
      task, first_group, kGroups - 1, kBlockChunks,
      [&](int64_t chunk, const WeightChunks<kSideGroups>& weights, int64_t count) HASTEN_INLINE {
        for (int64_t t = first; t < end; t += 2) {
          const int64_t used = end - t < 2 ? 1 : 2;
          SideTiles side{};
          for (int64_t i = 0; i < used; ++i) {
            const int64_t row = tiles.first_row(t + i);
            side.x_bytes[i] = (tiles.first_row(t + i + 1) - row) * kTileRowBytes;
            side.x[i] = task.tiles + row * bf16_row_bytes(task.columns) + chunk * side.x_bytes[i];
            side.sums[i] = sums + (t + i - first) * kSumsOfTile;
          }
          if (used == 2) {
            multiply_chunks<2, kGroups>(side, weights, count, chunk == 0, ask);
          } else {
            multiply_chunks<1, kGroups>(side, weights, count, chunk == 0, ask);
          }
        }
      });
  for (int64_t t = first; t < end; ++t) {
    const int64_t row = tiles.first_row(t);
    for (int64_t r = row; r < tiles.first_row(t + 1); ++r) {
      for (int g = 0; g < kGroups; ++g) {
        const float* at = sums + (t - first) * kSumsOfTile + (g * kTileRows + r - row) * kGroupRows;
        store_output(load(at), task.out, r, first_group + g);
      }
    }
  }
}

/// Of many rows all tiles of a pass meet some groups before the next ones: their weights come from
/// memory once, and from the second-level cache for all tiles but the first.
inline void tile_bf16_matmul(const Bf16MatmulTask& task) {
  if (task.num_rows <= kTileRows) return tile_bf16_few_rows(task);
  const auto tiles = RowTiles::of(task.num_rows, kTileRows, kTileRows);
  // Tiles that are a row shorter than others are multiplied with what lies behind them, too.
  const TileShape rows{(task.num_rows + tiles.count - 1) / tiles.count};
  const TileShape weights{kTileRows};
  const TileScope scope({rows, rows, rows, rows, rows, rows, weights, weights});
  const int64_t most = task.pass_rows / kTileRows;
  const int64_t passes = (tiles.count + most - 1) / most;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = pass * tiles.count / passes;
    const int64_t end = (pass + 1) * tiles.count / passes;
    int64_t group = 0;
    for (; group + kSideGroups <= task.num_groups; group += kSideGroups) {
      tile_bf16_groups<kSideGroups>(task, group, tiles, first, end);
    }
    for (; group < task.num_groups; ++group) tile_bf16_groups<1>(task, group, tiles, first, end);
  }
}

/// Rounds the rows of a tile to [chunks of columns][rows][32], zero beyond the columns.
inline void round_bf16_chunks(const RowTileTask& task) {
  const auto load_at = [&](const float* row, int64_t column) HASTEN_INLINE {
    const int64_t left = task.columns - column;
    if (left >= kGroupRows) return load(row + column);
    return left > 0 ? load_first(row + column, left) : zero();
  };
  for (int64_t r = 0; r < task.num_rows; ++r) {
    const float* x = task.x + r * task.columns;
    uint8_t* to = task.tile + r * kTileRowBytes;
    for (int64_t i = 0; i < task.columns; i += kChunkColumns, to += task.num_rows * kTileRowBytes) {
      store_pairs(to, round_bf16(load_at(x, i), load_at(x, i + kGroupRows)));
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
