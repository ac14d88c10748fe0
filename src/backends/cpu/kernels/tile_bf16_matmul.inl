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
// Groups side by side, of many rows: two tiles of rows and two groups are four products to four
// loads, as many as the registers have room for.
constexpr int64_t kSideGroups = 2;
// What many rows are multiplied in: these rows and chunks of columns, at most, which stay in the
// second-level cache (512 KiB) with the sums of so many pairs of groups (256 KiB), whose weights
// pass. So weights come from memory once for 256 rows, and activations of long rows, in a task of
// so many groups, not for every pair.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockChunks = 32;
constexpr int64_t kBlockPairs = 8;
constexpr int64_t kTileSums = kTileRows * kGroupRows;
static_assert(kBlockRows / kTileRows * kBlockPairs * kSideGroups * kTileSums * 4 <=
              kMatmulScratchBytes);

/// Weights of some groups, from a chunk on.
template <int kGroups>
struct WeightChunks {
  const uint8_t* groups[kGroups];

  static WeightChunks from(const Bf16MatmulTask& task, int64_t first_group, int64_t stride,
                           int64_t chunk) {
    WeightChunks chunks;
    for (int g = 0; g < kGroups; ++g) {
      chunks.groups[g] =
          task.groups + (first_group + g * stride) * task.group_bytes + chunk * kTileBytes;
    }
    return chunks;
  }

  /// The columns behind the last whole chunk, copied into chunks that have zeros beyond them.
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

/// Calls f(chunk, weights, count) for the whole chunks of the columns, and then for the columns
/// behind them, if there are any: the first chunk's index, and the weights of groups first_group +
/// g * stride from it on.
template <int kGroups, class F>
HASTEN_INLINE inline void for_chunks(const Bf16MatmulTask& task, int64_t first_group,
                                     int64_t stride, F&& f) {
  const int64_t whole = task.columns / kChunkColumns;
  if (whole > 0) f(0, WeightChunks<kGroups>::from(task, first_group, stride, 0), whole);
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
      task, first_group, stride,
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

/// Some chunks of a pair of groups, or of the last one alone.
struct PairBlock {
  int64_t first_group;
  int64_t num_groups;
  int64_t first_chunk;
  int64_t num_chunks;  // whole ones
  bool is_first;       // of the columns
  bool is_last;        // which has the columns behind all whole chunks, if there are any
};

/// Asks for the weights of a block with so many calls, those of one group before those of the
/// other: in turns they come later (a tenth of all time on a shared core).
class AskForBlock {
 public:
  /// Nothing.
  AskForBlock() = default;
  AskForBlock(const uint8_t* groups, int64_t group_bytes, const PairBlock& block, int64_t calls)
      : at_(groups + block.first_group * group_bytes + block.first_chunk * kTileBytes),
        to_second_(group_bytes - block.num_chunks * kTileBytes),
        left_in_second_(block.num_groups > 1 ? block.num_chunks * kTileRows : 0),
        left_(block.num_chunks * kTileRows + left_in_second_),
        most_((left_ + calls - 1) / calls) {}

  HASTEN_INLINE void operator()() {
    for (int64_t i = 0; i < most_ && left_ > 0; ++i, at_ += kTileRowBytes) {
      if (left_-- == left_in_second_) at_ += to_second_;
      prefetch_far(at_);
    }
  }

 private:
  const uint8_t* at_ = nullptr;
  int64_t to_second_ = 0;       // bytes, from the end of the first group's lines
  int64_t left_in_second_ = 0;  // lines, when the first group's are asked for
  int64_t left_ = 0;            // lines of both
  int64_t most_ = 0;            // with a call
};

/// A tile of rows, or two side by side.
struct SideTiles {
  int64_t count;
  int64_t first_row[2];
  int64_t num_rows[2];
  const uint8_t* x[2];  // from the block's first chunk on
  float* sums[2];       // [kSideGroups][16][16], between blocks
};

/// Weights of a block's whole chunks, and of the columns behind them.
struct BlockWeights {
  WeightChunks<kSideGroups> whole;
  WeightChunks<kSideGroups> rest;
  bool has_rest;
};

/// kTiles tiles and kGroups groups of a block; what they make is written to the sums or, if not
/// null, `in_place`.
template <int kTiles, int kGroups>
HASTEN_INLINE inline void multiply_block(const SideTiles& tiles, const PairBlock& block,
                                         const BlockWeights& weights, const ProductRows* in_place,
                                         AskForBlock& ask) {
  unroll_tile<kTiles, kGroups>([&](auto tile, auto group) HASTEN_INLINE {
    constexpr int kTile = decltype(tile)::value;
    constexpr int kGroup = decltype(group)::value;
    constexpr int kSums = 2 * kTile + kGroup;
    if (block.is_first) {
      clear_tile<kSums>();
    } else {
      load_tile<kSums>(tiles.sums[kTile] + kGroup * kTileSums, kTileRowBytes);
    }
  });
  const uint8_t* x0 = tiles.x[0];
  const uint8_t* x1 = tiles.x[kTiles - 1];
  const auto multiply = [&](const WeightChunks<kSideGroups>& chunks, int64_t count) HASTEN_INLINE {
    for (int64_t at = 0; at < count * kTileBytes; at += kTileBytes) {
      ask();
      // First into what the products before have read first: on a shared core, which has few
      // registers to spare, other orders take 4 to 10 % longer.
      load_tile<4>(x0, kTileRowBytes);
      load_tile<6>(chunks.groups[0] + at, kTileRowBytes);
      if constexpr (kGroups == 2) load_tile<7>(chunks.groups[1] + at, kTileRowBytes);
      dot_bf16_tiles<0, 4, 6>();
      if constexpr (kGroups == 2) dot_bf16_tiles<1, 4, 7>();
      if constexpr (kTiles == 2) {
        load_tile<5>(x1, kTileRowBytes);
        dot_bf16_tiles<2, 5, 6>();
        if constexpr (kGroups == 2) dot_bf16_tiles<3, 5, 7>();
      }
      x0 += tiles.num_rows[0] * kTileRowBytes;
      x1 += tiles.num_rows[kTiles - 1] * kTileRowBytes;
    }
  };
  multiply(weights.whole, block.num_chunks);
  if (weights.has_rest) multiply(weights.rest, 1);
  // All that a register has: a tile that is a row shorter writes the first row of the next one,
  // too, which comes later. The last tile of all is none of those (RowTiles).
  unroll_tile<kTiles, kGroups>([&](auto tile, auto group) HASTEN_INLINE {
    constexpr int kTile = decltype(tile)::value;
    constexpr int kGroup = decltype(group)::value;
    constexpr int kSums = 2 * kTile + kGroup;
    if (in_place != nullptr) {
      store_tile<kSums>(in_place->data + tiles.first_row[kTile] * in_place->stride +
                            (block.first_group + kGroup) * kGroupRows,
                        in_place->stride * 4);
    } else {
      store_tile<kSums>(tiles.sums[kTile] + kGroup * kTileSums, kTileRowBytes);
    }
  });
}

/// Tiles of rows, kBlockRows at most, times all groups of a task, block after block.
struct BlockedRows {
  const Bf16MatmulTask& task;
  RowTiles tiles;
  int64_t first_tile;
  int64_t end_tile;

  /// `next_groups`: a pair, or more, that is multiplied then; null: nothing.
  void multiply(const uint8_t* next_groups) const {
    const int64_t pairs = (task.num_groups + kSideGroups - 1) / kSideGroups;
    const int64_t blocks = num_blocks();
    for (int64_t first = 0; first < pairs; first += kBlockPairs) {
      const int64_t end = first + kBlockPairs < pairs ? first + kBlockPairs : pairs;
      const int64_t count = end - first;
      for (int64_t i = 0; i < blocks * count; ++i) {
        const PairBlock block = block_of(first + i % count, i / count);
        if (i + 1 < blocks * count) {
          const PairBlock next = block_of(first + (i + 1) % count, (i + 1) / count);
          multiply_pair(block, i % count, task.groups, next);
        } else if (end < pairs) {
          multiply_pair(block, i % count, task.groups, block_of(end, 0));
        } else {
          multiply_pair(block, i % count, next_groups, block_of(0, 0));
        }
      }
    }
  }

 private:
  int64_t whole_chunks() const { return task.columns / kChunkColumns; }
  /// As even as tiles of rows.
  int64_t num_blocks() const {
    const int64_t blocks = (whole_chunks() + kBlockChunks - 1) / kBlockChunks;
    return blocks > 0 ? blocks : 1;
  }
  PairBlock block_of(int64_t pair, int64_t block) const {
    const int64_t blocks = num_blocks();
    const int64_t first_chunk = block * whole_chunks() / blocks;
    const int64_t left = task.num_groups - pair * kSideGroups;
    return {.first_group = pair * kSideGroups,
            .num_groups = left < kSideGroups ? left : kSideGroups,
            .first_chunk = first_chunk,
            .num_chunks = (block + 1) * whole_chunks() / blocks - first_chunk,
            .is_first = block == 0,
            .is_last = block + 1 == blocks};
  }

  /// `index`: of the pair among those that share the scratch. Asks for `next` of `ahead` meanwhile.
  void multiply_pair(const PairBlock& block, int64_t index, const uint8_t* ahead,
                     const PairBlock& next) const {
    const int64_t num_tiles = end_tile - first_tile;
    float* const sums =
        reinterpret_cast<float*>(task.scratch) + index * num_tiles * kSideGroups * kTileSums;
    const int64_t stride = block.num_groups - 1;
    alignas(64) uint8_t copies[kSideGroups][kTileBytes];
    BlockWeights weights{};
    weights.whole =
        WeightChunks<kSideGroups>::from(task, block.first_group, stride, block.first_chunk);
    weights.has_rest = block.is_last && task.columns % kChunkColumns != 0;
    if (weights.has_rest) {
      weights.rest = WeightChunks<kSideGroups>::last(task, block.first_group, stride, copies);
    }
    const int64_t chunks = block.num_chunks + (weights.has_rest ? 1 : 0);
    AskForBlock ask;
    if (ahead != nullptr) {
      ask = AskForBlock(ahead, task.group_bytes, next, chunks * ((num_tiles + 1) / 2));
    }
    for (int64_t t = first_tile; t < end_tile; t += 2) {
      const SideTiles side = side_tiles(block, t, sums);
      if (block.num_groups == 1) {
        multiply_side<1>(side, block, weights, ask);
      } else {
        multiply_side<kSideGroups>(side, block, weights, ask);
      }
    }
  }

  /// Tile t and, if there is one, the next.
  SideTiles side_tiles(const PairBlock& block, int64_t t, float* sums) const {
    SideTiles side{};
    side.count = end_tile - t < 2 ? 1 : 2;
    for (int64_t i = 0; i < side.count; ++i) {
      const int64_t row = tiles.first_row(t + i);
      side.first_row[i] = row;
      side.num_rows[i] = tiles.first_row(t + i + 1) - row;
      side.x[i] = task.tiles + row * bf16_row_bytes(task.columns) +
                  block.first_chunk * side.num_rows[i] * kTileRowBytes;
      side.sums[i] = sums + (t + i - first_tile) * kSideGroups * kTileSums;
    }
    return side;
  }

  template <int kGroups>
  void multiply_side(const SideTiles& side, const PairBlock& block, const BlockWeights& weights,
                     AskForBlock& ask) const {
    const bool whole =
        task.out.bias == nullptr && task.out.columns >= (block.first_group + kGroups) * kGroupRows;
    const ProductRows* in_place = block.is_last && whole ? &task.out : nullptr;
    if (side.count == 2) {
      multiply_block<2, kGroups>(side, block, weights, in_place, ask);
    } else {
      multiply_block<1, kGroups>(side, block, weights, in_place, ask);
    }
    if (!block.is_last || whole) return;
    for (int64_t i = 0; i < side.count; ++i) {
      for (int64_t r = 0; r < side.num_rows[i]; ++r) {
        for (int g = 0; g < kGroups; ++g) {
          store_output(load(side.sums[i] + g * kTileSums + r * kGroupRows), task.out,
                       side.first_row[i] + r, block.first_group + g);
        }
      }
    }
  }
};

inline void tile_bf16_matmul(const Bf16MatmulTask& task) {
  if (task.num_rows <= kTileRows) return tile_bf16_few_rows(task);
  const auto tiles = RowTiles::of(task.num_rows, kTileRows, kTileRows);
  // Tiles that are a row shorter than others are multiplied with what lies behind them, too.
  const TileShape rows{(task.num_rows + tiles.count - 1) / tiles.count};
  const TileShape weights{kTileRows};
  const TileScope scope({rows, rows, rows, rows, rows, rows, weights, weights});
  constexpr int64_t kMost = kBlockRows / kTileRows;
  const int64_t passes = (tiles.count + kMost - 1) / kMost;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const BlockedRows of_pass{.task = task,
                              .tiles = tiles,
                              .first_tile = pass * tiles.count / passes,
                              .end_tile = (pass + 1) * tiles.count / passes};
    of_pass.multiply(pass + 1 < passes ? task.groups : task.next_groups);
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
