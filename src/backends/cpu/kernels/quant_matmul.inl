// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with activations of eight bits, summed as quant_sums.inl says. Few
// rows read the packed weights (quant_few_rows.inl); many rows share a panel that is unpacked once.
#pragma once

#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/prefetcher.inl"
#include "backends/cpu/kernels/quant_few_rows.inl"

namespace hasten::cpu {
namespace {

/// sums[r][g] += `count` blocks of panel g times row r of a tile of activations, for kGroups of the
/// kQuantGroups. Not inlined: all formats whose panels look alike share it.
template <class PanelType, int kGroups, int kRows>
HASTEN_KERNEL void multiply_panels(const PanelType* panels, int64_t count, const uint8_t* x,
                                   Prefetcher& prefetcher, float* sums) {
  const auto before_block = [&](int64_t) HASTEN_INLINE { prefetcher.next(); };
  PanelType own[kGroups];  // which no store reaches
  for (int g = 0; g < kGroups; ++g) own[g] = panels[g];
  if constexpr (PanelType::kIntegerScales) {
    accumulate_pairs<kHasDotInstruction, kGroups, kRows>(
        own, count, x,
        [&](int g, int r, F32x16 product, F32x16 scale) HASTEN_INLINE {
          float* sum = sums + (r * kQuantGroups + g) * kGroupRows;
          F32x16 total = load(sum);
          add_product(total, product, scale);
          store(sum, total);
        },
        before_block);
  } else {
    F32x16 total[kGroups][kRows];
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      total[g.value][r.value] = load(sums + (r.value * kQuantGroups + g.value) * kGroupRows);
    });
    accumulate<kGroups, kRows>(own, count, x, total, before_block);
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      store(sums + (r.value * kQuantGroups + g.value) * kGroupRows, total[g.value][r.value]);
    });
  }
}

/// Writes the sums [kRows][kQuantGroups][16] of the groups of `out`. `whole`: it has all of them,
/// and no bias.
template <int kRows, class Source>
HASTEN_INLINE inline void finish_tile(const float* sums, const Source* sources,
                                      const ProductRows& out, int64_t first_row, bool whole) {
  unroll_tile<kRows, kQuantGroups>([&](auto row, auto group) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(group)::value;
    F32x16 total = load(sums + (kRow * kQuantGroups + kGroup) * kGroupRows);
    if constexpr (Source::kIntegerScales) total = mul(total, sources[kGroup].row_units());
    if (whole) {
      store(out.data + (first_row + kRow) * out.stride + kGroup * kGroupRows, total);
    } else {
      store_output(total, out, first_row + kRow, kGroup);
    }
  });
}

/// Groups that a register tile is multiplied as if it had, if it has no more: the last one.
constexpr int kLessGroups = kQuantGroups > 2 ? kQuantGroups - 1 : kQuantGroups;

/// The tiles [first_tile, end_tile) of the rows and the groups of one register tile, panel after
/// panel.
template <class Source, bool kKeepsLow>
HASTEN_KERNEL void quant_matmul_pass(const QuantMatmulTask& task, int64_t begin_group,
                                     const RowTiles& tiles, int64_t first_tile, int64_t end_tile) {
  using Layout = PanelOf<Source, kKeepsLow>;
  using PanelType = typename Layout::Type;
  constexpr int64_t kPanelBytes = Layout::kBytes;
  static_assert(kQuantGroups * (kPanelBytes + kPassRows * kGroupRows * 4) <= kMatmulScratchBytes);
  static_assert(kPanelBlocks % Source::kUnit.blocks == 0 && kStripBlocks % kPanelBlocks == 0);
  // Where panels are made at all, and of whole units.
  constexpr bool kMayBeShort = !Source::kIsPanel && kShortPanelBlocks % Source::kUnit.blocks == 0;
  const int64_t panel_blocks = kMayBeShort && task.short_panels ? kShortPanelBlocks : kPanelBlocks;
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const int64_t first_row = tiles.first_row(first_tile);
  const int64_t left_groups = task.num_groups - begin_group;
  const int64_t num_groups = left_groups < kQuantGroups ? left_groups : kQuantGroups;
  const int used_groups = num_groups > kLessGroups ? kQuantGroups : kLessGroups;
  const PackedGroups<Source> groups(task.groups, blocks);
  Source sources[kQuantGroups];
  PanelType panels[kQuantGroups];
  if constexpr (!Source::kIsPanel) place_panels(task.scratch, panel_blocks, panels);
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

  for (int64_t first = 0; first < blocks; first += panel_blocks) {
    const int64_t left = blocks - first;
    const int64_t count = left < panel_blocks ? left : panel_blocks;
    const bool last = count == left;
    for (int g = 0; g < kQuantGroups; ++g) {
      // The last tile may have groups too few; it repeats its last one and does not store it.
      sources[g] = groups.from(begin_group + (g < num_groups ? g : num_groups - 1), first);
      if (g >= used_groups) continue;
      if constexpr (Source::kIsPanel) {
        panels[g] = sources[g];
      } else {
        panels[g].low = sources[g].unit_of(0);
        unpack(sources[g], count, panels[g]);
      }
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
    prefetcher.spread(panel_blocks * Source::kUnit.bytes_per_block(),
                      (end_tile - first_tile) * count);
    int64_t row = first_row;
    for (int64_t t = first_tile; t < end_tile; ++t) {
      const int64_t end = tiles.first_row(t + 1);
      float* tile_sums = sums + (row - first_row) * kRowSums;
      if (last && !in_place) {
        for (int64_t r = row; r < end; ++r) {
          for (int64_t g = 0; g < num_groups; ++g) prefetch_output(out, r - first_row, g);
        }
      }
      with_constant<kQuantRows>(end - row, [&](auto rows) {
        constexpr int kRows = decltype(rows)::value;
        constexpr int64_t kRowBlockBytes =
            activation_block_bytes(1, Source::kParts, Source::kSplit ? 2 : 1);
        const ActivationTile tile{.num_rows = task.x.num_rows,
                                  .num_blocks = blocks,
                                  .span_blocks = Source::kSpanBlocks,
                                  .span_bytes = Source::kSpanBytes,
                                  .first_row = row,
                                  .rows = kRows};
        // Here, where they are read at once: all of them before the first panel would go through
        // the second-level cache.
        if (first == 0) {
          unroll<0, kRows * kQuantGroups>(
              [&](auto i) HASTEN_INLINE { store(tile_sums + i.value * kGroupRows, zero()); });
        }
        const uint8_t* x = task.x.tiles + tile.at(first, kRowBlockBytes);
        const auto multiply = [&](auto used) HASTEN_INLINE {
          multiply_panels<PanelType, decltype(used)::value, kRows>(panels, count, x, prefetcher,
                                                                   tile_sums);
        };
        used_groups > kLessGroups ? multiply(Constant<kQuantGroups>{})
                                  : multiply(Constant<kLessGroups>{});
        if (last) finish_tile<kRows>(tile_sums, sources, out, row - first_row, whole);
      });
      row = end;
    }
  }
}

template <class Source, bool kKeepsLow>
inline void quant_matmul_many_rows(const QuantMatmulTask& task) {
  const auto tiles = RowTiles::of(task.x.num_rows, kQuantDirectRows, kQuantRows);
  constexpr int64_t kMost = kPassRows / kQuantRows;
  const int64_t count = task.end_tile - task.first_tile;
  const int64_t passes = (count + kMost - 1) / kMost;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = task.first_tile + pass * count / passes;
    const int64_t end = task.first_tile + (pass + 1) * count / passes;
    for (int64_t begin_group = 0; begin_group < task.num_groups; begin_group += kQuantGroups) {
      quant_matmul_pass<Source, kKeepsLow>(task, begin_group, tiles, first, end);
    }
  }
}

template <const PackedFormat& kFormat>
inline void quant_matmul(const QuantMatmulTask& task) {
  using Source = PackedStrip<kFormat>;
  if (task.x.num_rows <= kQuantDirectRows) return quant_matmul_few_rows<Source>(task);
  if constexpr (Source::kMayKeepLowNibbles) {
    if (task.keeps_low_nibbles) return quant_matmul_many_rows<Source, true>(task);
  }
  quant_matmul_many_rows<Source, false>(task);
}

}  // namespace
}  // namespace hasten::cpu
