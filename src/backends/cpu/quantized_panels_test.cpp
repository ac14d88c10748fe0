// SPDX-License-Identifier: Apache-2.0
// Tests of panels, which many rows share: where their codes are, and how many, makes no difference
// to products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

/// Many rows times weights of such a type, four groups of which the last is alone in a register
/// tile, and which are longer than a panel.
class ManyRows {
 public:
  ManyRows(const KernelTable& kernels, DType type)
      : kernels_(kernels),
        columns_((kPanelBlocks + (info(type).block_size > kBlockColumns ? 8 : 5)) * kBlockColumns),
        matrix_(type, {kGroups * kGroupRows, columns_}),
        layout_(weight_layout(matrix_.view)),
        format_(kPackedFormats[static_cast<int>(*layout_.packed)]),
        tiles_(RowTiles::of(kRows, kernels.quant_direct_rows, kernels.quant_tile_rows)) {
    std::mt19937 random(19);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(kGroups * kGroupRows * columns_));
    for (float& v : values) v = normal(random);
    for (int64_t r = 0; r < kGroups * kGroupRows; ++r) {
      quant::encode_row(type, values.data() + r * columns_, matrix_.view.row(r), columns_);
    }
    groups_.resize(static_cast<size_t>(kGroups * layout_.group_bytes));
    for (int64_t g = 0; g < kGroups; ++g) {
      pack_group(kernels, layout_, matrix_.view, g, groups_.data());
    }
    quantize(values);
  }

  std::vector<float> products(bool keeps_low_nibbles, bool short_panels) const {
    std::vector<float> out(static_cast<size_t>(kRows * kGroups * kGroupRows));
    // Not a number where nobody writes.
    std::vector<uint8_t> scratch(kMatmulScratchBytes + 64, 0xff);
    kernels_.quant_matmul[static_cast<int>(*layout_.packed)](
        {.groups = {.matrix = groups_.data(), .matrix_groups = kGroups},
         .num_groups = kGroups,
         .next_groups = {},
         .x = {.tiles = x_.data(), .num_rows = kRows, .columns = columns_},
         .first_tile = 0,
         .end_tile = tiles_.count,
         .streams = WeightStreams::several,
         .keeps_low_nibbles = keeps_low_nibbles,
         .short_panels = short_panels,
         .out = {.data = out.data(),
                 .stride = kGroups * kGroupRows,
                 .columns = kGroups * kGroupRows,
                 .bias = nullptr},
         .scratch = scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64});
    return out;
  }

 private:
  static constexpr int64_t kRows = 42;
  static constexpr int64_t kGroups = 4;

  /// Makes activations of the first kRows rows.
  void quantize(const std::vector<float>& values) {
    const int64_t value_bytes = is_wide(format_) ? kernels_.wide_value_bytes : 1;
    ActivationTile tile{.num_rows = kRows,
                        .num_blocks = activation_blocks(columns_, format_),
                        .span_blocks = span_blocks(format_),
                        .span_bytes = activation_span_bytes(scale_kind(format_)),
                        .first_row = 0,
                        .rows = 0};
    x_.resize(
        static_cast<size_t>(activation_bytes(kRows, tile.num_blocks, format_.scales_per_block,
                                             value_bytes, tile.span_blocks, tile.span_bytes)));
    for (int64_t t = 0; t < tiles_.count; ++t) {
      tile.first_row = tiles_.first_row(t);
      tile.rows = tiles_.first_row(t + 1) - tile.first_row;
      kernels_.quantize_tile({.x = values.data() + tile.first_row * columns_,
                              .columns = columns_,
                              .format = format_,
                              .value_bytes = value_bytes,
                              .tiles = x_.data(),
                              .tile = tile});
    }
  }

  const KernelTable& kernels_;
  int64_t columns_;
  OwnedTensor matrix_;
  WeightLayout layout_;
  PackedFormat format_;
  RowTiles tiles_;
  std::vector<uint8_t> groups_;
  std::vector<uint8_t> x_;
};

// One with integer scales, with offsets besides, with those for a part of a block, with
// super-blocks whose units are as long as a short panel and longer, and one that is a panel
// already.
TEST_P(QuantizedPanelsTest, ShortPanelsAndNibblesThatStayPackedMakeNoDifference) {
  for (const DType type :
       {DType::q4_0, DType::q4_1, DType::q2_k, DType::q4_k, DType::q6_k, DType::q8_0}) {
    SCOPED_TRACE(info(type).name);
    const ManyRows rows(kernels(), type);
    const std::vector<float> out = rows.products(true, false);
    EXPECT_NE(out.front(), 0.0F);
    EXPECT_NE(out.back(), 0.0F);
    EXPECT_TRUE(std::ranges::all_of(out, [](float v) { return std::isfinite(v); }));
    EXPECT_EQ(rows.products(false, false), out);
    EXPECT_EQ(rows.products(true, true), out);
    EXPECT_EQ(rows.products(false, true), out);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedPanelsTest,
                         ::testing::ValuesIn(tables_with_own(&KernelTable::quant_matmul)),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace hasten::cpu
