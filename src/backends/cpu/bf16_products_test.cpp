// SPDX-License-Identifier: Apache-2.0
// Products of bf16 weights with rows that are rounded to bf16: those of a row are the same bits
// among many rows, which meet weights in blocks of rows, columns and groups, as alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "tensor/half.h"

namespace hasten::cpu {
namespace {

/// A matrix whose last group has few rows, and a bias for some products.
class Bf16Matrix {
 public:
  Bf16Matrix(int64_t num_groups, int64_t columns, std::mt19937& random)
      : num_groups_(num_groups),
        columns_(columns),
        weights_(static_cast<size_t>(num_groups * group_elements())),
        bias_(static_cast<size_t>(num_groups * kGroupRows)) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < std::ssize(weights_); ++i) {
      const int64_t column = i % group_elements() / (2 * kGroupRows) * 2 + i % 2;
      if (column < columns) weights_[static_cast<size_t>(i)] = f32_to_bf16(normal(random));
    }
    for (float& v : bias_) v = normal(random);
  }

  int64_t features() const { return num_groups_ * kGroupRows - kMissing; }

  /// x: [num_rows, columns].
  std::vector<float> times(const KernelTable& kernels, const float* x, int64_t num_rows,
                           bool with_bias, uint8_t* scratch) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(num_rows * bf16_row_bytes(columns_) + 64));
    uint8_t* tiles = bytes.data() + 64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64;
    const auto split = RowTiles::of(num_rows, kernels.bf16_tile_rows, kernels.bf16_tile_rows);
    for (int64_t t = 0; t < split.count; ++t) {
      const int64_t first = split.first_row(t);
      kernels.round_bf16_tile({.x = x + first * columns_,
                               .num_rows = split.first_row(t + 1) - first,
                               .columns = columns_,
                               .tile = tiles + first * bf16_row_bytes(columns_)});
    }
    std::vector<float> out(static_cast<size_t>(num_rows * features()));
    kernels.bf16_matmul({.groups = reinterpret_cast<const uint8_t*>(weights_.data()),
                         .group_bytes = 2 * group_elements(),
                         .num_groups = num_groups_,
                         .next_groups = nullptr,
                         .tiles = tiles,
                         .num_rows = num_rows,
                         .columns = columns_,
                         .pass_rows = 192,
                         .streams = WeightStreams::one,
                         .out = {.data = out.data(),
                                 .stride = features(),
                                 .columns = features(),
                                 .bias = with_bias ? bias_.data() : nullptr},
                         .scratch = scratch});
    return out;
  }

 private:
  static constexpr int64_t kMissing = 5;
  int64_t group_elements() const { return (columns_ + 1) / 2 * 2 * kGroupRows; }

  int64_t num_groups_;
  int64_t columns_;
  std::vector<uint16_t> weights_;  // [groups][pairs of columns][16][2]
  std::vector<float> bias_;
};

TEST(Bf16Products, RowsAloneEqualRowsOfManyBlocks) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<uint8_t> bytes(kMatmulScratchBytes + 64);
  uint8_t* scratch = bytes.data() + 64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64;
  bool any = false;
  for (const KernelTable* kernels : supported_kernels()) {
    if (kernels->bf16_matmul == nullptr) continue;
    any = true;
    // Blocks of tile registers have 256 rows, 1,024 columns and 16 groups.
    for (const auto& [num_rows, columns, num_groups] :
         std::vector<std::array<int64_t, 3>>{{17, 2080, 18},
                                             {31, 33, 1},
                                             {45, 1024, 17},
                                             {263, 31, 35},
                                             {300, 1025, 3},
                                             {523, 1056, 19}}) {
      const Bf16Matrix matrix(num_groups, columns, random);
      std::vector<float> x(static_cast<size_t>(num_rows * columns));
      for (float& v : x) v = normal(random);
      for (const bool with_bias : {false, true}) {
        const auto together = matrix.times(*kernels, x.data(), num_rows, with_bias, scratch);
        for (int64_t row = 0; row<num_rows; row += num_rows> 100 ? 7 : 1) {
          const auto alone =
              matrix.times(*kernels, x.data() + row * columns, 1, with_bias, scratch);
          ASSERT_EQ(std::memcmp(alone.data(), together.data() + row * matrix.features(),
                                alone.size() * sizeof(float)),
                    0)
              << kernels->name << ", row " << row << " of " << num_rows << ", " << columns
              << " columns, " << num_groups << " groups, bias " << with_bias;
        }
      }
    }
  }
  if (!any) GTEST_SKIP() << "this processor has no dot products of bf16";
}

}  // namespace
}  // namespace hasten::cpu
