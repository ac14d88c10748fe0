// SPDX-License-Identifier: Apache-2.0
// Tests of activations of eight bits, on each instruction set: values, scales, and where they lie.
#include "backends/cpu/quantized_rows_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/own_kernels_test.h"

namespace hasten::cpu {
namespace {

class QuantizedRowsTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

/// Of a row's block, column i.
int quantized_value(const uint8_t* row, int64_t i, int64_t value_bytes) {
  if (value_bytes == 1) return static_cast<int8_t>(row[i]);
  constexpr int kPlaces[4] = {0, 2, 1, 3};  // even columns, then odd ones
  int16_t value;
  std::memcpy(&value, row + 2 * (i / 4 * 4 + kPlaces[i % 4]), 2);
  return value;
}

/// Of a row, where two rows are a tile.
struct TestTile {
  static constexpr int64_t kRows = 2;
  static constexpr int64_t kRow = 1;  // the one that is looked at

  TestTile(const KernelTable& kernels, const PackedFormat& format, const float* x, int64_t columns)
      : parts(format.scales_per_block),
        value_bytes(is_wide(format) ? kernels.wide_value_bytes : 1),
        num_blocks(activation_blocks(columns, format)),
        span_blocks(hasten::cpu::span_blocks(format)),
        span_bytes(activation_span_bytes(scale_kind(format))),
        bytes(static_cast<size_t>(
                  activation_bytes(kRows, num_blocks, parts, value_bytes, span_blocks, span_bytes)),
              77) {
    kernels.quantize_tile({.x = x,
                           .columns = columns,
                           .format = format,
                           .value_bytes = value_bytes,
                           .tiles = bytes.data(),
                           .tile = tile()});
  }

  ActivationTile tile() const {
    return {.num_rows = kRows,
            .num_blocks = num_blocks,
            .span_blocks = span_blocks,
            .span_bytes = span_bytes,
            .first_row = 0,
            .rows = kRows};
  }
  const uint8_t* block(int64_t index) const {
    return bytes.data() +
           tile().at(index / span_blocks * span_blocks,
                     activation_block_bytes(1, parts, value_bytes)) +
           index % span_blocks * activation_block_bytes(kRows, parts, value_bytes);
  }
  int value(int64_t row, int64_t column) const {
    return quantized_value(block(column / 32) + row * kBlockColumns * value_bytes, column % 32,
                           value_bytes);
  }
  /// The first (second) number of a part of the row.
  template <class T>
  T number(int64_t part, int64_t index) const {
    return load<T>(block(part / parts) +
                   kRows * (kBlockColumns * value_bytes + part % parts * 8 + 4 * index));
  }
  /// What lies behind the span that a block is in: the first (second) number.
  template <class T = float>
  T behind_span(int64_t block_index, int64_t index = 0) const {
    const int64_t last =
        std::min(block_index / span_blocks * span_blocks + span_blocks, num_blocks) - 1;
    return load<T>(block(last) + activation_block_bytes(kRows, parts, value_bytes) +
                   4 * kRows * index);
  }
  template <class T>
  static T load(const uint8_t* numbers) {
    T number;
    std::memcpy(&number, numbers + 4 * kRow, 4);
    return number;
  }

  int64_t parts;  // of a block
  int64_t value_bytes;
  int64_t num_blocks;
  int64_t span_blocks;
  int64_t span_bytes;
  std::vector<uint8_t> bytes;
};

/// The bytes of a row of a tile, in the order of a tile of that row alone.
std::vector<uint8_t> row_of(const uint8_t* tiles, const ActivationTile& tile, int64_t row,
                            int64_t parts, int64_t value_bytes) {
  std::vector<uint8_t> bytes;
  const auto take = [&](const uint8_t* from, int64_t count) {
    bytes.insert(bytes.end(), from, from + count);
  };
  for (int64_t block = 0; block < tile.num_blocks; block += tile.span_blocks) {
    const uint8_t* at = tiles + tile.at(block, activation_block_bytes(1, parts, value_bytes));
    const int64_t end = std::min(block + tile.span_blocks, tile.num_blocks);
    for (int64_t b = block; b < end; ++b) {
      take(at + row * kBlockColumns * value_bytes, kBlockColumns * value_bytes);
      at += tile.rows * kBlockColumns * value_bytes;
      for (int64_t i = 0; i < 2 * parts; ++i, at += 4 * tile.rows) take(at + 4 * row, 4);
    }
    for (int64_t i = 0; i < tile.span_bytes; i += 4, at += 4 * tile.rows) take(at + 4 * row, 4);
  }
  return bytes;
}

// Three panels, of which the last is not whole, of tiles of as many rows as there can be.
TEST_P(QuantizedRowsTest, RowsOfATileAreThoseOfTilesOfTheirOwn) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = (2 * kPanelBlocks + 5) * kBlockColumns;
  for (const int64_t count : {kernels().quant_direct_rows, 3 * kernels().quant_tile_rows + 1}) {
    std::vector<float> x(static_cast<size_t>(count * kColumns));
    for (float& value : x) value = normal(random);
    for (const PackedFormat& format : {kPackQ2K, kPackQ6K, kPackQ4_0, kPackQ4K}) {
      const int64_t parts = format.scales_per_block;
      const int64_t value_bytes = is_wide(format) ? kernels().wide_value_bytes : 1;
      const ActivationTile all{.num_rows = count,
                               .num_blocks = activation_blocks(kColumns, format),
                               .span_blocks = span_blocks(format),
                               .span_bytes = activation_span_bytes(scale_kind(format)),
                               .first_row = 0,
                               .rows = count};
      const auto quantized = [&](const float* from, const ActivationTile& of, uint8_t* tiles) {
        kernels().quantize_tile({.x = from,
                                 .columns = kColumns,
                                 .format = format,
                                 .value_bytes = value_bytes,
                                 .tiles = tiles,
                                 .tile = of});
      };
      const auto bytes_of = [&](int64_t rows) {
        return static_cast<size_t>(activation_bytes(rows, all.num_blocks, parts, value_bytes,
                                                    all.span_blocks, all.span_bytes));
      };
      std::vector<uint8_t> tiles(bytes_of(count), 77);
      std::vector<uint8_t> alone(bytes_of(1), 78);
      const auto split =
          RowTiles::of(count, kernels().quant_direct_rows, kernels().quant_tile_rows);
      const auto tile_at = [&](int64_t index) {
        ActivationTile tile = all;
        tile.first_row = split.first_row(index);
        tile.rows = split.first_row(index + 1) - tile.first_row;
        return tile;
      };
      for (int64_t t = 0; t < split.count; ++t) {
        const ActivationTile tile = tile_at(t);
        quantized(x.data() + tile.first_row * kColumns, tile, tiles.data());
      }
      ActivationTile own = all;
      own.num_rows = own.rows = 1;
      for (int64_t t = 0; t < split.count; ++t) {
        const ActivationTile tile = tile_at(t);
        for (int64_t row = 0; row < tile.rows; ++row) {
          quantized(x.data() + (tile.first_row + row) * kColumns, own, alone.data());
          EXPECT_EQ(row_of(tiles.data(), tile, row, parts, value_bytes), alone)
              << "tile " << t << ", row " << row << " of " << count;
        }
      }
    }
  }
}

// 17 blocks, of which one goes beyond a panel and one beyond a batch.
TEST_P(QuantizedRowsTest, QuantizedRowsAreNearAndSumUp) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = 17 * kBlockColumns;
  std::vector<float> rows(TestTile::kRows * kColumns, -2.0F);
  float* const x = rows.data() + TestTile::kRow * kColumns;
  for (int64_t i = 0; i < kColumns; ++i) x[i] = normal(random);
  x[1] = 100.0F;  // an outlier spoils only its own part
  for (const PackedFormat& format : {kPackQ2K, kPackQ3K, kPackQ6K}) {
    const TestTile tile(kernels(), format, rows.data(), kColumns);
    const int64_t part_columns = activation_columns(format);
    float span_scale = 0;
    for (int64_t part = kColumns / part_columns - 1; part >= 0; --part) {
      const int64_t block = part / tile.parts;
      if (block == tile.num_blocks - 1) {
        span_scale = tile.behind_span(block);
      } else if (part % tile.parts == tile.parts - 1 &&
                 block % tile.span_blocks == tile.span_blocks - 1) {
        span_scale *= tile.behind_span(block);
      }
      const auto base = tile.number<float>(part, 0);
      const float power = base / kFloatBase;
      EXPECT_EQ(std::exp2(std::round(std::log2(power))), power);
      const float scale = span_scale * power;
      EXPECT_EQ(scale > 0.05F, part == 0);
      int largest = 0;
      int32_t sum = 0;
      for (int64_t i = part * part_columns; i < (part + 1) * part_columns; ++i) {
        const int value = tile.value(TestTile::kRow, i);
        EXPECT_NEAR(static_cast<float>(value) * scale, x[i], scale * 0.5001F);
        sum += value;
        largest = std::max(largest, std::abs(value));
        EXPECT_EQ(tile.value(0, i), -127);
      }
      EXPECT_GE(largest, 63);  // no power of two is left
      EXPECT_EQ(tile.number<int32_t>(part, 1),
                format.offsets ? std::bit_cast<int32_t>(static_cast<float>(sum) * power)
                               : std::bit_cast<int32_t>(base) - format.zero_point * sum);
    }
    EXPECT_FLOAT_EQ(span_scale, 100.0F / 127);
  }
}

// Three blocks, of which the second is much smaller than the first, and one that makes a pair.
TEST_P(QuantizedRowsTest, FourBlocksShareAScaleButForShifts) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = 96;
  constexpr float kPeaks[3] = {100, 1, 1};
  constexpr int kShifts[4] = {0, 6, 6, kMostPairShift};
  std::vector<float> rows(TestTile::kRows * kColumns, 1.0F);
  float* const x = rows.data() + TestTile::kRow * kColumns;
  for (int64_t i = 0; i < kColumns; ++i) {
    x[i] = std::clamp(0.3F * normal(random), -1.0F, 1.0F) * kPeaks[i / 32];
  }
  for (int b = 0; b < 3; ++b) x[32 * b + 7] = kPeaks[b];
  for (const PackedFormat& format : {kPackQ4_0, kPackQ8_0, kPackQ4K, kPackQ5_1}) {
    const TestTile tile(kernels(), format, rows.data(), kColumns);
    ASSERT_EQ(tile.num_blocks, 4);
    for (int64_t b = 0; b < tile.num_blocks; ++b) {
      EXPECT_FLOAT_EQ(tile.behind_span(b), kPeaks[0] / 127 *
                                               static_cast<float>(1 << wide_dot_bits(format)) /
                                               static_cast<float>(1 << kIntegerScaleBits));
      const int right = kShifts[b] + wide_dot_bits(format);
      EXPECT_EQ(tile.number<int32_t>(b, 0), b % 2 == 0 ? right : 16 - right) << "block " << b;
      int32_t sum = 0;
      for (int64_t i = 32 * b; i < 32 * (b + 1); ++i) {
        const int value = tile.value(TestTile::kRow, i);
        const float step = kPeaks[0] / 127 / static_cast<float>(1 << kShifts[b]);
        EXPECT_NEAR(static_cast<float>(value) * step, b < 3 ? x[i] : 0, step * 0.5001F);
        sum += value;
      }
      EXPECT_EQ(tile.number<int32_t>(b, 1), rounding_of(b, right) - format.zero_point * sum);
      if (!format.offsets) continue;
      const auto sums = std::bit_cast<std::array<int16_t, 2>>(tile.behind_span<int32_t>(b, 1));
      EXPECT_EQ(sums[static_cast<size_t>(b % 2)],
                std::nearbyint(std::ldexp(static_cast<float>(sum), kSumBits - kShifts[b])));
    }
  }
}

// Two spans that come from outputs of eight groups are what a row of all columns gets there: in
// tiles of two and of one row, of which the last ones are no four rows.
TEST_P(QuantizedRowsTest, SpansOfOutputsAreThoseOfWholeRows) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = 1152;  // more than a panel
  constexpr int64_t kRows = 21;
  constexpr int64_t kStride = 24;  // of outputs
  std::vector<float> x(kRows * kColumns);
  for (float& v : x) v = normal(random);
  x[5 * kColumns + 70] = std::numeric_limits<float>::infinity();
  const RowTiles split = RowTiles::of(kRows, 1, 2);
  for (const PackedFormat& format : {kPackQ4_0, kPackQ8_0, kPackIq4Nl, kPackQ4K, kPackQ5_1}) {
    const int64_t value_bytes = is_wide(format) ? kernels().wide_value_bytes : 1;
    const int64_t num_blocks = activation_blocks(kColumns, format);
    const int64_t span_bytes = activation_span_bytes(scale_kind(format));
    const auto size =
        static_cast<size_t>(activation_bytes(kRows, num_blocks, 1, value_bytes, 2, span_bytes));
    std::vector<uint8_t> whole(size, 1);
    std::vector<uint8_t> in_spans(size, 2);
    for (int64_t t = 0; t < split.count; ++t) {
      const int64_t first = split.first_row(t);
      kernels().quantize_tile({.x = x.data() + first * kColumns,
                               .columns = kColumns,
                               .format = format,
                               .value_bytes = value_bytes,
                               .tiles = whole.data(),
                               .tile = {.num_rows = kRows,
                                        .num_blocks = num_blocks,
                                        .span_blocks = 2,
                                        .span_bytes = span_bytes,
                                        .first_row = first,
                                        .rows = split.first_row(t + 1) - first}});
    }
    for (int64_t block = 0; block < num_blocks; block += kScaleBlocks) {
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, split.count}}) {
        std::vector<float> outputs(8 * kRows * kStride);
        QuantizeSpansTask task{.groups = {},
                               .stride = kStride,
                               .block = block,
                               .num_blocks = num_blocks,
                               .format = format,
                               .value_bytes = value_bytes,
                               .tiles = in_spans.data(),
                               .split = split,
                               .first_tile = begin,
                               .end_tile = end};
        const int64_t first = split.first_row(begin);
        for (int64_t g = 0; g < 8; ++g) {
          float* const group = outputs.data() + g * kRows * kStride;
          task.groups[g] = group;
          for (int64_t row = first; row < split.first_row(end); ++row) {
            std::copy_n(x.data() + row * kColumns + block * kBlockColumns + g * kGroupRows,
                        kGroupRows, group + (row - first) * kStride);
          }
        }
        kernels().quantize_spans(task);
      }
    }
    EXPECT_EQ(in_spans, whole);
  }
}

TEST(RowTiles, AreFewAndEven) {
  for (int64_t num_rows = 1; num_rows < 100; ++num_rows) {
    const auto tiles = RowTiles::of(num_rows, 9, 6);
    EXPECT_EQ(tiles.count, num_rows <= 9 ? 1 : (num_rows + 5) / 6);
    EXPECT_EQ(tiles.first_row(0), 0);
    EXPECT_EQ(tiles.first_row(tiles.count), num_rows);
    for (int64_t t = 0; t < tiles.count; ++t) {
      const int64_t rows = tiles.first_row(t + 1) - tiles.first_row(t);
      EXPECT_LE(rows, num_rows <= 9 ? 9 : 6);
      EXPECT_GE(rows, num_rows / tiles.count);
    }
  }
}

TEST(QuantizedRows, PanelsMeetTileAfterTileWithoutGaps) {
  constexpr int64_t kRowBlockBytes = activation_block_bytes(1, 2, 1);
  for (const int64_t num_blocks : {1, 4, 15, 16, 17, 40, 41}) {
    const int64_t span_blocks = num_blocks % 3 == 0 ? 2 : 4;
    const int64_t span_bytes = num_blocks % 2 == 0 ? 4 : 8;
    for (int64_t num_rows = 1; num_rows < 20; ++num_rows) {
      const auto tiles = RowTiles::of(num_rows, 5, 3);
      int64_t before = 0;  // bytes
      for (int64_t panel = 0; panel < num_blocks; panel += kPanelBlocks) {
        const int64_t end = std::min(panel + kPanelBlocks, num_blocks);
        for (int64_t t = 0; t < tiles.count; ++t) {
          const int64_t first = tiles.first_row(t);
          const int64_t tile_rows = tiles.first_row(t + 1) - first;
          const ActivationTile tile{num_rows,   num_blocks, span_blocks,
                                    span_bytes, first,      tile_rows};
          for (int64_t block = panel; block < end; block += span_blocks) {
            EXPECT_EQ(tile.at(block, kRowBlockBytes), before);
            before +=
                tile_rows * (std::min(span_blocks, end - block) * kRowBlockBytes + span_bytes);
          }
        }
      }
      EXPECT_EQ(before, activation_bytes(num_rows, num_blocks, 2, 1, span_blocks, span_bytes));
    }
  }
}

// Tables that share products share what rounds activations for them.
INSTANTIATE_TEST_SUITE_P(All, QuantizedRowsTest,
                         ::testing::ValuesIn(tables_with_own(&KernelTable::quant_matmul)),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace hasten::cpu
