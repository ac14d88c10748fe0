// SPDX-License-Identifier: Apache-2.0
// Products stay within the weights and activations that they are given.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/guarded_bytes_test.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/own_kernels_test.h"

namespace hasten::cpu {
namespace {

class QuantizedBoundsTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

/// Products of zeros, of weights and activations that end where their pages do.
void expect_nothing_read_behind(const KernelTable& kernels, int kind, int64_t columns, bool divided,
                                uint8_t* scratch) {
  const PackedFormat& format = kPackedFormats[kind];
  const int64_t group_bytes = unit_layout(format).group_bytes(columns);
  const int64_t value_bytes = is_wide(format) ? kernels.wide_value_bytes : 1;
  // Two groups, or three, are multiplied side by side: of an odd number the last is alone.
  for (const int64_t num_groups : {1, 2, 3, 4, 5}) {
    const GuardedBytes groups(num_groups * group_bytes);
    for (int64_t rows = 1; rows <= 17; ++rows) {
      const GuardedBytes x(activation_bytes(
          rows, activation_blocks(columns, format), format.scales_per_block, value_bytes,
          span_blocks(format), activation_span_bytes(scale_kind(format))));
      const auto tiles = RowTiles::of(rows, kernels.quant_direct_rows, kernels.quant_tile_rows);
      const bool many = rows > kernels.quant_direct_rows;
      for (const auto streams :
           {WeightStreams::several, WeightStreams::one, WeightStreams::in_order}) {
        if (streams == WeightStreams::in_order && !kernels.reads_in_order) continue;
        std::vector<float> out(static_cast<size_t>(rows * num_groups * kGroupRows), 1.0F);
        kernels.quant_matmul[kind](
            {.groups = {.matrix = groups.data(), .matrix_groups = num_groups, .divided = divided},
             .num_groups = num_groups,
             .next_groups = {},
             .x = {.tiles = x.data(), .num_rows = rows, .columns = columns},
             .first_tile = 0,
             .end_tile = tiles.count,
             .streams = streams,
             .keeps_low_nibbles = streams == WeightStreams::several,  // matters to many rows
             .short_panels = streams == WeightStreams::one,           // likewise
             .out = {.data = out.data(),
                     .stride = num_groups * kGroupRows,
                     .columns = num_groups * kGroupRows,
                     .bias = nullptr},
             .scratch = scratch});
        EXPECT_TRUE(std::ranges::all_of(out, [](float v) { return v == 0.0F; }))
            << "kind " << kind << ", " << columns << (divided ? " divided" : "") << " columns, "
            << num_groups << " groups, " << rows << " rows, streams " << static_cast<int>(streams);
        // Streams matter to few rows only; of many the second turn has other panels.
        if (rows > kOneStreamRows && (!many || streams == WeightStreams::one)) break;
      }
    }
  }
}

TEST_P(QuantizedBoundsTest, NothingIsReadBehindTheLastGroup) {
  std::vector<uint8_t> scratch(kMatmulScratchBytes + 64);
  uint8_t* aligned = scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
  for (int kind = 0; kind < kNumPackedKinds; ++kind) {
    // Whole units, one and a half of iq4_xs, a block that has no other for a pair; and of rows that
    // are divided, all but a part of the second strip.
    for (const int64_t columns : {512, 768, 96, 1280, 1056}) {
      if (kPackedFormats[kind].super_scales && columns % 256 != 0) continue;
      expect_nothing_read_behind(kernels(), kind, columns, false, aligned);
      if (kernels().reads_in_order && has_integer_scales(kPackedFormats[kind])) {
        expect_nothing_read_behind(kernels(), kind, columns, true, aligned);
      }
    }
  }
}

/// Likewise of weights of bf16, whose activations are rounded; outputs end with their page, too.
void expect_nothing_of_bf16_behind(const KernelTable& kernels, int64_t columns, uint8_t* scratch) {
  const int64_t group_bytes = (columns + 1) / 2 * 4 * kGroupRows;
  for (const int64_t num_groups : {1, 2, 3, 4, 5}) {
    const GuardedBytes groups(num_groups * group_bytes);
    for (const int64_t rows : {1, 2, 12, 13, 15, 16, 17, 31, 33, 47}) {
      const GuardedBytes tiles(rows * bf16_row_bytes(columns));
      for (const auto streams : {WeightStreams::several, WeightStreams::one}) {
        const int64_t num_outputs = rows * num_groups * kGroupRows;
        const GuardedBytes outputs(num_outputs * static_cast<int64_t>(sizeof(float)));
        const std::span out(reinterpret_cast<float*>(outputs.data()),
                            static_cast<size_t>(num_outputs));
        std::ranges::fill(out, 1.0F);
        kernels.bf16_matmul({.groups = groups.data(),
                             .group_bytes = group_bytes,
                             .num_groups = num_groups,
                             .next_groups = nullptr,
                             .tiles = tiles.data(),
                             .num_rows = rows,
                             .columns = columns,
                             .pass_rows = 192,
                             .streams = streams,
                             .out = {.data = out.data(),
                                     .stride = num_groups * kGroupRows,
                                     .columns = num_groups * kGroupRows,
                                     .bias = nullptr},
                             .scratch = scratch});
        EXPECT_TRUE(std::ranges::all_of(out, [](float v) { return v == 0.0F; }))
            << columns << " columns, " << num_groups << " groups, " << rows << " rows";
      }
    }
  }
}

TEST(Bf16Bounds, NothingBehindWeightsActivationsAndOutputsIsTouched) {
  const GuardedBytes scratch(kMatmulScratchBytes);
  bool any = false;
  for (const KernelTable* kernels : supported_kernels()) {
    if (kernels->bf16_matmul == nullptr) continue;
    any = true;
    for (const int64_t columns : {8, 31, 32, 40, 256, 264, 1056}) {
      expect_nothing_of_bf16_behind(*kernels, columns, scratch.data());
    }
  }
  if (!any) GTEST_SKIP() << "this processor has no dot products of bf16";
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedBoundsTest,
                         ::testing::ValuesIn(tables_with_own(&KernelTable::quant_matmul)),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace hasten::cpu
