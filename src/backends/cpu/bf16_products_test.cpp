// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights with rows that are rounded to bf16: those of a row are the same bits
// among many rows, which meet weights in blocks of rows, columns and groups, as among few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "tensor/half.h"

namespace hasten::cpu {
namespace {

/// A matrix and a bias for some products, and what these need.
class Bf16Matrix {
 public:
  Bf16Matrix(int64_t features, int64_t columns, std::mt19937& random)
      : features_(features),
        num_groups_((features + kGroupRows - 1) / kGroupRows),
        columns_(columns),
        weights_(static_cast<size_t>(num_groups_ * group_elements())),
        bias_(static_cast<size_t>(features)) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < std::ssize(weights_); ++i) {
      const int64_t column = i % group_elements() / (2 * kGroupRows) * 2 + i % 2;
      if (column < columns) weights_[static_cast<size_t>(i)] = f32_to_bf16(normal(random));
    }
    for (float& v : bias_) v = normal(random);
  }

  /// x: [num_rows, columns].
  std::vector<float> times(const KernelTable& kernels, const float* x, int64_t num_rows,
                           bool with_bias) {
    uint8_t* tiles = rounded_.get(num_rows * bf16_row_bytes(columns_));
    const auto split = RowTiles::of(num_rows, kernels.bf16_tile_rows, kernels.bf16_tile_rows);
    for (int64_t t = 0; t < split.count; ++t) {
      const int64_t first = split.first_row(t);
      kernels.round_bf16_tile({.x = x + first * columns_,
                               .num_rows = split.first_row(t + 1) - first,
                               .columns = columns_,
                               .tile = tiles + first * bf16_row_bytes(columns_)});
    }
    std::vector<float> out(static_cast<size_t>(num_rows * features_));
    kernels.bf16_matmul({.groups = reinterpret_cast<const uint8_t*>(weights_.data()),
                         .group_bytes = 2 * group_elements(),
                         .num_groups = num_groups_,
                         .next_groups = reinterpret_cast<const uint8_t*>(weights_.data()),
                         .tiles = tiles,
                         .num_rows = num_rows,
                         .columns = columns_,
                         .pass_rows = 192,
                         .streams = WeightStreams::one,
                         .out = {.data = out.data(),
                                 .stride = features_,
                                 .columns = features_,
                                 .bias = with_bias ? bias_.data() : nullptr},
                         .scratch = scratch_.get(kMatmulScratchBytes)});
    return out;
  }

 private:
  int64_t group_elements() const { return (columns_ + 1) / 2 * 2 * kGroupRows; }

  int64_t features_;
  int64_t num_groups_;
  int64_t columns_;
  std::vector<uint16_t> weights_;  // [groups][pairs of columns][16][2]
  std::vector<float> bias_;
  Scratch rounded_;
  Scratch scratch_;
};

TEST(Bf16Products, FewRowsEqualRowsOfManyBlocks) {
  constexpr int64_t kFewRows = 12;  // which all kernels multiply as they do one
  struct Sizes {
    int64_t num_rows;
    int64_t columns;
    int64_t features;
  };
  // Blocks of tile registers have 256 rows, 1,024 columns and 256 features at most, and of each
  // there are several, whole and not; few rows, columns or features are one.
  constexpr Sizes kSizes[] = {{17, 2080, 288}, {31, 33, 16},    {47, 31, 40},     {45, 1024, 267},
                              {263, 70, 559},  {300, 1025, 48}, {523, 1056, 304}, {256, 2112, 272}};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  bool any = false;
  for (const KernelTable* kernels : supported_kernels()) {
    if (kernels->bf16_matmul == nullptr) continue;
    any = true;
    for (const auto& [num_rows, columns, features] : kSizes) {
      Bf16Matrix matrix(features, columns, random);
      std::vector<float> x(static_cast<size_t>(num_rows * columns));
      for (float& v : x) v = normal(random);
      for (const bool with_bias : {false, true}) {
        const auto together = matrix.times(*kernels, x.data(), num_rows, with_bias);
        for (int64_t first = 0; first < num_rows; first += kFewRows) {
          const int64_t count = std::min(kFewRows, num_rows - first);
          const auto few = matrix.times(*kernels, x.data() + first * columns, count, with_bias);
          for (int64_t row = 0; row < count; ++row) {
            ASSERT_EQ(
                std::memcmp(few.data() + row * features, together.data() + (first + row) * features,
                            static_cast<size_t>(features) * sizeof(float)),
                0)
                << kernels->name << ", row " << first + row << " of " << num_rows << ", " << columns
                << " columns, " << features << " features, bias " << with_bias;
          }
        }
      }
    }
  }
  if (!any) GTEST_SKIP() << "this processor has no dot products of bf16";
}

}  // namespace
}  // namespace hasten::cpu
