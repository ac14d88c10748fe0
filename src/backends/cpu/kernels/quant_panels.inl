// SPDX-License-Identifier: Apache-2.0
// Many rows of activations times quantised weights, panel after panel: what passes over rows,
// groups and columns have in common, however a tile of rows is multiplied.
#pragma once

#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/packed_weights.inl"
#include "backends/cpu/kernels/prefetcher.inl"

namespace hasten::cpu {
namespace {

/// A tile of rows that meets the panels of a register tile of groups.
struct PassTile {
  const uint8_t* x;  // from the panels' first block on
  int64_t rows;
  int64_t count;  // of the panels' blocks
  float* sums;    // [rows][kQuantGroups][16]
  bool first;     // panels of the groups: the sums are to be cleared
  bool last;      // panels: the sums are outputs then
};

/// Where the outputs of a tile of rows and kQuantGroups groups go.
template <class Source>
struct OutputTile {
  const Source* sources;  // of the groups
  const ProductRows& out;
  int64_t first_row;
  bool whole;  // `out` has all of the groups, and no bias

  /// Writes the sums [kQuantGroups][16] of a row of the tile.
  HASTEN_INLINE void finish_row(const float* sums, int64_t row) const {
    unroll<0, kQuantGroups>([&](auto group) HASTEN_INLINE {
      constexpr int kGroup = decltype(group)::value;
      F32x16 total = load(sums + (row * kQuantGroups + kGroup) * kGroupRows);
      if constexpr (Source::kIntegerScales) total = mul(total, sources[kGroup].row_units());
      if (whole) {
        store(out.data + (first_row + row) * out.stride + kGroup * kGroupRows, total);
      } else {
        store_output(total, out, first_row + row, kGroup);
      }
    });
  }
};

/// The tiles [first_tile, end_tile) of the rows and the groups of one register tile, panel after
/// panel. Products has panels of the groups, and multiplies tiles of up to kRows rows with them, of
/// at least kLeastGroups groups at a time; num_calls() is how often it calls Prefetcher::next() for
/// a tile.
template <class Products>
inline void quant_matmul_pass(const QuantMatmulTask& task, int64_t begin_group,
                              const RowTiles& tiles, int64_t first_tile, int64_t end_tile) {
  using Source = typename Products::Source;
  constexpr int64_t kPanelBytes = Products::kPanelBytes;
  static_assert(kQuantGroups * (kPanelBytes + kPassRows * kGroupRows * 4) <= kMatmulScratchBytes);
  static_assert(kPanelBlocks % Source::kUnit.blocks == 0 && kStripBlocks % kPanelBlocks == 0);
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const int64_t first_row = tiles.first_row(first_tile);
  const int64_t left_groups = task.num_groups - begin_group;
  const int num_groups = left_groups < kQuantGroups ? static_cast<int>(left_groups) : kQuantGroups;
  const int used_groups = num_groups > Products::kLeastGroups ? num_groups : Products::kLeastGroups;
  const PackedGroups<Source> groups(task.groups, blocks);
  Source sources[kQuantGroups];
  Products products(task.scratch);
  ProductRows out = task.out;  // of these groups; the matrix may go on
  out.data += begin_group * kGroupRows;
  out.columns -= begin_group * kGroupRows;
  if (out.columns > num_groups * kGroupRows) out.columns = num_groups * kGroupRows;
  if (out.bias != nullptr) out.bias += begin_group * kGroupRows;
  const bool whole = out.columns >= kQuantGroups * kGroupRows && out.bias == nullptr;
  out.data += (first_row - task.first_out_row) * out.stride;
  // [rows of the tiles][kQuantGroups][16]: where the outputs go, if that is how they lie there.
  constexpr int64_t kRowSums = kQuantGroups * kGroupRows;
  const bool in_place = whole && out.stride == kRowSums;
  auto* sums =
      in_place ? out.data : reinterpret_cast<float*>(task.scratch + kQuantGroups * kPanelBytes);

  for (int64_t first = 0; first < blocks; first += kPanelBlocks) {
    const int64_t left = blocks - first;
    const int64_t count = left < kPanelBlocks ? left : kPanelBlocks;
    const bool last = count == left;
    for (int g = 0; g < kQuantGroups; ++g) {
      // The last tile may have groups too few; it repeats its last one and does not store it.
      sources[g] = groups.from(begin_group + (g < num_groups ? g : num_groups - 1), first);
      if (g < used_groups) products.unpack(g, sources[g], count);
    }
    Prefetcher prefetcher;
    if (!last) {
      for (int64_t g = 0; g < num_groups; ++g) {
        prefetcher.add(groups.from(begin_group + g, first + count).unit_of(0));
      }
    } else {
      const bool more = left_groups > kQuantGroups;
      const int64_t next_group = more ? begin_group + kQuantGroups : 0;
      const PackedGroups<Source> next(
          more || end_tile < task.end_tile ? task.groups : task.next_groups, blocks);
      const int64_t next_left = next.num_left(next_group);
      for (int64_t g = 0; g < kQuantGroups && g < next_left; ++g) {
        prefetcher.add(next.from(next_group + g, 0).unit_of(0));
      }
      for (int64_t g = 0; g < num_groups; ++g) sources[g].prefetch_head();
    }
    prefetcher.spread(kPanelBlocks * Source::kUnit.bytes_per_block(),
                      (end_tile - first_tile) * Products::num_calls(count, used_groups));
    int64_t row = first_row;
    for (int64_t t = first_tile; t < end_tile; ++t) {
      const int64_t end = tiles.first_row(t + 1);
      float* tile_sums = sums + (row - first_row) * kRowSums;
      if (last && !in_place) {
        for (int64_t r = row; r < end; ++r) {
          for (int64_t g = 0; g < num_groups; ++g) prefetch_output(out, r - first_row, g);
        }
      }
      constexpr int64_t kRowBlockBytes =
          activation_block_bytes(1, Source::kParts, Source::kSplit ? 2 : 1);
      const ActivationTile tile{.num_rows = task.x.num_rows,
                                .num_blocks = blocks,
                                .span_blocks = Source::kSpanBlocks,
                                .span_bytes = Source::kSpanBytes,
                                .first_row = row,
                                .rows = end - row};
      products.multiply(
          {.x = task.x.tiles + tile.at(first, kRowBlockBytes),
           .rows = end - row,
           .count = count,
           .sums = tile_sums,
           .first = first == 0,
           .last = last},
          used_groups, prefetcher,
          OutputTile<Source>{
              .sources = sources, .out = out, .first_row = row - first_row, .whole = whole});
      row = end;
    }
  }
}

/// The tiles of the task, kPassRows rows of them at a time, and all of its groups.
template <class Products>
inline void quant_matmul_passes(const QuantMatmulTask& task, const RowTiles& tiles) {
  constexpr int64_t kMost = kPassRows / Products::kRows;
  const int64_t count = task.end_tile - task.first_tile;
  const int64_t passes = (count + kMost - 1) / kMost;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = task.first_tile + pass * count / passes;
    const int64_t end = task.first_tile + (pass + 1) * count / passes;
    for (int64_t begin_group = 0; begin_group < task.num_groups; begin_group += kQuantGroups) {
      quant_matmul_pass<Products>(task, begin_group, tiles, first, end);
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
