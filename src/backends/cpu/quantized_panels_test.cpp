// SPDX-License-Identifier: Apache-2.0
// Tests of panels, which many rows share: where their codes are, and how many, makes no difference
// to products.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/own_kernels_test.h"
#include "backends/cpu/pack.h"
#include "quant/codec.h"
#include "tensor/tensor.h"

namespace hasten::cpu {
namespace {

class QuantizedPanelsTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

// Many rows of q4_0, whose panels may leave nibbles in the packed weights, and may be short: two
// panels or three, of four groups of which the last is alone.
TEST_P(QuantizedPanelsTest, ShortPanelsAndNibblesThatStayPackedMakeNoDifference) {
  constexpr int64_t kRows = 42;
  constexpr int64_t kGroups = 4;
  constexpr int64_t kColumns = (kPanelBlocks + 3) * kBlockColumns;
  const PackedFormat& format = kPackQ4_0;
  std::mt19937 random(19);
  std::normal_distribution<float> normal;
  std::vector<float> values(kGroups * kGroupRows * kColumns);
  for (float& v : values) v = normal(random);
  const OwnedTensor matrix(DType::q4_0, {kGroups * kGroupRows, kColumns});
  for (int64_t r = 0; r < kGroups * kGroupRows; ++r) {
    quant::encode_row(DType::q4_0, values.data() + r * kColumns, matrix.view.row(r), kColumns);
  }
  const WeightLayout layout = weight_layout(matrix.view);
  std::vector<uint8_t> groups(static_cast<size_t>(kGroups * layout.group_bytes));
  for (int64_t g = 0; g < kGroups; ++g) {
    pack_group(kernels(), layout, matrix.view, g, groups.data());
  }
  const auto split = RowTiles::of(kRows, kernels().quant_direct_rows, kernels().quant_tile_rows);
  ActivationTile tile{.num_rows = kRows,
                      .num_blocks = activation_blocks(kColumns, format),
                      .span_blocks = span_blocks(format),
                      .span_bytes = activation_span_bytes(scale_kind(format)),
                      .first_row = 0,
                      .rows = 0};
  std::vector<uint8_t> x(static_cast<size_t>(
      activation_bytes(kRows, tile.num_blocks, 1, 1, tile.span_blocks, tile.span_bytes)));
  for (int64_t t = 0; t < split.count; ++t) {
    tile.first_row = split.first_row(t);
    tile.rows = split.first_row(t + 1) - tile.first_row;
    kernels().quantize_tile({.x = values.data() + tile.first_row * kColumns,
                             .columns = kColumns,
                             .format = format,
                             .value_bytes = 1,
                             .tiles = x.data(),
                             .tile = tile});
  }
  std::vector<uint8_t> scratch(kMatmulScratchBytes + 64);
  const auto products = [&](bool keeps, bool short_panels) {
    std::vector<float> out(static_cast<size_t>(kRows * kGroups * kGroupRows));
    kernels().quant_matmul[static_cast<int>(PackedKind::q4_0)](
        {.groups = {.matrix = groups.data(), .matrix_groups = kGroups},
         .num_groups = kGroups,
         .next_groups = {},
         .x = {.tiles = x.data(), .num_rows = kRows, .columns = kColumns},
         .first_tile = 0,
         .end_tile = split.count,
         .streams = WeightStreams::several,
         .keeps_low_nibbles = keeps,
         .short_panels = short_panels,
         .out = {.data = out.data(),
                 .stride = kGroups * kGroupRows,
                 .columns = kGroups * kGroupRows,
                 .bias = nullptr},
         .scratch = scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64});
    return out;
  };
  const std::vector<float> out = products(true, false);
  EXPECT_NE(out.front(), 0.0F);
  EXPECT_NE(out.back(), 0.0F);
  EXPECT_EQ(products(false, false), out);
  EXPECT_EQ(products(true, true), out);
  EXPECT_EQ(products(false, true), out);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedPanelsTest,
                         ::testing::ValuesIn(tables_with_own(&KernelTable::quant_matmul)),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace hasten::cpu
