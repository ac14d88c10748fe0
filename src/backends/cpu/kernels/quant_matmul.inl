// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with activations of eight bits, summed as quant_sums.inl says. Few
// rows read the packed weights (quant_few_rows.inl); many rows share a panel that is unpacked once
// (quant_panels.inl).
#pragma once

#include "backends/cpu/kernels/quant_few_rows.inl"
#include "backends/cpu/kernels/quant_panels.inl"

namespace hasten::cpu {
namespace {

/// sums[r][g] += `count` blocks of panel g times row r of a tile of activations, for kGroups of the
/// kQuantGroups. Not inlined: all formats whose panels look alike share it.
template <class PanelType, int kGroups, int kRows>
__attribute__((noinline)) void multiply_panels(const PanelType* panels, int64_t count,
                                               const uint8_t* x, Prefetcher& prefetcher,
                                               float* sums) {
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

/// Groups that a register tile is multiplied as if it had, if it has no more: the last one.
constexpr int kLessGroups = kQuantGroups > 2 ? kQuantGroups - 1 : kQuantGroups;

/// Tiles of kQuantRows rows for quant_matmul_passes(), multiplied with dot instructions or what
/// stands for them.
template <const PackedFormat& kFormat>
class DotProducts {
 public:
  using Source = PackedStrip<kFormat>;
  static constexpr int kRows = kQuantRows;
  static constexpr int64_t kPanelBytes = PanelOf<Source>::kBytes;
  static constexpr int kLeastGroups = kLessGroups;

  explicit DotProducts(uint8_t* scratch) {
    if constexpr (!Source::kIsPanel) {
      for (int g = 0; g < kQuantGroups; ++g) {
        // Without gaps: what lies whole ways apart would meet in few sets of the first-level cache.
        panels_[g].code_bytes = scratch + g * Layout::kCodes;
        panels_[g].scales =
            reinterpret_cast<float*>(scratch + kQuantGroups * Layout::kCodes) + g * Layout::kScales;
        panels_[g].offsets = panels_[g].scales + kQuantGroups * Layout::kScales;
      }
    }
  }
  HASTEN_INLINE void unpack(int group, const Source& source, int64_t count) {
    if constexpr (Source::kIsPanel) {
      panels_[group] = source;
    } else {
      panels_[group].low = source.unit_of(0);
      hasten::cpu::unpack(source, count, panels_[group]);
    }
  }
  static int64_t num_calls(int64_t count, int /*num_groups*/) { return count; }
  HASTEN_INLINE void multiply(const PassTile& tile, int num_groups, Prefetcher& prefetcher,
                              const OutputTile<Source>& out) const {
    with_constant<kRows>(tile.rows, [&](auto rows) {
      constexpr int kUsed = decltype(rows)::value;
      // Here, where they are read at once: all of them before the first panel would go through
      // the second-level cache.
      if (tile.first) {
        unroll<0, kUsed * kQuantGroups>(
            [&](auto i) HASTEN_INLINE { store(tile.sums + i.value * kGroupRows, zero()); });
      }
      const auto multiply_groups = [&](auto used) HASTEN_INLINE {
        multiply_panels<PanelType, decltype(used)::value, kUsed>(panels_, tile.count, tile.x,
                                                                 prefetcher, tile.sums);
      };
      num_groups > kLessGroups ? multiply_groups(Constant<kQuantGroups>{})
                               : multiply_groups(Constant<kLessGroups>{});
      if (tile.last) {
        unroll<0, kUsed>([&](auto row)
                             HASTEN_INLINE { out.finish_row(tile.sums, decltype(row)::value); });
      }
    });
  }

 private:
  using Layout = PanelOf<Source>;
  using PanelType = typename Layout::Type;

  PanelType panels_[kQuantGroups];
};

template <const PackedFormat& kFormat>
inline void quant_matmul(const QuantMatmulTask& task) {
  if (task.x.num_rows <= kQuantDirectRows) {
    return quant_matmul_few_rows<PackedStrip<kFormat>>(task);
  }
  quant_matmul_passes<DotProducts<kFormat>>(
      task, RowTiles::of(task.x.num_rows, kQuantDirectRows, kQuantRows));
}

}  // namespace
}  // namespace hasten::cpu
