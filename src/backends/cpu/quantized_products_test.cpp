// SPDX-License-Identifier: Apache-2.0
// Tests of products of quantised weights with activations of eight bits, on each instruction set:
// scales, offsets and what is rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/own_kernels_test.h"
#include "backends/cpu/pack.h"
#include "backends/cpu/quantized_rows_test.h"
#include "quant/codec.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

namespace hasten::cpu {
namespace {

class QuantizedProductsTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

/// What is multiplied in tests of products of q8_0: a code, or an activation.
int random_code(std::mt19937& random) { return static_cast<int>(random() % 255) - 127; }

/// A group of weights on a backend of one instruction set.
class Group {
 public:
  Group(const KernelTable& kernels, const OwnedTensor& matrix)
      : backend_(make_cpu_backend({.threads = 1, .isa = kernels.name})),
        weight_(backend_->prepare_weight(matrix.view)) {
    backend_->synchronize();  // packed, it is not read again: tests change it, or let it go
  }

  /// The outputs of `num_rows` rows, all of them x.
  std::vector<float> times(const std::vector<float>& x, int64_t num_rows) const {
    std::vector<float> rows;
    for (int64_t r = 0; r < num_rows; ++r) rows.insert(rows.end(), x.begin(), x.end());
    std::vector<float> out(static_cast<size_t>(num_rows * kGroupRows));
    backend_->matmul(
        {.weight = *weight_,
         .x = Tensor(static_cast<const void*>(rows.data()), DType::f32, {num_rows, std::ssize(x)}),
         .out = Tensor(static_cast<void*>(out.data()), DType::f32, {num_rows, kGroupRows})});
    return out;
  }

 private:
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<ops::Weight> weight_;
};

/// Rows of blocks as a file has them.
template <class Block>
OwnedTensor matrix_of(DType dtype, const std::vector<Block>& blocks) {
  OwnedTensor matrix(dtype, {kGroupRows, std::ssize(blocks) / kGroupRows * Block::kSize});
  std::memcpy(matrix.view.data(), blocks.data(), blocks.size() * sizeof blocks[0]);
  return matrix;
}

/// Few rows, which are multiplied with packed weights, of one group or, with integer scales, of two
/// (in one turn, or two), and many, which take panels.
constexpr int64_t kNumRows[] = {1, 8, 11, 40};

// With an activation scale of one, an output is the dot product times the weight's scale, and
// nothing else is rounded. Each row has one part whose scale is not zero.
TEST_P(QuantizedProductsTest, DotProductsTimesScalesAreRoundedOnce) {
  std::mt19937 random(11);
  std::vector<quant::BlockQ6K> blocks(kGroupRows);
  std::vector<float> x(quant::BlockQ6K::kSize);
  for (float& v : x) v = static_cast<float>(random_code(random));
  for (size_t part = 0; part < 16; ++part) x[16 * part] = 127.0F;
  for (size_t row = 0; row < blocks.size(); ++row) {
    auto* bytes = reinterpret_cast<uint8_t*>(&blocks[row]);
    for (size_t i = 0; i < sizeof blocks[row]; ++i) bytes[i] = static_cast<uint8_t>(random());
    blocks[row].super_scale = static_cast<uint16_t>(0x2000U + random() % 0x1c00U);  // 2^-7 to 1
    for (size_t part = 0; part < 16; ++part)
      if (part != row) blocks[row].scales[part] = 0;
  }
  const Group group(kernels(), matrix_of(DType::q6_k, blocks));
  for (const int64_t rows : kNumRows) {
    const std::vector<float> out = group.times(x, rows);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t row = i % kGroupRows;
      quant::BlockQ6K plain = blocks[row];
      plain.super_scale = 0x3c00;  // 1
      plain.scales[row] = 1;
      std::array<float, quant::BlockQ6K::kSize> codes;
      quant::decode(plain, codes.data());
      float dot = 0;
      for (size_t c = 16 * row; c < 16 * (row + 1); ++c) dot += codes[c] * x[c];
      const double scale = double{f16_to_f32(blocks[row].super_scale)} * blocks[row].scales[row];
      EXPECT_EQ(out[i], static_cast<float>(scale * double{dot})) << "row " << row;
    }
  }
}

/// Random blocks of a type with a binary16 scale in front, as a file has them, and their codes.
struct ScaledBlocks {
  static constexpr uint16_t kOne = 0x3c00;

  ScaledBlocks(DType type, int64_t blocks_of_a_row, std::mt19937& random)
      : matrix(type, {kGroupRows, blocks_of_a_row * kBlockColumns}),
        codes(static_cast<size_t>(matrix.view.num_elements())) {
    auto* bytes = static_cast<uint8_t*>(matrix.view.data());
    for (int64_t i = 0; i < matrix.view.num_bytes(); ++i) bytes[i] = static_cast<uint8_t>(random());
    const int64_t num_blocks = kGroupRows * blocks_of_a_row;
    for (int64_t b = 0; b < num_blocks; ++b) set_scale(b, kOne);
    decode();
  }

  uint8_t* block(int64_t index) const {
    return static_cast<uint8_t*>(matrix.view.data()) +
           index * info(matrix.view.dtype()).block_bytes;
  }
  void set_scale(int64_t index, uint16_t scale) const { std::memcpy(block(index), &scale, 2); }
  float scale(int64_t index) const {
    uint16_t bits;
    std::memcpy(&bits, block(index), 2);
    return f16_to_f32(bits);
  }
  /// Takes the codes from the blocks, all of scale 1.
  void decode() {
    const int64_t columns = matrix.view.dim(1);
    for (int64_t r = 0; r < kGroupRows; ++r) {
      quant::decode_row(matrix.view.dtype(), matrix.view.row(r), codes.data() + r * columns,
                        columns);
    }
  }

  OwnedTensor matrix;
  std::vector<float> codes;
};
constexpr DType kScaledTypes[] = {DType::q4_0, DType::q5_0, DType::q8_0, DType::iq4_nl};

// Likewise of integer scales: dot products are rounded to sixteen bits, those of a block that is
// doubled k times to k less, the scales of two blocks are parts of the larger one, and what they
// make together is rounded as a float is.
TEST_P(QuantizedProductsTest, DotProductsOfPairsAreRoundedToSixteenBits) {
  constexpr int kShifts[] = {0, 3, kMostPairShift, 0, 0};  // the last is one of a pair with nothing
  constexpr int64_t kBlocks = std::ssize(kShifts);
  for (const DType dtype : kScaledTypes) {
    SCOPED_TRACE(info(dtype).name);
    std::mt19937 random(12);
    ScaledBlocks blocks(dtype, kBlocks, random);
    std::vector<float> codes(kBlocks * kBlockColumns);  // of x
    for (float& v : codes) v = static_cast<float>(random_code(random));
    for (int64_t b = 0; b < kBlocks; ++b) codes[static_cast<size_t>(32 * b)] = 127;
    // The largest dot products that there are, or nearly, and the largest to be shifted.
    for (const int64_t b : {0, 2}) {
      std::fill_n(codes.begin() + 32 * b, 32, b == 0 ? 127.0F : -127.0F);
      std::memset(blocks.block(b) + 2, dtype == DType::q8_0 ? 0x80 : 0,
                  static_cast<size_t>(info(dtype).block_bytes - 2));
    }
    blocks.decode();
    for (int64_t b = 1; b < kGroupRows * kBlocks; ++b) {
      const uint32_t sign = random() % 4 == 0 ? 0x8000U : 0;
      blocks.set_scale(b, static_cast<uint16_t>(sign ^ (0x2000U + random() % 0x1c00U)));
    }
    std::vector<float> x = codes;
    for (size_t c = 0; c < x.size(); ++c) x[c] = std::ldexp(x[c], -kShifts[c / 32]);
    const PackedFormat& format =
        kPackedFormats[static_cast<int>(*weight_layout(blocks.matrix.view).packed)];
    const Group group(kernels(), blocks.matrix);
    for (const int64_t rows : kNumRows) {
      const std::vector<float> out = group.times(x, rows);
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t first = static_cast<int64_t>(i % kGroupRows) * kBlocks;
        double most = 0;
        for (int64_t b = first; b < first + kBlocks; ++b) {
          most = std::max(most, std::fabs(double{blocks.scale(b)}));
        }
        double want = 0;
        double sizes = 0;
        for (int64_t b = 0; b < kBlocks; ++b) {
          int32_t dot = 0;
          for (int64_t c = 32 * b; c < 32 * (b + 1); ++c) {
            dot += static_cast<int32_t>(codes[static_cast<size_t>(c)]) *
                   static_cast<int32_t>(blocks.codes[static_cast<size_t>(32 * first + c)]);
          }
          const int shift = kShifts[b] + wide_dot_bits(format);
          const double scale = std::round(blocks.scale(first + b) / most * kMostIntegerScale) *
                               most / kMostIntegerScale;
          want += scale * ((rounding_of(b, shift) + dot) >> shift) * (1 << wide_dot_bits(format));
          sizes += std::fabs(scale * dot);
        }
        EXPECT_NEAR(out[i], want, 3e-7 * sizes) << "row " << i % kGroupRows;
      }
    }
  }
}

// The largest products that there are, of all blocks alike, fit in the sum of four and of what is
// left.
TEST_P(QuantizedProductsTest, LargestProductsFitInASum) {
  constexpr int64_t kBlocks = 6;
  for (const DType dtype : {DType::q4_0, DType::q5_0, DType::q8_0}) {
    SCOPED_TRACE(info(dtype).name);
    std::mt19937 random(18);
    ScaledBlocks blocks(dtype, kBlocks, random);
    for (int64_t b = 0; b < kGroupRows * kBlocks; ++b) {
      std::memset(blocks.block(b) + 2, dtype == DType::q8_0 ? 0x80 : 0,
                  static_cast<size_t>(info(dtype).block_bytes - 2));
    }
    blocks.decode();
    const Group group(kernels(), blocks.matrix);
    for (const float value : {127.0F, -127.0F}) {
      const std::vector<float> x(kBlocks * kBlockColumns, value);
      const double want = double{value} * kBlocks * kBlockColumns * double{blocks.codes[0]};
      for (const int64_t rows : kNumRows) {
        for (const float out : group.times(x, rows)) EXPECT_NEAR(out, want, 1e-6 * std::fabs(want));
      }
    }
  }
}

/// A row's blocks of 32 with integer scales and offsets: numbers, and what they count.
struct CountedRow {
  std::vector<std::array<float, 32>> codes;
  std::vector<double> scales;
  std::vector<double> offsets;
  double most = 0;  // what kMostIntegerScale counts

  /// Scales and offsets that are to be counted.
  static double most_of(const PackedFormat& format, double scale, double offset) {
    return std::max({std::fabs(scale), std::fabs(offset) / offset_parts(format),
                     std::fabs(scale * most_level(format) + offset) / offset_parts(format)});
  }
};

template <class Block>
CountedRow counted(const PackedFormat& format, const Block* blocks, int64_t count) {
  CountedRow row;
  for (int64_t b = 0; b < count; ++b) {
    row.most = std::max(row.most, CountedRow::most_of(format, f16_to_f32(blocks[b].scale),
                                                      f16_to_f32(blocks[b].min)));
    Block plain = blocks[b];
    plain.scale = ScaledBlocks::kOne;
    plain.min = 0;
    quant::decode(plain, row.codes.emplace_back().data());
  }
  for (int64_t b = 0; b < count; ++b) {
    const double parts = kMostIntegerScale / row.most;
    row.scales.push_back(std::nearbyint(f16_to_f32(blocks[b].scale) * parts));
    row.offsets.push_back(
        std::nearbyint(double{f16_to_f32(blocks[b].min)} / offset_parts(format) * parts));
  }
  return row;
}

/// Of super-blocks.
template <class Block>
requires requires(Block block) { block.super_scale; }
CountedRow counted(const PackedFormat& format, const Block* blocks, int64_t count) {
  CountedRow row;
  for (int64_t b = 0; b < count; ++b) {
    row.most = std::max(row.most, CountedRow::most_of(format, f16_to_f32(blocks[b].super_scale),
                                                      -f16_to_f32(blocks[b].super_offset)));
    Block plain = blocks[b];
    plain.super_scale = ScaledBlocks::kOne;
    plain.super_offset = 0;
    plain.scales = {{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}};
    std::array<float, 256> codes;
    quant::decode(plain, codes.data());
    for (size_t g = 0; g < 8; ++g) {
      std::copy_n(codes.data() + 32 * g, 32, row.codes.emplace_back().data());
    }
  }
  for (int64_t b = 0; b < count; ++b) {
    const double parts = kMostIntegerScale / row.most;
    const double scale = std::nearbyint(f16_to_f32(blocks[b].super_scale) * parts);
    const double offset =
        -std::nearbyint(double{f16_to_f32(blocks[b].super_offset)} / offset_parts(format) * parts);
    for (int g = 0; g < 8; ++g) {
      const quant::KScale inner = quant::unpack(blocks[b].scales, g);
      row.scales.push_back(std::floor(inner.scale * scale / inner_unit(format) + 0.5));
      row.offsets.push_back(std::floor(inner.offset * offset / inner_unit(format) + 0.5));
    }
  }
  row.most *= inner_unit(format);
  return row;
}

/// Blocks of any codes and inner scales, and some rows of the largest weights that there are: of
/// one sign, of the other, and with scales and offsets that pull the same way.
template <class Block>
std::vector<Block> blocks_with_offsets(int64_t blocks_of_a_row, uint16_t Block::*scale,
                                       uint16_t Block::*offset, bool subtracts,
                                       std::mt19937& random) {
  std::vector<Block> blocks(static_cast<size_t>(kGroupRows * blocks_of_a_row));
  const auto half = [&] {
    const uint32_t sign = random() % 4 == 0 ? 0x8000U : 0;
    return static_cast<uint16_t>(sign ^ (0x2000U + random() % 0x1c00U));
  };
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto* bytes = reinterpret_cast<uint8_t*>(&blocks[b]);
    for (size_t i = 0; i < sizeof(Block); ++i) bytes[i] = static_cast<uint8_t>(random());
    const size_t row = b / static_cast<size_t>(blocks_of_a_row);
    if (row < 4) {
      std::memset(bytes, 0xff, sizeof(Block));
      const uint16_t sign = subtracts ? 0 : 0x8000;
      const uint16_t large = 0x6c00;  // 4096
      const uint16_t small = 0x5c00;  // 256
      blocks[b].*scale = row % 2 == 0 ? small : small ^ 0x8000;
      blocks[b].*offset = static_cast<uint16_t>((row < 2 ? large : large ^ 0x8000) ^ sign);
    } else {
      blocks[b].*scale = half();
      blocks[b].*offset = half();
    }
  }
  return blocks;
}

// Likewise with offsets: each is multiplied with a block's sum, which is rounded as its dot product
// is, and no sum is too large, whatever the signs.
template <class Block>
void expect_pairs_with_offsets(const KernelTable& kernels, DType dtype,
                               const std::vector<Block>& blocks, const PackedFormat& format) {
  SCOPED_TRACE(info(dtype).name);
  const auto blocks_of_a_row = std::ssize(blocks) / kGroupRows;
  const auto columns = static_cast<size_t>(blocks_of_a_row * Block::kSize);
  std::mt19937 random(17);
  const Group group(kernels, matrix_of(dtype, blocks));
  const auto shift_of = [](size_t b) { return std::array<int, 4>{0, 3, kMostPairShift, 0}[b % 4]; };
  for (const bool is_random : {true, false}) {
    std::vector<float> codes(columns, 127.0F);  // of x
    for (size_t c = 0; is_random && c < columns; ++c) {
      if (c % 32 != 0) codes[c] = static_cast<float>(random_code(random));
    }
    std::vector<float> x = codes;
    for (size_t c = 0; is_random && c < columns; ++c) x[c] = std::ldexp(x[c], -shift_of(c / 32));
    for (const int64_t rows : kNumRows) {
      const std::vector<float> out = group.times(x, rows);
      for (size_t i = 0; i < out.size(); ++i) {
        const auto r = static_cast<int64_t>(i % kGroupRows);
        const CountedRow row =
            counted(format, blocks.data() + r * blocks_of_a_row, blocks_of_a_row);
        double want = 0;
        double sizes = 0;
        for (size_t b = 0; b < row.scales.size(); ++b) {
          int32_t dot = 0;
          float sum = 0;
          for (size_t c = 0; c < 32; ++c) {
            dot += static_cast<int32_t>(codes[32 * b + c] * row.codes[b][c]);
            sum += codes[32 * b + c];
          }
          const int shift = is_random ? shift_of(b) : 0;
          const int right = shift + wide_dot_bits(format);
          const double counts =
              row.scales[b] * ((rounding_of(static_cast<int64_t>(b), right) + dot) >> right) +
              row.offsets[b] * std::nearbyint(std::ldexp(sum, kSumBits - shift));
          want += counts * (1 << wide_dot_bits(format)) * row.most / kMostIntegerScale;
          sizes += std::fabs(counts * (1 << wide_dot_bits(format)) * row.most / kMostIntegerScale);
        }
        EXPECT_NEAR(out[i], want, 3e-7 * sizes) << "row " << r << " of x " << is_random;
      }
    }
  }
}

TEST_P(QuantizedProductsTest, PairsWithOffsetsAreOneSum) {
  std::mt19937 random(16);
  using quant::BlockQ4_1, quant::BlockQ4K, quant::BlockQ5_1, quant::BlockQ5K;
  expect_pairs_with_offsets(
      kernels(), DType::q4_1,
      blocks_with_offsets(5, &BlockQ4_1::scale, &BlockQ4_1::min, false, random), kPackQ4_1);
  expect_pairs_with_offsets(
      kernels(), DType::q5_1,
      blocks_with_offsets(7, &BlockQ5_1::scale, &BlockQ5_1::min, false, random), kPackQ5_1);
  expect_pairs_with_offsets(
      kernels(), DType::q4_k,
      blocks_with_offsets(3, &BlockQ4K::super_scale, &BlockQ4K::super_offset, true, random),
      kPackQ4K);
  expect_pairs_with_offsets(
      kernels(), DType::q5_k,
      blocks_with_offsets(3, &BlockQ5K::super_scale, &BlockQ5K::super_offset, true, random),
      kPackQ5K);
}

/// Rows 2, 3 and 5 have a scale or an offset that is none, row 7 only zeros.
void expect_rows_show_it(const KernelTable& kernels, const OwnedTensor& matrix,
                         std::mt19937& random) {
  std::vector<float> x(static_cast<size_t>(matrix.view.dim(1)));
  for (float& v : x) v = static_cast<float>(random_code(random));
  const Group group(kernels, matrix);
  for (const int64_t rows : kNumRows) {
    const std::vector<float> out = group.times(x, rows);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t row = i % kGroupRows;
      EXPECT_EQ(std::isfinite(out[i]), row != 2 && row != 3 && row != 5) << "row " << row;
      EXPECT_TRUE(row != 7 || out[i] == 0.0F);
    }
  }
}

template <class Block>
void expect_offsets_show_it(const KernelTable& kernels, DType dtype, uint16_t Block::*scale,
                            uint16_t Block::*offset) {
  SCOPED_TRACE(info(dtype).name);
  constexpr int64_t kBlocks = 3;
  std::mt19937 random(18);
  std::vector<Block> blocks = blocks_with_offsets(kBlocks, scale, offset, false, random);
  blocks[2 * kBlocks].*offset = 0x7c00;      // infinity
  blocks[3 * kBlocks + 1].*scale = 0xfc00;   // less than anything
  blocks[5 * kBlocks + 2].*offset = 0x7e00;  // NaN
  for (size_t b = 7 * kBlocks; b < 8 * kBlocks; ++b) {
    blocks[b].*scale = 0;
    blocks[b].*offset = 0;
  }
  expect_rows_show_it(kernels, matrix_of(dtype, blocks), random);
}

TEST_P(QuantizedProductsTest, RowsOfOffsetsThatAreNoneShowIt) {
  expect_offsets_show_it(kernels(), DType::q5_1, &quant::BlockQ5_1::scale, &quant::BlockQ5_1::min);
  expect_offsets_show_it(kernels(), DType::q4_k, &quant::BlockQ4K::super_scale,
                         &quant::BlockQ4K::super_offset);
}

/// Of rows of five: those that mostly ask for less than 1/4096 of the largest are counted, but not
/// for nothing, and an offset asks, too.
template <class Block>
void expect_small_rows_are_counted(const KernelTable& kernels, DType dtype, uint16_t Block::*scale,
                                   uint16_t Block::*offset) {
  SCOPED_TRACE(info(dtype).name);
  constexpr int64_t kBlocks = 5;
  constexpr uint16_t kOne = ScaledBlocks::kOne;
  constexpr uint16_t kSmall = 0x0c00;  // 2^-12
  std::vector<Block> blocks(kGroupRows * kBlocks);
  for (Block& block : blocks) block.*scale = kOne;
  const auto count = [&] {
    const OwnedTensor matrix = matrix_of(dtype, blocks);
    const WeightLayout layout = weight_layout(matrix.view);
    std::vector<uint8_t> group(static_cast<size_t>(layout.group_bytes));
    return pack_group(kernels, layout, matrix.view, 0, group.data());
  };
  const auto set_row = [&](size_t row, const std::array<uint16_t, kBlocks>& scales,
                           const std::array<uint16_t, kBlocks>& offsets) {
    for (size_t b = 0; b < kBlocks; ++b) {
      blocks[row * kBlocks + b].*scale = scales[b];
      blocks[row * kBlocks + b].*offset = offsets[b];
    }
  };
  EXPECT_EQ(count(), 0);
  set_row(1, {kSmall, kSmall, kOne, 0, kOne}, {});                 // as many are not
  set_row(2, {kSmall, kSmall, kSmall, kOne, kOne}, {kOne, kOne});  // their offsets ask
  set_row(3, {0, 0, 0, 0, kOne}, {});
  set_row(4, {kSmall, kSmall, kSmall, kSmall, kOne}, {0, 0, 0, 0, 0x7e00});  // shows by itself
  EXPECT_EQ(count(), 0);
  set_row(5, {kSmall, kSmall, kSmall, 0, kOne}, {});
  set_row(6, {0, 0, 0, kOne, kOne}, {kSmall, kSmall, kSmall, 0, 0});
  set_row(7, {kOne, kOne, kOne, kOne, kOne}, {0, 0, 0, 0, 0x7b00});  // one offset of 57344
  EXPECT_EQ(count(), 3);
}

TEST_P(QuantizedProductsTest, RowsOfMostlySmallOffsetsAreCounted) {
  expect_small_rows_are_counted(kernels(), DType::q5_1, &quant::BlockQ5_1::scale,
                                &quant::BlockQ5_1::min);
  expect_small_rows_are_counted(kernels(), DType::q4_k, &quant::BlockQ4K::super_scale,
                                &quant::BlockQ4K::super_offset);
}

TEST_P(QuantizedProductsTest, RowsOfScalesThatAreNoneShowIt) {
  constexpr int64_t kBlocks = 3;
  for (const DType dtype : kScaledTypes) {
    SCOPED_TRACE(info(dtype).name);
    std::mt19937 random(14);
    const ScaledBlocks blocks(dtype, kBlocks, random);
    blocks.set_scale(2 * kBlocks, 0x7c00);      // infinity
    blocks.set_scale(3 * kBlocks + 1, 0xfc00);  // less than anything
    blocks.set_scale(5 * kBlocks + 2, 0x7e00);  // NaN
    for (int64_t b = 0; b < kBlocks; ++b) blocks.set_scale(7 * kBlocks + b, 0);
    expect_rows_show_it(kernels(), blocks.matrix, random);
  }
}

TEST_P(QuantizedProductsTest, RowsOfMostlySmallScalesAreCounted) {
  constexpr int64_t kBlocks = 5;
  for (const DType dtype : kScaledTypes) {
    std::mt19937 random(15);
    const ScaledBlocks blocks(dtype, kBlocks, random);
    const WeightLayout layout = weight_layout(blocks.matrix.view);
    std::vector<uint8_t> group(static_cast<size_t>(layout.group_bytes));
    const auto count = [&] {
      return pack_group(kernels(), layout, blocks.matrix.view, 0, group.data());
    };
    EXPECT_EQ(count(), 0);
    const auto set_row = [&](int64_t row, const std::array<uint16_t, kBlocks>& scales) {
      for (int64_t b = 0; b < kBlocks; ++b)
        blocks.set_scale(row * kBlocks + b, scales[static_cast<size_t>(b)]);
    };
    constexpr uint16_t kSmall = 0x15da;   // 1/700
    constexpr uint16_t kEnough = 0x188d;  // 1/450
    set_row(0, {kEnough, kEnough, kEnough, kEnough, ScaledBlocks::kOne});
    set_row(1, {0, 0, 0, 0, ScaledBlocks::kOne});
    set_row(2, {kSmall, kSmall, ScaledBlocks::kOne, 0, ScaledBlocks::kOne});
    EXPECT_EQ(count(), 0);
    set_row(4, {kSmall, kSmall, kSmall, kSmall, 0x7c00});  // shows by itself
    EXPECT_EQ(count(), 0);
    set_row(3, {kSmall, 0, kSmall, 0, ScaledBlocks::kOne});
    set_row(9, {kSmall, ScaledBlocks::kOne, kSmall, kSmall, kSmall});
    EXPECT_EQ(count(), 2);
  }
}

// Sums are kept in units of the span at hand, or of the row, whatever the last span's scale was.
TEST_P(QuantizedProductsTest, SpansOfAnySizeAddUp) {
  constexpr int64_t kColumns = 512;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array<std::array<float, 4>, 9> kSizes{{{0, 0, 0, 1},
                                                        {1, 0, 0, 0},
                                                        {0, 1, 1e-3F, 0},
                                                        {1e-36F, 1e30F, 1e-36F, 1e-30F},
                                                        {1e30F, 1e-30F, 1, 1e-10F},
                                                        {1e-25F, 1e-15F, 1e15F, 1e25F},
                                                        {1e25F, 1e15F, 1e-15F, 1e-25F},
                                                        {1, kNan, 1, 1},
                                                        {1, 1, 1, kInfinity}}};
  // With integer scales, and offsets; of four blocks in halves.
  for (const DType dtype : {DType::q8_0, DType::q5_1, DType::q6_k, DType::q2_k}) {
    SCOPED_TRACE(info(dtype).name);
    std::mt19937 random(13);
    OwnedTensor matrix(dtype, {kGroupRows, kColumns});
    std::vector<std::vector<float>> weights(kGroupRows, std::vector<float>(kColumns));
    for (int64_t r = 0; r < kGroupRows; ++r) {
      std::vector<float>& row = weights[static_cast<size_t>(r)];
      for (float& v : row) v = 0.0625F * static_cast<float>(random_code(random));
      quant::encode_row(dtype, row.data(), matrix.view.row(r), kColumns);
      quant::decode_row(dtype, matrix.view.row(r), row.data(), kColumns);
    }
    const Group group(kernels(), matrix);
    for (const auto& sizes : kSizes) {
      std::vector<float> x(kColumns);
      for (size_t c = 0; c < x.size(); ++c)
        x[c] = sizes[c / 128] * static_cast<float>(random_code(random));
      const bool finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
      for (const int64_t rows : kNumRows) {
        const std::vector<float> out = group.times(x, rows);
        for (size_t i = 0; i < out.size(); ++i) {
          double want = 0;
          double most = 0;
          for (size_t c = 0; c < x.size(); ++c) {
            const double product = double{weights[i % kGroupRows][c]} * double{x[c]};
            want += product;
            most = std::max(most, std::fabs(product));
          }
          if (finite) {
            EXPECT_NEAR(out[i], want, most * 0.1) << sizes[0] << " " << sizes[3];
          } else {
            EXPECT_FALSE(std::isfinite(out[i]));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedProductsTest,
                         ::testing::ValuesIn(tables_with_own(&KernelTable::quant_matmul)),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace hasten::cpu
