// SPDX-License-Identifier: Apache-2.0
// Products of f32, f16 and bf16 weights with f32 activations: each output element is one chain of
// fused multiply-adds along the columns, however many rows there are.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr int64_t kFloatPanelColumns = 128;  // 4 groups x 128 x 64 bytes = 32 KiB
constexpr int64_t kFloatDirectRows = 12;     // up to here, converting twice is cheaper than a panel

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

/// total[g][r] += columns [0, columns) of group g times x[r]. A column behind an odd last one is
/// not read from x.
template <FloatKind kKind, int kGroups, int kRows>
HASTEN_INLINE inline void accumulate_floats(const uint8_t* groups, int64_t group_bytes,
                                            const float* x, int64_t x_stride, int64_t columns,
                                            F32x16 (&total)[kGroups][kRows]) {
  const float* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = x + r * x_stride;
  const auto multiply = [&](const F32x16(&weights)[kGroups], int64_t column) HASTEN_INLINE {
    for (int r = 0; r < kRows; ++r) {
      const F32x16 value = set1(rows[r][column]);
      for (int g = 0; g < kGroups; ++g) total[g][r] = fma(weights[g], value, total[g][r]);
    }
  };
  F32x16 weights[kGroups];
  for (int64_t pair = 0; pair < columns / 2; ++pair) {
    for (int g = 0; g < kGroups; ++g) {
      prefetch(groups + g * group_bytes + pair * pair_bytes(kKind) + 1024);
      weights[g] = load_even<kKind>(groups + g * group_bytes, pair);
    }
    multiply(weights, 2 * pair);
    for (int g = 0; g < kGroups; ++g) {
      weights[g] = load_odd<kKind>(groups + g * group_bytes, pair);
    }
    multiply(weights, 2 * pair + 1);
  }
  if (columns % 2 != 0) {
    for (int g = 0; g < kGroups; ++g) {
      weights[g] = load_even<kKind>(groups + g * group_bytes, columns / 2);
    }
    multiply(weights, columns - 1);
  }
}

/// Groups [tile, tile + kGroups) of the task, rows [row, row + num_rows), straight from the
/// weights.
template <FloatKind kKind, int kGroups>
inline void float_matmul_direct(const FloatMatmulTask& task, int64_t tile, int64_t row,
                                int64_t num_rows) {
  for (int64_t r = 0; r < num_rows; r += kFloatDirectTileRows) {
    with_constant<kFloatDirectTileRows>(num_rows - r, [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      constexpr int kMost = float_direct_groups(kRows);
      constexpr int kTile = kGroups < kMost ? kGroups : kMost;
      static_assert(kGroups % kTile == 0);
      for (int64_t first = tile; first < tile + kGroups; first += kTile) {
        F32x16 total[kTile][kRows];
        for (int g = 0; g < kTile; ++g) {
          for (int i = 0; i < kRows; ++i) total[g][i] = zero();
        }
        accumulate_floats<kKind, kTile, kRows>(task.groups + first * task.group_bytes,
                                               task.group_bytes, task.x + (row + r) * task.columns,
                                               task.columns, task.columns, total);
        for (int i = 0; i < kRows; ++i) {
          for (int g = 0; g < kTile; ++g) {
            store_output(total[g][i], task.bias, task.out + (row + r + i) * task.out_features,
                         (task.first_group + first + g) * kGroupRows, task.out_features);
          }
        }
      }
    });
  }
}

/// sums[r][g] += panel g times x[r], for one register tile of rows. Not inlined: f16 and bf16 share
/// it.
template <int kGroups, int kRows>
__attribute__((noinline)) void multiply_float_panels(const uint8_t* panels, int64_t panel_bytes,
                                                     const float* x, int64_t x_stride,
                                                     int64_t columns, float* sums) {
  F32x16 total[kGroups][kRows];
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kGroups; ++g) {
      total[g][r] = load(sums + (r * kGroups + g) * kGroupRows);
    }
  }
  accumulate_floats<FloatKind::f32, kGroups, kRows>(panels, panel_bytes, x, x_stride, columns,
                                                    total);
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kGroups; ++g) {
      store(sums + (r * kGroups + g) * kGroupRows, total[g][r]);
    }
  }
}

/// As float_matmul_direct, from panels that are converted to f32 once for all rows of the pass.
template <FloatKind kKind>
inline void float_matmul_pass(const FloatMatmulTask& task, int64_t tile, int64_t row,
                              int64_t num_rows) {
  constexpr int kGroups = kFloatGroups;
  constexpr int64_t kPanelBytes = kFloatPanelColumns * kGroupRows * 4;
  static_assert(kGroups * (kPanelBytes + kPassRows * kGroupRows * 4) <= kMatmulScratchBytes);
  // [num_rows][kGroups][16]
  auto* sums = reinterpret_cast<float*>(task.scratch + kGroups * kPanelBytes);
  constexpr int64_t kRowSums = kGroups * kGroupRows;
  for (int64_t i = 0; i < num_rows * kRowSums; i += kGroupRows) store(sums + i, zero());

  for (int64_t first = 0; first < task.columns; first += kFloatPanelColumns) {
    const int64_t left = task.columns - first;
    const int64_t columns = left < kFloatPanelColumns ? left : kFloatPanelColumns;
    for (int g = 0; g < kGroups; ++g) {
      const uint8_t* group =
          task.groups + (tile + g) * task.group_bytes + first / 2 * pair_bytes(kKind);
      auto* to = reinterpret_cast<float*>(task.scratch + g * kPanelBytes);
      for (int64_t pair = 0; pair < (columns + 1) / 2; ++pair) {
        store(to + pair * 32, load_even<kKind>(group, pair));
        if (2 * pair + 1 < columns) store(to + pair * 32 + 16, load_odd<kKind>(group, pair));
      }
    }
    for (int64_t r = 0; r < num_rows; r += kFloatRows) {
      with_constant<kFloatRows>(num_rows - r, [&](auto rows) {
        multiply_float_panels<kGroups, decltype(rows)::value>(
            task.scratch, kPanelBytes, task.x + (row + r) * task.columns + first, task.columns,
            columns, sums + r * kRowSums);
      });
    }
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int g = 0; g < kGroups; ++g) {
      store_output(load(sums + r * kRowSums + g * kGroupRows), task.bias,
                   task.out + (row + r) * task.out_features,
                   (task.first_group + tile + g) * kGroupRows, task.out_features);
    }
  }
}

template <FloatKind kKind>
inline void float_matmul(const FloatMatmulTask& task) {
  for (int64_t row = 0; row < task.num_rows; row += kPassRows) {
    const int64_t left = task.num_rows - row;
    const int64_t num_rows = left < kPassRows ? left : kPassRows;
    int64_t tile = 0;
    // Not of f32: one chain of sums is too slow for its lines, which make one product each.
    const bool alone = kKind != FloatKind::f32 && task.one_stream && num_rows <= kOneStreamRows;
    for (; !alone && tile + kFloatGroups <= task.num_groups; tile += kFloatGroups) {
      if (kKind == FloatKind::f32 || num_rows <= kFloatDirectRows) {
        float_matmul_direct<kKind, kFloatGroups>(task, tile, row, num_rows);
      } else if constexpr (kKind != FloatKind::f32) {
        float_matmul_pass<kKind>(task, tile, row, num_rows);
      }
    }
    for (; tile < task.num_groups; ++tile) float_matmul_direct<kKind, 1>(task, tile, row, num_rows);
  }
}

}  // namespace
}  // namespace hasten::cpu
