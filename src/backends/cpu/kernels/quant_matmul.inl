// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with int8 activations. Each output element is summed in one order,
// part after part along the columns, however many rows there are:
//   dot     = -zero_point * sum(x) + sum(code * x), in integers, exact;
//   partial = dot * scale (+ sum(x) * offset);
//   total   = total + partial * activation scale.
// The dot products start at kFloatBits: their bits are floats without a conversion, which would
// take one of the two ports that the products need.
// Few rows read the packed weights; many rows share a panel that is unpacked once.
#pragma once

#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/packed_weights.inl"

namespace hasten::cpu {
namespace {

constexpr int64_t kPanelBlocks = 16;  // 2 groups x 16 blocks of bytes = 16 KiB: a third of L1

inline int32_t load_quad(const int8_t* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return quad;
}

/// total[g][r] += weights of source g, blocks [first, first + count) of the matrix, times
/// activation row `row + r`. Block b of the matrix is block b - source_first of the sources.
template <int kGroups, int kRows, class Source>
HASTEN_INLINE inline void accumulate(const Source* sources, const QuantizedRows& x, int64_t row,
                                     int64_t first, int64_t count, int64_t source_first,
                                     F32x16 (&total)[kGroups][kRows]) {
  constexpr int kParts = Source::kParts;
  const int8_t* values[kRows];
  for (int r = 0; r < kRows; ++r) values[r] = x.values + (row + r) * x.columns;

  for (int64_t b = first; b < first + count; ++b) {
    const int64_t source_block = b - source_first;
    for (int g = 0; g < kGroups; ++g) sources[g].prefetch_block(source_block + 8);
    unroll<0, kParts>([&](auto part_index) HASTEN_INLINE {
      constexpr int kPart = decltype(part_index)::value;
      constexpr int kScale = kPart * Source::kScalesPerBlock / kParts;
      const int64_t part_at = (b * kParts + kPart) * x.num_rows + row;
      I32x16 dot[kGroups][kRows];
      for (int r = 0; r < kRows; ++r) {
        const I32x16 start = set1_i32(Source::kOffsets ? kFloatBits : x.start[part_at + r]);
        for (int g = 0; g < kGroups; ++g) dot[g][r] = start;
      }
      unroll<8 / kParts * kPart, 8 / kParts*(kPart + 1)>([&](auto index) HASTEN_INLINE {
        constexpr int kIndex = decltype(index)::value;
        U8x64 codes[kGroups];
        for (int g = 0; g < kGroups; ++g) {
          codes[g] = sources[g].template codes<kIndex>(source_block);
        }
        for (int r = 0; r < kRows; ++r) {
          const int32_t quad = load_quad(values[r] + b * kBlockColumns + 4 * kIndex);
          for (int g = 0; g < kGroups; ++g) {
            dot[g][r] = Source::kWide ? dot4_wide(dot[g][r], codes[g], quad)
                                      : dot4(dot[g][r], codes[g], quad);
          }
        }
      });
      F32x16 partial[kGroups][kRows];
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 scale = sources[g].scale(source_block, kScale);
        const F32x16 base = sources[g].base(source_block, kScale);
        for (int r = 0; r < kRows; ++r) {
          partial[g][r] = fma(as_float(dot[g][r]), scale, base);
        }
        if constexpr (Source::kOffsets) {
          const F32x16 offset = sources[g].offset(source_block, kScale);
          for (int r = 0; r < kRows; ++r) {
            partial[g][r] = fma(set1(x.sums[part_at + r]), offset, partial[g][r]);
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        const F32x16 scale = set1(x.scales[part_at + r]);
        for (int g = 0; g < kGroups; ++g) total[g][r] = fma(partial[g][r], scale, total[g][r]);
      }
    });
  }
}

/// Groups [tile, tile + kGroups) of the task, straight from the packed weights.
template <class Source, int kGroups, int kRows>
inline void quant_matmul_direct(const QuantMatmulTask& task, int64_t tile) {
  Source sources[kGroups];
  F32x16 total[kGroups][kRows];
  for (int g = 0; g < kGroups; ++g) {
    sources[g] = Source(task.groups + (tile + g) * task.layout.group_bytes, task.layout);
    for (int r = 0; r < kRows; ++r) total[g][r] = zero();
  }
  accumulate<kGroups, kRows>(sources, task.x, 0, 0, task.x.columns / kBlockColumns, 0, total);
  for (int g = 0; g < kGroups; ++g) {
    for (int r = 0; r < kRows; ++r) {
      store_output(total[g][r], task.bias, task.out + r * task.out_features,
                   (task.first_group + tile + g) * kGroupRows, task.out_features);
    }
  }
}

/// Up to kQuantDirectRows rows. Several groups at a time are several streams of memory: one alone
/// does not reach the bandwidth of a core.
template <class Source>
inline void quant_matmul_few_rows(const QuantMatmulTask& task) {
  with_constant<kQuantDirectRows>(task.x.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    int64_t tile = 0;
    for (; tile + kQuantDirectGroups <= task.num_groups; tile += kQuantDirectGroups) {
      quant_matmul_direct<Source, kQuantDirectGroups, kRows>(task, tile);
    }
    for (; tile < task.num_groups; ++tile) quant_matmul_direct<Source, 1, kRows>(task, tile);
  });
}

/// sums[r][g] += panel g times activation row `row + r`, for one register tile of rows. Not
/// inlined: all formats whose panels look alike share it.
template <class PanelType, int kRows>
__attribute__((noinline)) void multiply_panels(const PanelType* panels, const QuantizedRows& x,
                                               int64_t row, int64_t first, int64_t count,
                                               float* sums) {
  F32x16 total[kQuantGroups][kRows];
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kQuantGroups; ++g) {
      total[g][r] = load(sums + (r * kQuantGroups + g) * kGroupRows);
    }
  }
  accumulate<kQuantGroups, kRows>(panels, x, row, first, count, first, total);
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kQuantGroups; ++g) {
      store(sums + (r * kQuantGroups + g) * kGroupRows, total[g][r]);
    }
  }
}

/// Rows [row, row + num_rows) and the groups of one register tile, panel after panel.
template <class Source, class PanelType>
inline void quant_matmul_pass(const QuantMatmulTask& task, int64_t tile, int64_t row,
                              int64_t num_rows) {
  constexpr int64_t kPanelBytes = kPanelBlocks * (512 + 3 * 2 * kGroupRows * 4);
  static_assert(kQuantGroups * (kPanelBytes + kPassRows * kGroupRows * 4) <= kMatmulScratchBytes);
  const int64_t blocks = task.x.columns / kBlockColumns;
  PanelType panels[kQuantGroups];
  for (int g = 0; g < kQuantGroups; ++g) {
    panels[g].code_bytes = task.scratch + g * kPanelBytes;
    panels[g].scales = reinterpret_cast<float*>(panels[g].code_bytes + kPanelBlocks * 512);
    panels[g].bases = panels[g].scales + kPanelBlocks * 2 * kGroupRows;
    panels[g].offsets = panels[g].bases + kPanelBlocks * 2 * kGroupRows;
  }
  // [num_rows][kQuantGroups][16]
  auto* sums = reinterpret_cast<float*>(task.scratch + kQuantGroups * kPanelBytes);
  constexpr int64_t kRowSums = kQuantGroups * kGroupRows;
  for (int64_t i = 0; i < num_rows * kRowSums; i += kGroupRows) store(sums + i, zero());

  for (int64_t first = 0; first < blocks; first += kPanelBlocks) {
    const int64_t count = blocks - first < kPanelBlocks ? blocks - first : kPanelBlocks;
    for (int g = 0; g < kQuantGroups; ++g) {
      // The last tile may have groups too few; it repeats its last one and does not store it.
      const int64_t group = tile + g < task.num_groups ? tile + g : task.num_groups - 1;
      unpack(Source(task.groups + group * task.layout.group_bytes, task.layout), first, count,
             panels[g]);
    }
    for (int64_t r = 0; r < num_rows; r += kQuantRows) {
      with_constant<kQuantRows>(num_rows - r, [&](auto rows) {
        multiply_panels<PanelType, decltype(rows)::value>(panels, task.x, row + r, first, count,
                                                          sums + r * kRowSums);
      });
    }
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int g = 0; g < kQuantGroups && tile + g < task.num_groups; ++g) {
      store_output(load(sums + r * kRowSums + g * kGroupRows), task.bias,
                   task.out + (row + r) * task.out_features,
                   (task.first_group + tile + g) * kGroupRows, task.out_features);
    }
  }
}

template <const PackedFormat& kFormat>
inline void quant_matmul(const QuantMatmulTask& task) {
  using Source = PackedGroup<kFormat>;
  using PanelType = Panel<Source::kScalesPerBlock, Source::kParts, Source::kOffsets,
                          Source::kWide && kWideDotDiffers>;
  if (task.x.num_rows <= kQuantDirectRows) return quant_matmul_few_rows<Source>(task);
  for (int64_t row = 0; row < task.x.num_rows; row += kPassRows) {
    const int64_t left = task.x.num_rows - row;
    for (int64_t tile = 0; tile < task.num_groups; tile += kQuantGroups) {
      quant_matmul_pass<Source, PanelType>(task, tile, row, left < kPassRows ? left : kPassRows);
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
