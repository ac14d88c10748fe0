// SPDX-License-Identifier: Apache-2.0
// Products of f32, f16 and bf16 weights with f32 activations: each output element is one chain of
// fused multiply-adds along the columns, however many rows there are.
#pragma once

#include "backends/cpu/kernel_table.h"
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

/// Columns [begin, end) of a product. `begin` is even, and `end`, too, but for that of all columns.
struct ColumnRange {
  int64_t begin;
  int64_t end;
};

/// Groups [group, group + kGroups) of the task times the tile of rows from first_row on. Sums of
/// the columns before these lie where the outputs will. Calls before_pair(i) before pair of columns
/// i.
template <FloatKind kKind, int kGroups, int kRows, class F>
HASTEN_INLINE inline void float_matmul_tile(const FloatMatmulTask& task, int64_t group,
                                            int64_t first_row, ColumnRange range, F&& before_pair) {
  const uint8_t* groups = task.groups + group * task.group_bytes;
  const float* x = task.tiles + first_row * task.columns + range.begin * kRows;
  const auto out_row = [&](int row) { return task.out + (first_row + row) * task.out_features; };
  const auto feature = [&](int g) { return (task.first_group + group + g) * kGroupRows; };
  F32x16 total[kGroups][kRows];
  unroll_tile<kRows, kGroups>([&](auto row, auto g) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(g)::value;
    total[kGroup][kRow] =
        range.begin == 0 ? zero() : load_output(out_row(kRow), feature(kGroup), task.out_features);
  });
  F32x16 weights[kGroups];
  const auto multiply = [&](const float* column) HASTEN_INLINE {
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      constexpr int kRow = decltype(row)::value;
      const F32x16 value = set1(column[kRow]);
      unroll<0, kGroups>([&](auto g) HASTEN_INLINE {
        constexpr int kGroup = decltype(g)::value;
        accumulate(total[kGroup][kRow], weights[kGroup], value);
      });
    });
  };
  int64_t pair = range.begin / 2;
  for (; pair < range.end / 2; ++pair, x += 2 * kRows) {
    before_pair(pair);
    for (int g = 0; g < kGroups; ++g)
      weights[g] = load_even<kKind>(groups + g * task.group_bytes, pair);
    multiply(x);
    for (int g = 0; g < kGroups; ++g)
      weights[g] = load_odd<kKind>(groups + g * task.group_bytes, pair);
    multiply(x + kRows);
  }
  if (range.end % 2 != 0) {
    for (int g = 0; g < kGroups; ++g)
      weights[g] = load_even<kKind>(groups + g * task.group_bytes, pair);
    multiply(x);
  }
  const float* bias = range.end == task.columns ? task.bias : nullptr;
  unroll_tile<kRows, kGroups>([&](auto row, auto g) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(g)::value;
    store_output(total[kGroup][kRow], bias, out_row(kRow), feature(kGroup), task.out_features);
  });
}

/// Of a single tile.
template <FloatKind kKind, int kGroups, int kRows>
inline void float_matmul_direct(const FloatMatmulTask& task, int64_t group) {
  constexpr int64_t kAhead = 1024;  // bytes, of each stream; measured
  const uint8_t* ahead = task.groups + group * task.group_bytes + kAhead;
  float_matmul_tile<kKind, kGroups, kRows>(
      task, group, 0, {0, task.columns}, [&](int64_t pair) HASTEN_INLINE {
        for (int g = 0; g < kGroups; ++g)
          prefetch(ahead + g * task.group_bytes + pair * pair_bytes(kKind));
      });
}

/// Rows that are one tile: their weights come straight from memory.
template <FloatKind kKind>
inline void float_matmul_few_rows(const FloatMatmulTask& task) {
  with_constant<kFloatTileRows>(task.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    constexpr int kGroups = float_groups(kRows);
    // Not of f32: one chain of sums is too slow for its lines, which make one product each.
    const bool alone = kKind != FloatKind::f32 && task.one_stream && kRows <= kOneStreamRows;
    int64_t group = 0;
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

/// Tiles of a pass.
struct TileRange {
  int64_t begin;
  int64_t end;
};

/// Groups [group, group + kGroups) of the task times some tiles, in some of the columns. Groups
/// from `next` on are what is multiplied afterwards, in columns from next_column on.
template <FloatKind kKind, int kGroups>
inline void float_matmul_block(const FloatMatmulTask& task, const RowTiles& tiles, TileRange pass,
                               int64_t group, ColumnRange range, int64_t next,
                               int64_t next_column) {
  const int64_t pairs = (range.end - range.begin) / 2;
  const int64_t left = task.columns - next_column;
  const int64_t columns = left < kFloatBlockColumns ? left : kFloatBlockColumns;
  FetchedAhead ahead(task.groups + next * task.group_bytes + next_column / 2 * pair_bytes(kKind),
                     next + kGroups <= task.num_groups ? task.group_bytes : 0,
                     columns / 2 * pair_bytes(kKind),
                     (pairs > 0 ? pairs : 1) * (pass.end - pass.begin));
  for (int64_t t = pass.begin; t < pass.end; ++t) {
    const int64_t row = tiles.first_row(t);
    with_constant<kFloatTileRows>(tiles.first_row(t + 1) - row, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      static_assert(kGroups <= float_groups(kRows));
      FetchedAhead in_tile = ahead;
      float_matmul_tile<kKind, kGroups, kRows>(
          task, group, row, range, [&](int64_t) HASTEN_INLINE { in_tile.next<kGroups>(); });
      ahead = in_tile;
    });
  }
}

/// Of many rows all tiles of a pass meet some columns of one group after the other: the activations
/// stay in the second-level cache, and the weights in the first while they are multiplied.
template <FloatKind kKind>
inline void float_matmul(const FloatMatmulTask& task) {
  if (task.num_rows <= kFloatTileRows) return float_matmul_few_rows<kKind>(task);
  constexpr int kGroups = float_groups(kFloatTileRows);
  const auto tiles = RowTiles::of(task.num_rows, kFloatTileRows, kFloatTileRows);
  const int64_t most = task.pass_rows / kFloatTileRows;
  const int64_t passes = (tiles.count + most - 1) / most;
  for (int64_t p = 0; p < passes; ++p) {
    const TileRange pass{p * tiles.count / passes, (p + 1) * tiles.count / passes};
    for (int64_t begin = 0; begin < task.columns; begin += kFloatBlockColumns) {
      const int64_t after = begin + kFloatBlockColumns;
      const ColumnRange range{begin, after < task.columns ? after : task.columns};
      const auto multiply = [&](auto groups, int64_t group) {
        constexpr int kCount = decltype(groups)::value;
        const bool is_last = group + kCount == task.num_groups;
        const int64_t next = is_last ? 0 : group + kCount;
        const int64_t next_column = !is_last ? begin : range.end < task.columns ? range.end : 0;
        float_matmul_block<kKind, kCount>(task, tiles, pass, group, range, next, next_column);
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
