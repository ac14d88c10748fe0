// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights with activations that are rounded to bf16, two columns to an
// instruction: twice the rate of float_matmul.inl, for half a unit in the last of bf16's eight
// bits. Each output element is one chain along the pairs of columns, however many rows there are.
// Behind a simd header with dot_bf16.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr int64_t kPairBytes = 4 * kGroupRows;  // of one group
constexpr int kPairRows = 12;                   // of a tile, at most
// Groups of a tile of so many rows. The sums fill the registers; one group of 24 rows would, too,
// but each product then reads its activations again, and that takes all that a core of Zen 5 loads.
constexpr int kPairGroups = 2;

/// Groups of weights at a time, of a single tile: as many as registers hold the sums of, for
/// processors on which one stream of memory alone does not reach the bandwidth of a core.
constexpr int direct_pair_groups(int rows) { return rows <= kPairRows / 2 ? 4 : kPairGroups; }

/// Groups begin_group + g * stride of the task times the tile of rows from first_row on, all
/// columns at once. Calls before_pair(i) before pair of columns i.
template <int kGroups, int kRows, class F>
HASTEN_INLINE inline void bf16_matmul_tile(const Bf16MatmulTask& task, int64_t begin_group,
                                           int64_t stride, int64_t first_row, F&& before_pair) {
  const uint8_t* groups = task.groups + begin_group * task.group_bytes;
  const int64_t stride_bytes = stride * task.group_bytes;
  const uint8_t* x = task.tiles + first_row * bf16_row_bytes(task.columns);
  F32x16 total[kGroups][kRows];
  unroll<0, kGroups * kRows>([&](auto index) HASTEN_INLINE {
    constexpr int kIndex = decltype(index)::value;
    total[kIndex % kGroups][kIndex / kGroups] = zero();
  });
  const int64_t pairs = (task.columns + 1) / 2;
  for (int64_t i = 0; i < pairs; ++i, x += 4 * kRows) {
    before_pair(i);
    U8x64 weights[kGroups];
    for (int g = 0; g < kGroups; ++g)
      weights[g] = load_codes(groups + g * stride_bytes + i * kPairBytes);
    unroll<0, kRows>([&](auto row) HASTEN_INLINE {
      constexpr int kRow = decltype(row)::value;
      const I32x16 pair = set1_i32(load_scalar<int32_t>(x + 4 * kRow));
      for (int g = 0; g < kGroups; ++g) total[g][kRow] = dot_bf16(total[g][kRow], weights[g], pair);
    });
  }
  unroll<0, kGroups * kRows>([&](auto index) HASTEN_INLINE {
    constexpr int kGroup = decltype(index)::value % kGroups;
    constexpr int kRow = decltype(index)::value / kGroups;
    store_output(total[kGroup][kRow], task.out, first_row + kRow, begin_group + kGroup * stride);
  });
}

/// Of a single tile; with kInOrder, as WeightStreams::in_order has it.
template <int kGroups, int kRows, bool kInOrder = false>
inline void bf16_matmul_direct(const Bf16MatmulTask& task, int64_t begin_group, int64_t stride) {
  // Bytes, of each stream; measured.
  constexpr int64_t kAhead = kGroups > 1 ? 1024 : kRows > kOneStreamRows ? 2048 : 8192;
  // And into the second-level cache, as quant_matmul_direct() asks.
  constexpr int64_t kFarAhead = 4096;
  const bool asks_far = kGroups > 1 && task.streams == WeightStreams::several;
  const uint8_t* groups = task.groups + begin_group * task.group_bytes;
  bf16_matmul_tile<kGroups, kRows>(task, begin_group, stride, 0, [&](int64_t i) HASTEN_INLINE {
    if constexpr (!kInOrder) {
      const uint8_t* at = groups + i * kPairBytes;
      const int64_t stride_bytes = stride * task.group_bytes;
      for (int g = 0; g < kGroups; ++g) prefetch(at + kAhead + g * stride_bytes);
      for (int g = 0; asks_far && g < kGroups; ++g) {
        prefetch_far(at + kFarAhead + g * stride_bytes);
      }
    }
  });
}

/// Up to kPairRows rows, which are one tile. Each of several streams of memory is a part of the
/// groups, one behind the other.
inline void bf16_matmul_few_rows(const Bf16MatmulTask& task) {
  with_constant<kPairRows>(task.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    constexpr int kGroups = direct_pair_groups(kRows);
    int64_t group = 0;
    if constexpr (kRows <= kOneStreamRows) {
      if (task.streams == WeightStreams::in_order) {
        for (; group < task.num_groups; ++group) {
          bf16_matmul_direct<1, kRows, true>(task, group, 0);
        }
        return;
      }
    }
    if (task.streams == WeightStreams::several || kRows > kOneStreamRows) {
      const int64_t stride = task.num_groups / kGroups;
      for (; group < stride; ++group) bf16_matmul_direct<kGroups, kRows>(task, group, stride);
      group = stride * kGroups;
    }
    for (; group < task.num_groups; ++group) bf16_matmul_direct<1, kRows>(task, group, 0);
  });
}

/// Groups begin_group to begin_group + kGroups of the task times the tiles [first, end), while what
/// lies behind them comes from memory.
template <int kGroups>
inline void bf16_matmul_groups(const Bf16MatmulTask& task, int64_t begin_group,
                               const RowTiles& tiles, int64_t first, int64_t end) {
  const int64_t pairs = (task.columns + 1) / 2;
  const int64_t bytes = kGroups * task.group_bytes;
  const uint8_t* ahead = task.groups + begin_group * task.group_bytes + bytes;
  if (begin_group + kGroups >= task.num_groups) {
    if (end < tiles.count)
      ahead = task.groups;
    else if (task.next_groups != nullptr)
      ahead = task.next_groups;
  }
  const int64_t step = bytes / (pairs * (end - first));
  for (int64_t t = first; t < end; ++t) {
    const int64_t row = tiles.first_row(t);
    with_constant<kPairRows>(tiles.first_row(t + 1) - row, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      for (int r = 0; r < kRows; ++r) {
        for (int g = 0; g < kGroups; ++g) prefetch_output(task.out, row + r, begin_group + g);
      }
      bf16_matmul_tile<kGroups, kRows>(task, begin_group, 1, row, [&](int64_t) HASTEN_INLINE {
        prefetch_far(ahead);
        ahead += step;
      });
    });
  }
}

/// Of many rows all tiles of a pass meet some groups before the next ones: their weights come from
/// memory once, and from the second-level cache for all tiles but the first.
inline void bf16_matmul(const Bf16MatmulTask& task) {
  if (task.num_rows <= kPairRows) return bf16_matmul_few_rows(task);
  const auto tiles = RowTiles::of(task.num_rows, kPairRows, kPairRows);
  const int64_t most = task.pass_rows / kPairRows;
  const int64_t passes = (tiles.count + most - 1) / most;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = pass * tiles.count / passes;
    const int64_t end = (pass + 1) * tiles.count / passes;
    int64_t group = 0;
    for (; group + kPairGroups <= task.num_groups; group += kPairGroups) {
      bf16_matmul_groups<kPairGroups>(task, group, tiles, first, end);
    }
    for (; group < task.num_groups; ++group) bf16_matmul_groups<1>(task, group, tiles, first, end);
  }
}

/// Sixteen pairs of columns from pair i on, rounded to nearest even; what lies beyond is zero, and
/// an odd last column has a pair with zero.
inline I32x16 round_pairs(const float* x, int64_t columns, int64_t i) {
  const float* at = x + 2 * i;
  const int64_t left = columns - 2 * i;
  if (left >= 2 * kGroupRows) return round_bf16(load(at), load(at + kGroupRows));
  const int64_t first = left < kGroupRows ? left : kGroupRows;
  return round_bf16(load_first(at, first),
                    left > first ? load_first(at + kGroupRows, left - first) : zero());
}

/// Rounds the rows of a tile, sixteen rows and sixteen pairs of columns at a time.
inline void round_bf16_tile(const RowTileTask& task) {
  const int64_t pairs = (task.columns + 1) / 2;
  for (int64_t first_row = 0; first_row < task.num_rows; first_row += kGroupRows) {
    const int64_t left_rows = task.num_rows - first_row;
    const int64_t num_rows = left_rows < kGroupRows ? left_rows : kGroupRows;
    for (int64_t i = 0; i < pairs; i += kGroupRows) {
      I32x16 rounded[kGroupRows];  // [rows][pairs], then [pairs][rows]
      for (int64_t r = 0; r < kGroupRows; ++r) {
        rounded[r] = r < num_rows
                         ? round_pairs(task.x + (first_row + r) * task.columns, task.columns, i)
                         : zero_i32();
      }
      transpose(rounded);
      const int64_t count = pairs - i < kGroupRows ? pairs - i : kGroupRows;
      auto* to = reinterpret_cast<float*>(task.tile) + i * task.num_rows + first_row;
      for (int64_t k = 0; k < count; ++k, to += task.num_rows) {
        store_first_pairs(to, rounded[k], num_rows);
      }
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
