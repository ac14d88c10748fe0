// SPDX-License-Identifier: Apache-2.0
// Products of f32, f16 and bf16 weights with f32 activations: each output element is one chain of
// fused multiply-adds along the columns, however many rows there are.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/ask.inl"
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Bytes of one group's column pair.
constexpr int64_t pair_bytes(FloatKind kind) { return kind == FloatKind::f32 ? 128 : 64; }

/// Columns 2 * pair (and + 1) of the 16 rows at `group`.
template <FloatKind kKind>
HASTEN_INLINE inline F32x16 load_even(const uint8_t* group, int64_t pair) {
  const uint8_t* p = group + pair * pair_bytes(kKind);
  if constexpr (kKind == FloatKind::f32) return load(reinterpret_cast<const float*>(p));
  if constexpr (kKind == FloatKind::f16) return load_f16(reinterpret_cast<const uint16_t*>(p));
  if constexpr (kKind == FloatKind::bf16) return load_bf16_even(p);
}
template <FloatKind kKind>
HASTEN_INLINE inline F32x16 load_odd(const uint8_t* group, int64_t pair) {
  const uint8_t* p = group + pair * pair_bytes(kKind);
  if constexpr (kKind == FloatKind::f32) return load(reinterpret_cast<const float*>(p) + 16);
  if constexpr (kKind == FloatKind::f16) return load_f16(reinterpret_cast<const uint16_t*>(p) + 16);
  if constexpr (kKind == FloatKind::bf16) return load_bf16_odd(p);
}

/// Some columns of some groups of a task.
struct FloatBlock {
  const uint8_t* weights;  // of the first group, from column `begin` on
  int64_t group_bytes;     // from one group to the next
  int64_t group;           // the first one
  int64_t begin;           // column, even
  int64_t end;             // likewise, but for the end of all columns
};

/// kGroups groups of a block times the tile of rows from first_row on. Sums of the columns before
/// these lie where the outputs will. Calls before_pair(i) before pair i of the block's columns.
template <FloatKind kKind, int kGroups, int kRows, class F>
HASTEN_INLINE inline void float_matmul_tile(const FloatMatmulTask& task, const FloatBlock& block,
                                            int64_t first_row, F&& before_pair) {
  const uint8_t* groups = block.weights;
  const int64_t group_bytes = block.group_bytes;
  const int64_t columns = block.end - block.begin;
  const float* x = task.tiles + first_row * task.columns + block.begin * kRows;
  F32x16 total[kGroups][kRows];
  unroll_tile<kRows, kGroups>([&](auto row, auto g) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(g)::value;
    total[kGroup][kRow] =
        block.begin == 0 ? zero() : load_output(task.out, first_row + kRow, block.group + kGroup);
  });
  F32x16 weights[kGroups];
  const auto multiply = [&](const float* column) HASTEN_INLINE {
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      constexpr int kRow = decltype(row)::value;
      const F32x16 value = set1(column[kRow]);
      unroll<0, kGroups>([&](auto g) HASTEN_INLINE {
        constexpr int kGroup = decltype(g)::value;
        add_product(total[kGroup][kRow], weights[kGroup], value);
      });
    });
  };
  int64_t pair = 0;
  for (; pair < columns / 2; ++pair, x += 2 * kRows) {
    before_pair(pair);
    for (int g = 0; g < kGroups; ++g) weights[g] = load_even<kKind>(groups + g * group_bytes, pair);
    multiply(x);
    for (int g = 0; g < kGroups; ++g) weights[g] = load_odd<kKind>(groups + g * group_bytes, pair);
    multiply(x + kRows);
  }
  if (columns % 2 != 0) {
    for (int g = 0; g < kGroups; ++g) weights[g] = load_even<kKind>(groups + g * group_bytes, pair);
    multiply(x);
  }
  ProductRows out = task.out;
  if (block.end < task.columns) out.bias = nullptr;
  unroll_tile<kRows, kGroups>([&](auto row, auto g) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(g)::value;
    store_output(total[kGroup][kRow], out, first_row + kRow, block.group + kGroup);
  });
}

/// Of a single tile; with kInOrder, as WeightStreams::in_order has it.
template <FloatKind kKind, int kGroups, int kRows, bool kInOrder = false>
inline void float_matmul_direct(const FloatMatmulTask& task, int64_t group) {
  constexpr int64_t kAhead = 1024;  // bytes, of each stream; measured
  // And into the second-level cache, as quant_matmul_direct() asks; f32 loses 2 % by it.
  constexpr int64_t kFarAhead = 4096;
  const bool asks_far = kMayAskIntoSecond && kGroups > 1 && kKind != FloatKind::f32 &&
                        task.streams == WeightStreams::several;
  const FloatBlock block{.weights = task.groups + group * task.group_bytes,
                         .group_bytes = task.group_bytes,
                         .group = group,
                         .begin = 0,
                         .end = task.columns};
  float_matmul_tile<kKind, kGroups, kRows>(task, block, 0, [&](int64_t pair) HASTEN_INLINE {
    if constexpr (!kInOrder) {
      const uint8_t* at = block.weights + pair * pair_bytes(kKind);
      for (int g = 0; g < kGroups; ++g) prefetch(at + kAhead + g * task.group_bytes);
      for (int g = 0; asks_far && g < kGroups; ++g) {
        prefetch_far(at + kFarAhead + g * task.group_bytes);
      }
    }
  });
}

/// Rows that are one tile: their weights come straight from memory.
template <FloatKind kKind>
inline void float_matmul_few_rows(const FloatMatmulTask& task) {
  with_constant<kFloatTileRows>(task.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    constexpr int kGroups = float_groups(kRows);
    int64_t group = 0;
    if constexpr (kReadsInOrder && kRows <= kOneStreamRows) {
      if (task.streams == WeightStreams::in_order) {
        for (; group < task.num_groups; ++group) {
          float_matmul_direct<kKind, 1, kRows, true>(task, group);
        }
        return;
      }
    }
    // Not of f32: its lines make one product each, and one chain of sums is too slow beside what
    // asks for them.
    const bool alone =
        kKind != FloatKind::f32 && task.streams == WeightStreams::one && kRows <= kOneStreamRows;
    for (; !alone && group + kGroups <= task.num_groups; group += kGroups)
      float_matmul_direct<kKind, kGroups, kRows>(task, group);
    for (; group < task.num_groups; ++group) float_matmul_direct<kKind, 1, kRows>(task, group);
  });
}

/// Weights of some groups that are fetched evenly while others are multiplied: so many bytes from
/// `at` on, and as many of each further group.
class FetchedAhead {
 public:
  FetchedAhead(const uint8_t* at, int64_t group_bytes, int64_t bytes, int64_t calls)
      : at_(at), group_bytes_(group_bytes), step_((bytes << kShift) / calls) {}

  template <int kGroups>
  HASTEN_INLINE void next() {
    for (int g = 0; g < kGroups; ++g) prefetch_far(at_ + g * group_bytes_ + (fetched_ >> kShift));
    fetched_ += step_;
  }

 private:
  static constexpr int kShift = 16;
  const uint8_t* at_;
  int64_t group_bytes_;
  int64_t step_;  // in parts of a byte, as what is fetched
  int64_t fetched_ = 0;
};

/// Some tiles of rows.
struct TilePass {
  RowTiles tiles;
  int64_t begin;  // tile
  int64_t end;
};

/// kGroups groups of a block times the tiles of a pass.
template <FloatKind kKind, int kGroups>
inline void float_matmul_block(const FloatMatmulTask& task, const FloatBlock& block,
                               const TilePass& pass, FetchedAhead ahead) {
  for (int64_t t = pass.begin; t < pass.end; ++t) {
    const int64_t row = pass.tiles.first_row(t);
    with_constant<kFloatTileRows>(pass.tiles.first_row(t + 1) - row, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      static_assert(kGroups <= float_groups(kRows));
      FetchedAhead in_tile = ahead;
      float_matmul_tile<kKind, kGroups, kRows>(
          task, block, row, [&](int64_t) HASTEN_INLINE { in_tile.next<kGroups>(); });
      ahead = in_tile;
    });
  }
}

/// The same block with weights of f32, which lie in the task's scratch.
template <FloatKind kKind, int kGroups>
inline FloatBlock to_f32(const FloatMatmulTask& task, const FloatBlock& block) {
  constexpr int64_t kGroupBytes = kFloatBlockColumns * kGroupRows * 4;
  static_assert(kGroups * kGroupBytes <= kMatmulScratchBytes);
  const int64_t columns = block.end - block.begin;
  for (int g = 0; g < kGroups; ++g) {
    const uint8_t* from = block.weights + g * block.group_bytes;
    auto* to = reinterpret_cast<float*>(task.scratch + g * kGroupBytes);
    for (int64_t pair = 0; pair < (columns + 1) / 2; ++pair) {
      store(to + pair * 32, load_even<kKind>(from, pair));
      if (2 * pair + 1 < columns) store(to + pair * 32 + 16, load_odd<kKind>(from, pair));
    }
  }
  FloatBlock converted = block;
  converted.weights = task.scratch;
  converted.group_bytes = kGroupBytes;
  return converted;
}

/// Of many rows all tiles of a pass meet the same columns of some groups before the next ones: the
/// activations stay in the second-level cache, and the weights in it or the first.
template <FloatKind kKind>
inline void float_matmul(const FloatMatmulTask& task) {
  if (task.num_rows <= kFloatTileRows) return float_matmul_few_rows<kKind>(task);
  constexpr int kGroups = float_groups(kFloatTileRows);
  const auto tiles = RowTiles::of(task.num_rows, kFloatTileRows, kFloatTileRows);
  const int64_t most = task.pass_rows / kFloatTileRows;
  const int64_t passes = (tiles.count + most - 1) / most;
  for (int64_t p = 0; p < passes; ++p) {
    const TilePass pass{tiles, p * tiles.count / passes, (p + 1) * tiles.count / passes};
    for (int64_t begin = 0; begin < task.columns; begin += kFloatBlockColumns) {
      const int64_t left = task.columns - begin;
      const int64_t columns = left < kFloatBlockColumns ? left : kFloatBlockColumns;
      const auto weights = [&](int64_t group, int64_t column) {
        return task.groups + group * task.group_bytes + column / 2 * pair_bytes(kKind);
      };
      const auto multiply = [&](auto groups, int64_t group) {
        constexpr int kCount = decltype(groups)::value;
        const FloatBlock block{.weights = weights(group, begin),
                               .group_bytes = task.group_bytes,
                               .group = group,
                               .begin = begin,
                               .end = begin + columns};
        // What comes next: as many groups; those left, of which the first is fetched more than
        // once; the first ones with the next columns, or with the first for another pass.
        const int64_t behind = task.num_groups - group - kCount;
        const int64_t next = behind > 0 ? group + kCount : 0;
        const int64_t column = behind > 0 ? begin : block.end < task.columns ? block.end : 0;
        const int64_t ahead_columns =
            task.columns - column < columns ? task.columns - column : columns;
        const int64_t calls = (columns > 1 ? columns / 2 : 1) * (pass.end - pass.begin);
        const FetchedAhead ahead(weights(next, column),
                                 next + kCount <= task.num_groups ? task.group_bytes : 0,
                                 ahead_columns / 2 * pair_bytes(kKind), calls);
        if constexpr (kKind == FloatKind::f16 && kConvertsF16Slowly) {
          float_matmul_block<FloatKind::f32, kCount>(task, to_f32<kKind, kCount>(task, block), pass,
                                                     ahead);
        } else {
          float_matmul_block<kKind, kCount>(task, block, pass, ahead);
        }
      };
      int64_t group = 0;
      for (; group + kGroups <= task.num_groups; group += kGroups)
        multiply(Constant<kGroups>{}, group);
      for (; group < task.num_groups; ++group) multiply(Constant<1>{}, group);
    }
  }
}

/// Writes a tile of FloatMatmulTask.
inline void interleave_rows(const RowTileTask& task) {
  auto* tile = reinterpret_cast<float*>(task.tile);
  with_constant<kFloatTileRows>(task.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    for (int64_t c = 0; c < task.columns; ++c) {
      for (int r = 0; r < kRows; ++r) tile[c * kRows + r] = task.x[r * task.columns + c];
    }
  });
}

}  // namespace
}  // namespace hasten::cpu
