// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights with activations that are rounded to bf16, two columns to an
// instruction: twice the rate of float_matmul.inl, for half a unit in the last of bf16's eight
// bits. Each output element is one chain along the pairs of columns, however many rows there are.
// Behind a simd header with dot_bf16.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/prefetcher.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr int64_t kPairBytes = 4 * kGroupRows;  // of one group
constexpr int64_t kPanelPairs = 64;             // of 4 groups: 16 KiB, half of a small L1
constexpr int kPairGroups = 4;                  // 4 x 6 accumulators
constexpr int kPairRows = 6;
constexpr int kPairDirectRows = 12;  // rows of which the sums of two groups stay in registers

/// total[g][r] += `count` pairs of columns of group g times row r of a tile of activations, whose
/// matching pairs begin at x. Calls before_pair(i) before pair i.
template <int kGroups, int kRows, class F>
HASTEN_INLINE inline void accumulate_pairs(const uint8_t* groups, int64_t group_bytes,
                                           const uint8_t* x, int64_t count,
                                           F32x16 (&total)[kGroups][kRows], F&& before_pair) {
  for (int64_t i = 0; i < count; ++i, x += 4 * kRows) {
    before_pair(i);
    U8x64 weights[kGroups];
    for (int g = 0; g < kGroups; ++g)
      weights[g] = load_codes(groups + g * group_bytes + i * kPairBytes);
    for (int r = 0; r < kRows; ++r) {
      const I32x16 pair = set1_i32(load_scalar<int32_t>(x + 4 * r));
      for (int g = 0; g < kGroups; ++g) total[g][r] = dot_bf16(total[g][r], weights[g], pair);
    }
  }
}

/// Groups [begin_group, begin_group + kGroups) of the task times the tile of rows from first_row
/// on, all columns at once.
template <int kGroups, int kRows>
inline void bf16_matmul_direct(const Bf16MatmulTask& task, int64_t begin_group, int64_t first_row) {
  const uint8_t* groups = task.groups + begin_group * task.group_bytes;
  F32x16 total[kGroups][kRows];
  for (int g = 0; g < kGroups; ++g) {
    for (int r = 0; r < kRows; ++r) total[g][r] = zero();
  }
  accumulate_pairs<kGroups, kRows>(
      groups, task.group_bytes, task.tiles + first_row * bf16_row_bytes(task.columns),
      (task.columns + 1) / 2, total, [&](int64_t i) HASTEN_INLINE {
        for (int g = 0; g < kGroups; ++g)
          prefetch(groups + g * task.group_bytes + i * kPairBytes + 1024);
      });
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kGroups; ++g) {
      store_output(total[g][r], task.bias, task.out + (first_row + r) * task.out_features,
                   (task.first_group + begin_group + g) * kGroupRows, task.out_features);
    }
  }
}

/// sums[r][g] += `count` pairs of columns of group g times row r of a tile of activations.
template <int kRows>
__attribute__((noinline)) void multiply_pairs(const uint8_t* groups, int64_t group_bytes,
                                              const uint8_t* x, int64_t count,
                                              Prefetcher& prefetcher, float* sums) {
  F32x16 total[kPairGroups][kRows];
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kPairGroups; ++g)
      total[g][r] = load(sums + (r * kPairGroups + g) * kGroupRows);
  }
  accumulate_pairs<kPairGroups, kRows>(groups, group_bytes, x, count, total,
                                       [&](int64_t) HASTEN_INLINE { prefetcher.next(); });
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kPairGroups; ++g)
      store(sums + (r * kPairGroups + g) * kGroupRows, total[g][r]);
  }
}

/// kPairGroups groups times the tiles [first_tile, end_tile): panel after panel of columns, which
/// stays in the first-level cache while all rows pass.
inline void bf16_matmul_pass(const Bf16MatmulTask& task, int64_t begin_group, const RowTiles& tiles,
                             int64_t first_tile, int64_t end_tile) {
  static_assert(kPairGroups * kPassRows * kGroupRows * 4 <= kMatmulScratchBytes);
  constexpr int64_t kRowSums = kPairGroups * kGroupRows;
  const int64_t pairs = (task.columns + 1) / 2;
  const int64_t first_row = tiles.first_row(first_tile);
  const int64_t end_row = tiles.first_row(end_tile);
  const uint8_t* groups = task.groups + begin_group * task.group_bytes;
  const bool is_last = begin_group + 2 * kPairGroups > task.num_groups;
  auto* sums = reinterpret_cast<float*>(task.scratch);  // [end_row - first_row][kPairGroups][16]
  for (int64_t i = 0; i < (end_row - first_row) * kRowSums; i += kGroupRows) {
    store(sums + i, zero());
  }

  for (int64_t first = 0; first < pairs; first += kPanelPairs) {
    const int64_t left = pairs - first;
    const int64_t count = left < kPanelPairs ? left : kPanelPairs;
    Prefetcher prefetcher;
    const int64_t later = left - count < kPanelPairs ? left - count : kPanelPairs;
    for (int g = 0; g < kPairGroups; ++g) {
      const uint8_t* group = groups + g * task.group_bytes;
      if (later > 0) {
        prefetcher.add(group + (first + count) * kPairBytes, later * kPairBytes);
      } else if (!is_last) {
        const int64_t begun = pairs < kPanelPairs ? pairs : kPanelPairs;
        prefetcher.add(group + kPairGroups * task.group_bytes, begun * kPairBytes);
      }
    }
    prefetcher.spread((end_tile - first_tile) * count);
    for (int64_t t = first_tile; t < end_tile; ++t) {
      const int64_t row = tiles.first_row(t);
      with_constant<kPairRows>(tiles.first_row(t + 1) - row, [&](auto rows) {
        constexpr int kRows = decltype(rows)::value;
        multiply_pairs<kRows>(groups + first * kPairBytes, task.group_bytes,
                              task.tiles + row * bf16_row_bytes(task.columns) + first * 4 * kRows,
                              count, prefetcher, sums + (row - first_row) * kRowSums);
      });
    }
  }
  for (int64_t row = first_row; row < end_row; ++row) {
    for (int64_t g = 0; g < kPairGroups; ++g) {
      store_output(load(sums + (row - first_row) * kRowSums + g * kGroupRows), task.bias,
                   task.out + row * task.out_features,
                   (task.first_group + begin_group + g) * kGroupRows, task.out_features);
    }
  }
}

inline void bf16_matmul(const Bf16MatmulTask& task) {
  const auto tiles = RowTiles::of(task.num_rows, kPairDirectRows, kPairRows);
  int64_t group = 0;
  if (tiles.count == 1) {
    with_constant<kPairDirectRows>(task.num_rows, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      constexpr int kGroups = kRows <= kPairRows ? kPairGroups : 2;
      for (; group + kGroups <= task.num_groups; group += kGroups)
        bf16_matmul_direct<kGroups, kRows>(task, group, 0);
      for (; group < task.num_groups; ++group) bf16_matmul_direct<1, kRows>(task, group, 0);
    });
    return;
  }
  const int64_t most = task.pass_rows / kPairRows;
  const int64_t passes = (tiles.count + most - 1) / most;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = pass * tiles.count / passes;
    const int64_t end = (pass + 1) * tiles.count / passes;
    for (group = 0; group + kPairGroups <= task.num_groups; group += kPairGroups)
      bf16_matmul_pass(task, group, tiles, first, end);
    for (; group < task.num_groups; ++group) {
      for (int64_t t = first; t < end; ++t) {
        const int64_t row = tiles.first_row(t);
        with_constant<kPairRows>(tiles.first_row(t + 1) - row, [&](auto rows) {
          bf16_matmul_direct<1, decltype(rows)::value>(task, group, row);
        });
      }
    }
  }
}

/// Rounds the rows of a tile, to nearest even; an odd last column becomes a pair with zero.
inline void round_bf16_tile(const RoundBf16Task& task) {
  const int64_t pairs = (task.columns + 1) / 2;
  for (int64_t r = 0; r < task.num_rows; ++r) {
    const float* x = task.x + r * task.columns;
    for (int64_t i = 0; i < pairs; i += kGroupRows) {
      const int64_t left = task.columns - 2 * i;
      const I32x16 rounded =
          left >= 2 * kGroupRows
              ? round_bf16(load(x + 2 * i), load(x + 2 * i + kGroupRows))
              : round_bf16(load_first(x + 2 * i, left < kGroupRows ? left : kGroupRows),
                           left > kGroupRows ? load_first(x + 2 * i + kGroupRows, left - kGroupRows)
                                             : zero());
      int32_t lanes[kGroupRows];
      store_codes(reinterpret_cast<uint8_t*>(lanes), rounded);
      const int64_t count = pairs - i < kGroupRows ? pairs - i : kGroupRows;
      uint8_t* to = task.tile + 4 * (i * task.num_rows + r);
      for (int64_t k = 0; k < count; ++k, to += 4 * task.num_rows)
        __builtin_memcpy(to, &lanes[k], sizeof lanes[k]);
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
