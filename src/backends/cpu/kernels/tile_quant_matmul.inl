// SPDX-License-Identifier: Apache-2.0
// Products of weights with integer scales with many rows of activations of eight bits, on tile
// registers: the numbers of quant_sums.inl, bit by bit. A product of tiles is of 16 rows, 16
// weights and the columns of a block, as many as share a scale; the sums then go through memory to
// vector registers, which scale and add them while the next ones are multiplied. Behind a simd
// header with dot_i8_tiles.
#pragma once

#include "backends/cpu/kernels/quant_panels.inl"

namespace hasten::cpu {
namespace {

// Of a block's row of activations in a tile: values and start.
constexpr int64_t kTileValueBytes = kBlockColumns + 4;
// Of a block's levels, and of the scales of a pair of blocks.
constexpr int64_t kTileLevelBytes = kTileValueBytes / 4 * kTileRowBytes;
constexpr int64_t kTileScaleBytes = kTileRowBytes;

/// Some blocks of a group as tiles of weights. Block indices count from the panel's first.
struct TilePanel {
  uint8_t* levels;   // [blocks][8 quads][16][4], less the zero point, and [16] of kStartLevels
  uint8_t* scales;   // [blocks / 2][16][2] int16
  uint8_t* offsets;  // likewise
};
constexpr int64_t tile_panel_bytes(bool offsets) {
  return kPanelBlocks * kTileLevelBytes + kPanelBlocks / 2 * (offsets ? 2 : 1) * kTileScaleBytes;
}

/// Makes a panel of the first blocks of a strip.
template <const PackedFormat& kFormat>
inline void unpack_levels(PackedStrip<kFormat> source, int64_t num_blocks, TilePanel panel) {
  const I32x16 start_levels = set1_i32(__builtin_bit_cast(int32_t, kStartLevels));
  for (int64_t b = 0; b < num_blocks; ++b) {
    uint8_t* to = panel.levels + b * kTileLevelBytes;
    unroll<0, 8>([&](auto index) HASTEN_INLINE {
      constexpr int kIndex = decltype(index)::value;
      store_codes(to + kIndex * kTileRowBytes,
                  add_bytes(source.template codes<kIndex>(b), -kFormat.zero_point));
    });
    store_i32(to + 8 * kTileRowBytes, start_levels);
  }
  for (int64_t b = 0; b < num_blocks; b += 2) {
    store_i32(panel.scales + b / 2 * kTileScaleBytes, source.pair_scales(b));
    if constexpr (kFormat.offsets) {
      store_i32(panel.offsets + b / 2 * kTileScaleBytes, source.pair_offsets(b));
    }
  }
}

/// A tile of kRows rows of activations, pair after pair of blocks. Pairs take turns of two: tile
/// registers, and memory through which their dot products go.
template <bool kOffsets, int kRows>
struct TilePairs {
  static constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, 1);
  static constexpr int64_t kPairBytes =
      2 * kBlockBytes + kRows * activation_span_bytes(kOffsets ? ScaleKind::integers_and_offsets
                                                               : ScaleKind::integers);

  const uint8_t* x;
  alignas(64) int32_t dots[2][2][kTileRows][kGroupRows];  // [turns][blocks][rows]

  /// Begins the products of a pair.
  template <int kTurn>
  HASTEN_INLINE void multiply(const TilePanel& panel, int64_t pair) const {
    const uint8_t* levels = panel.levels + 2 * pair * kTileLevelBytes;
    const uint8_t* values = x + pair * kPairBytes;
    clear_tile<2 * kTurn>();
    load_tile<4>(values, kTileValueBytes);
    load_tile<6>(levels, kTileRowBytes);
    dot_i8_tiles<2 * kTurn, 4, 6>();
    clear_tile<2 * kTurn + 1>();
    load_tile<5>(values + kBlockBytes, kTileValueBytes);
    load_tile<7>(levels + kTileLevelBytes, kTileRowBytes);
    dot_i8_tiles<2 * kTurn + 1, 5, 7>();
  }
  template <int kTurn>
  HASTEN_INLINE void store_dots() {
    store_tile<2 * kTurn>(dots[kTurn][0], kTileRowBytes);
    store_tile<2 * kTurn + 1>(dots[kTurn][1], kTileRowBytes);
  }

  /// Adds what was stored of a pair.
  template <int kTurn>
  HASTEN_INLINE void add(const TilePanel& panel, int64_t pair, F32x16 (&total)[kRows]) const {
    const I32x16 scales = load_halves(panel.scales + pair * kTileScaleBytes);
    const uint8_t* shifts = x + pair * kPairBytes + kRows * kTileValueBytes;
    const uint8_t* factors = x + pair * kPairBytes + 2 * kBlockBytes;
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      constexpr int kRow = decltype(row)::value;
      const I32x16 low = shift_right_by(load_i32(dots[kTurn][0][kRow]), shifts + 4 * kRow);
      const I32x16 high =
          shift_left_by(load_i32(dots[kTurn][1][kRow]), shifts + kBlockBytes + 4 * kRow);
      I32x16 sum = multiply_pairs(join_halves(low, high), scales);
      if constexpr (kOffsets) {
        const I32x16 offsets = load_halves(panel.offsets + pair * kTileScaleBytes);
        sum = add_pair_products(sum, offsets, load_scalar<int32_t>(factors + 4 * (kRows + kRow)));
      }
      add_product(total[kRow], to_float(sum), set1(load_scalar<float>(factors + 4 * kRow)));
    });
  }
};

/// sums[r][g] += `num_pairs` pairs of blocks of panel g times row r of the tile of kRows rows at x.
/// Not inlined: all formats share it.
template <bool kOffsets, int kRows>
__attribute__((noinline)) void multiply_tile_panels(const TilePanel* panels, int num_groups,
                                                    int64_t num_pairs, const uint8_t* x,
                                                    Prefetcher& prefetcher, float* sums) {
  __asm__ volatile("" ::: "memory");  // panels are written before they are read as tiles
  TilePairs<kOffsets, kRows> pairs;
  pairs.x = x;
  for (int g = 0; g < num_groups; ++g) {
    F32x16 total[kRows];
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      total[row.value] = load(sums + (row.value * kQuantGroups + g) * kGroupRows);
    });
    // Where the count is even, the last pair of the group before has begun the first one.
    if (g == 0 || num_pairs % 2 != 0) pairs.template multiply<0>(panels[g], 0);
    for (int64_t i = 0; i < num_pairs; i += 2) {
      prefetcher.next();
      pairs.template store_dots<0>();
      if (i + 1 < num_pairs) pairs.template multiply<1>(panels[g], i + 1);
      pairs.template add<0>(panels[g], i, total);
      if (i + 1 == num_pairs) break;
      prefetcher.next();
      pairs.template store_dots<1>();
      if (i + 2 < num_pairs) {
        pairs.template multiply<0>(panels[g], i + 2);
      } else if (g + 1 < num_groups) {
        pairs.template multiply<0>(panels[g + 1], 0);
      }
      pairs.template add<1>(panels[g], i + 1, total);
    }
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      store(sums + (row.value * kQuantGroups + g) * kGroupRows, total[row.value]);
    });
  }
}

/// Tiles of 16 rows, or some fewer, for quant_matmul_passes().
template <const PackedFormat& kFormat>
class TileProducts {
 public:
  using Source = PackedStrip<kFormat>;
  static constexpr int64_t kPanelBytes = tile_panel_bytes(kFormat.offsets);
  static constexpr int kRows = kTileRows;
  static constexpr int kLeastGroups = 1;

  explicit TileProducts(uint8_t* scratch) {
    for (int g = 0; g < kQuantGroups; ++g, scratch += kPanelBytes) {
      panels_[g].levels = scratch;
      panels_[g].scales = scratch + kPanelBlocks * kTileLevelBytes;
      panels_[g].offsets = panels_[g].scales + kPanelBlocks / 2 * kTileScaleBytes;
    }
  }
  void unpack(int group, const Source& source, int64_t count) {
    unpack_levels<kFormat>(source, count, panels_[group]);
  }
  static int64_t num_calls(int64_t count, int num_groups) { return count / 2 * num_groups; }
  void multiply(const PassTile& tile, int num_groups, Prefetcher& prefetcher,
                const OutputTile<Source>& out) const {
    if (tile.first) {
      for (int64_t i = 0; i < tile.rows * kQuantGroups; ++i) {
        store(tile.sums + i * kGroupRows, zero());
      }
    }
    with_constant<kRows>(tile.rows, [&](auto rows) {
      multiply_tile_panels<kFormat.offsets, decltype(rows)::value>(
          panels_, num_groups, tile.count / 2, tile.x, prefetcher, tile.sums);
    });
    if (!tile.last) return;
    for (int64_t row = 0; row < tile.rows; ++row) out.finish_row(tile.sums, row);
  }

 private:
  TilePanel panels_[kQuantGroups];
};

/// Of more rows than quant_matmul takes without panels.
template <const PackedFormat& kFormat>
inline void tile_quant_matmul(const QuantMatmulTask& task) {
  const auto tiles = RowTiles::of(task.x.num_rows, kQuantDirectRows, kTileRows);
  // A tile that is a row shorter than the longest reads one of what lies behind it, too; the last
  // one is not shorter.
  const TileShape sums{(task.x.num_rows + tiles.count - 1) / tiles.count};
  const TileShape values{sums.rows, kTileValueBytes};
  const TileShape levels{kTileValueBytes / 4};
  const TileScope scope({sums, sums, sums, sums, values, values, levels, levels});
  quant_matmul_passes<TileProducts<kFormat>>(task, tiles);
}

}  // namespace
}  // namespace hasten::cpu
