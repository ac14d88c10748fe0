// SPDX-License-Identifier: Apache-2.0
// Tests of what the kernels of each instruction set compute, and of how one is chosen. Operations
// as a whole are held to the reference in tests/conformance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/ceilings.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "quant/q4_1.h"
#include "quant/q8_0.h"
#include "tensor/float8.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

namespace hasten::cpu {
namespace {

/// Sets HASTEN_CPU_ISA for its lifetime, and puts back what was there.
class ScopedIsa {
 public:
  explicit ScopedIsa(const char* value) {
    const char* old = std::getenv(kName);
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    if (value != nullptr) {
      setenv(kName, value, 1);
    } else {
      unsetenv(kName);
    }
  }
  ~ScopedIsa() {
    if (had_) {
      setenv(kName, old_.c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  static constexpr const char* kName = "HASTEN_CPU_ISA";
  std::string old_;
  bool had_ = false;
};

class KernelTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

TEST_P(KernelTest, ExponentialIsAccurate) {
  std::vector<float> x;
  for (float v = -87.0F; v <= 88.3F; v += 0.00137F) x.push_back(v);
  std::vector<float> y(x.size());
  kernels().exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(double{x[i]});
    worst = std::max(worst, std::fabs(y[i] - want) / want);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
}

TEST_P(KernelTest, ExponentialOfExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0F, -0.0F, -kInfinity, -1000.0F, kInfinity, 1000.0F, NAN};
  std::vector<float> y(x.size());
  kernels().exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 1.0F);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_EQ(y[3], 0.0F);
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_EQ(y[5], kInfinity);
  EXPECT_TRUE(std::isnan(y[6]));
}

TEST_P(KernelTest, SoftCapIsAccurateNearZeroAndFar) {
  std::vector<float> x;
  for (float v = 1e-6F; v < 500.0F; v *= 1.01F) {
    x.push_back(v);
    x.push_back(-v);
  }
  std::vector<float> y = x;
  kernels().soft_cap(y.data(), static_cast<int64_t>(y.size()), 30.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = 30.0 * std::tanh(x[i] / 30.0);
    EXPECT_NEAR(y[i], want, std::fabs(want) * 4e-7) << x[i];
  }
}

/// Of a row's block, column i.
int quantized_value(const uint8_t* row, int64_t i, int64_t value_bytes) {
  if (value_bytes == 1) return static_cast<int8_t>(row[i]);
  constexpr int kPlaces[4] = {0, 2, 1, 3};  // even columns, then odd ones
  int16_t value;
  std::memcpy(&value, row + 2 * (i / 4 * 4 + kPlaces[i % 4]), 2);
  return value;
}

TEST_P(KernelTest, QuantizedRowsAreNearAndSumUp) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = 96;
  const int64_t tile_rows =  // 3, or as many as the kernel takes
      std::min<int64_t>(3, std::max(kernels().quant_tile_rows, kernels().quant_direct_rows));
  ASSERT_GE(tile_rows, 2);
  constexpr int64_t kRow = 1;
  std::vector<float> rows(static_cast<size_t>(tile_rows * kColumns), -2.0F);
  float* const x = rows.data() + kRow * kColumns;
  for (int64_t i = 0; i < kColumns; ++i) x[i] = normal(random);
  x[33] = 100.0F;  // an outlier spoils only its own part
  for (const int64_t part_columns : {16, 32}) {
    for (int64_t value_bytes = 1; value_bytes <= kernels().wide_value_bytes; ++value_bytes) {
      for (const bool offsets : {false, true}) {
        const int64_t row_bytes = kBlockColumns * value_bytes;
        const int64_t block_bytes =
            activation_block_bytes(tile_rows, kBlockColumns / part_columns, value_bytes);
        constexpr int64_t kNumBlocks = kColumns / kBlockColumns;  // a span
        std::vector<uint8_t> tile(
            static_cast<size_t>(activation_bytes(
                tile_rows, kNumBlocks, kBlockColumns / part_columns, value_bytes, kNumBlocks)),
            77);
        kernels().quantize_tile({.x = rows.data(),
                                 .columns = kColumns,
                                 .part_columns = part_columns,
                                 .value_bytes = value_bytes,
                                 .offsets = offsets,
                                 .integer_scales = false,
                                 .wide_dot_bits = 0,
                                 .zero_point = 8,
                                 .tiles = tile.data(),
                                 .tile = {.num_rows = tile_rows,
                                          .num_blocks = kNumBlocks,
                                          .span_blocks = kNumBlocks,
                                          .first_row = 0,
                                          .rows = tile_rows}});
        float span_scale;
        std::memcpy(&span_scale, tile.data() + kNumBlocks * block_bytes + 4 * kRow, 4);
        EXPECT_FLOAT_EQ(span_scale, 100.0F / 127);
        for (int64_t begin = 0; begin < kColumns; begin += part_columns) {
          const uint8_t* block = tile.data() + begin / kBlockColumns * block_bytes;
          const int64_t part = begin % kBlockColumns / part_columns;
          const uint8_t* bases = block + tile_rows * (row_bytes + 8 * part) + 4 * kRow;
          float base;
          std::memcpy(&base, bases, 4);
          const float power = base / kFloatBase;
          EXPECT_EQ(std::exp2(std::round(std::log2(power))), power);
          const float scale = span_scale * power;
          EXPECT_EQ(scale > 0.05F, begin == 33 / part_columns * part_columns);
          int largest = 0;
          int32_t sum = 0;
          for (int64_t i = begin; i < begin + part_columns; ++i) {
            const int value =
                quantized_value(block + kRow * row_bytes, i % kBlockColumns, value_bytes);
            EXPECT_NEAR(static_cast<float>(value) * scale, x[i], scale * 0.5001F);
            sum += value;
            largest = std::max(largest, std::abs(value));
          }
          EXPECT_GE(largest, 63);  // no power of two is left
          int32_t bits;
          std::memcpy(&bits, bases + tile_rows * 4, 4);
          EXPECT_EQ(bits, offsets ? std::bit_cast<int32_t>(static_cast<float>(sum) * power)
                                  : std::bit_cast<int32_t>(base) - 8 * sum);
          for (int64_t other = 0; other < tile_rows; other += 2) {
            EXPECT_EQ(quantized_value(block + other * row_bytes, begin % 32, value_bytes), -127);
          }
        }
      }
    }
  }
}

// Three blocks, of which the second is much smaller than the first, and one that makes a pair.
TEST_P(KernelTest, PairsOfBlocksShareAScaleButForShifts) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  constexpr int64_t kColumns = 96;
  constexpr int64_t kNumBlocks = 4;
  constexpr int kWideDotBits = 4;
  constexpr int kZeroPoint = 128;
  constexpr float kPeaks[3] = {100, 1, 1};
  constexpr int kShifts[4] = {0, 6, 0, 12};
  const int64_t tile_rows = 2;
  std::vector<float> rows(static_cast<size_t>(tile_rows * kColumns), 1.0F);
  float* const x = rows.data() + kColumns;
  for (int64_t i = 0; i < kColumns; ++i) {
    x[i] = std::clamp(0.3F * normal(random), -1.0F, 1.0F) * kPeaks[i / 32];
  }
  for (int b = 0; b < 3; ++b) x[32 * b + 7] = kPeaks[b];
  for (int64_t value_bytes = 1; value_bytes <= kernels().wide_value_bytes; ++value_bytes) {
    const int64_t block_bytes = activation_block_bytes(tile_rows, 1, value_bytes);
    std::vector<uint8_t> tile(
        static_cast<size_t>(activation_bytes(tile_rows, kNumBlocks, 1, value_bytes, 2)), 77);
    kernels().quantize_tile({.x = rows.data(),
                             .columns = kColumns,
                             .part_columns = 32,
                             .value_bytes = value_bytes,
                             .offsets = false,
                             .integer_scales = true,
                             .wide_dot_bits = kWideDotBits,
                             .zero_point = kZeroPoint,
                             .tiles = tile.data(),
                             .tile = {.num_rows = tile_rows,
                                      .num_blocks = kNumBlocks,
                                      .span_blocks = 2,
                                      .first_row = 0,
                                      .rows = tile_rows}});
    for (int64_t b = 0; b < kNumBlocks; ++b) {
      const uint8_t* pair = tile.data() + b / 2 * (2 * block_bytes + 4 * tile_rows);
      const uint8_t* block = pair + b % 2 * block_bytes;
      float scale;
      std::memcpy(&scale, pair + 2 * block_bytes + 4, 4);
      const float peak = kPeaks[b / 2 * 2];
      EXPECT_FLOAT_EQ(scale, peak / 127 / (1 << (kIntegerScaleBits - kWideDotBits)));
      int32_t shift;
      std::memcpy(&shift, block + block_bytes - 8 * tile_rows + 4, 4);
      const int right = kShifts[b] + kWideDotBits;
      EXPECT_EQ(shift, b % 2 == 0 ? right : 16 - right) << "block " << b;
      int32_t sum = 0;
      for (int64_t i = 0; i < 32; ++i) {
        const int value = quantized_value(block + kBlockColumns * value_bytes, i, value_bytes);
        const float step = peak / 127 / static_cast<float>(1 << kShifts[b]);
        EXPECT_NEAR(static_cast<float>(value) * step, b < 3 ? x[32 * b + i] : 0, step * 0.5001F);
        sum += value;
      }
      int32_t start;
      std::memcpy(&start, block + block_bytes - 4 * tile_rows + 4, 4);
      EXPECT_EQ(start, (1 << (right - 1)) - kZeroPoint * sum);
    }
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
    for (int64_t num_rows = 1; num_rows < 20; ++num_rows) {
      const auto tiles = RowTiles::of(num_rows, 5, 3);
      int64_t before = 0;  // bytes
      for (int64_t panel = 0; panel < num_blocks; panel += kPanelBlocks) {
        const int64_t end = std::min(panel + kPanelBlocks, num_blocks);
        for (int64_t t = 0; t < tiles.count; ++t) {
          const int64_t first = tiles.first_row(t);
          const int64_t tile_rows = tiles.first_row(t + 1) - first;
          const ActivationTile tile{num_rows, num_blocks, span_blocks, first, tile_rows};
          for (int64_t block = panel; block < end; block += span_blocks) {
            EXPECT_EQ(tile.at(block, kRowBlockBytes), before);
            before += tile_rows * (std::min(span_blocks, end - block) * kRowBlockBytes + 4);
          }
        }
      }
      EXPECT_EQ(before, activation_bytes(num_rows, num_blocks, 2, 1, span_blocks));
    }
  }
}

/// What is multiplied in tests of products of q8_0: a code, or an activation.
int random_code(std::mt19937& random) { return static_cast<int>(random() % 255) - 127; }

/// The outputs of `num_rows` rows, all of them x.
std::vector<float> multiply_alike(ops::Backend& backend, const ops::Weight& weight,
                                  const std::vector<float>& x, int64_t num_rows) {
  const auto columns = static_cast<int64_t>(x.size());
  std::vector<float> rows;
  for (int64_t r = 0; r < num_rows; ++r) rows.insert(rows.end(), x.begin(), x.end());
  std::vector<float> out(static_cast<size_t>(num_rows * weight.out_features()));
  backend.matmul(
      {.weight = weight,
       .x = Tensor(static_cast<const void*>(rows.data()), DType::f32, {num_rows, columns}),
       .out =
           Tensor(static_cast<void*>(out.data()), DType::f32, {num_rows, weight.out_features()})});
  return out;
}

// With an activation scale of one, an output is the dot product times the weight's scale, and
// nothing else is rounded.
TEST_P(KernelTest, DotProductsTimesScalesAreRoundedOnce) {
  std::mt19937 random(11);
  OwnedTensor matrix(DType::q4_1, {kGroupRows, kBlockColumns});
  std::vector<quant::BlockQ4_1> blocks(kGroupRows);
  std::vector<float> x(kBlockColumns);
  for (float& v : x) v = static_cast<float>(random_code(random));
  x[0] = 127.0F;
  for (quant::BlockQ4_1& block : blocks) {
    block.scale = static_cast<uint16_t>(0x2000U + random() % 0x1c00U);  // 2^-7 to 1
    block.min = 0;
    for (auto& q : block.quants) q = static_cast<uint8_t>(random());
  }
  std::memcpy(matrix.view.data(), blocks.data(), blocks.size() * sizeof blocks[0]);
  const auto backend = make_cpu_backend({.threads = 1, .isa = kernels().name});
  const auto weight = backend->prepare_weight(matrix.view);
  for (const int64_t rows : {int64_t{1}, int64_t{40}}) {
    const std::vector<float> out = multiply_alike(*backend, *weight, x, rows);
    for (size_t i = 0; i < out.size(); ++i) {
      const quant::BlockQ4_1& block = blocks[i % kGroupRows];
      int32_t dot = 0;
      for (size_t c = 0; c < x.size(); ++c) {
        dot += static_cast<int32_t>(x[c]) * (block.quants[c % 16] >> (c < 16 ? 0 : 4) & 15);
      }
      EXPECT_EQ(out[i], static_cast<float>(double{f16_to_f32(block.scale)} * dot));
    }
  }
}

// Likewise of integer scales: dot products are rounded to sixteen bits, the scales of two blocks
// are parts of the larger one, and what they make together is rounded as a float is.
TEST_P(KernelTest, DotProductsOfPairsAreRoundedToSixteenBits) {
  std::mt19937 random(12);
  constexpr size_t kBlocks = 3;  // and one that makes a pair
  constexpr int64_t kColumns = 32 * kBlocks;
  OwnedTensor matrix(DType::q8_0, {kGroupRows, kColumns});
  std::vector<quant::BlockQ8_0> blocks(kGroupRows * kBlocks);
  std::vector<float> x(kColumns);
  for (float& v : x) v = static_cast<float>(random_code(random));
  for (size_t b = 0; b < kBlocks; ++b) x[32 * b] = 127.0F;
  for (quant::BlockQ8_0& block : blocks) {
    block.scale = static_cast<uint16_t>(0x2000U + random() % 0x1c00U);  // 2^-7 to 1
    if (random() % 4 == 0) block.scale ^= 0x8000U;
    for (auto& q : block.quants) q = static_cast<int8_t>(random_code(random));
  }
  // The largest products that there are, and their scales too.
  for (size_t b = 0; b < kBlocks; ++b) {
    blocks[b].scale = 0x3c00;
    for (size_t c = 0; c < 32; ++c) blocks[b].quants[c] = x[32 * b + c] < 0 ? 127 : -128;
  }
  std::memcpy(matrix.view.data(), blocks.data(), blocks.size() * sizeof blocks[0]);
  const auto backend = make_cpu_backend({.threads = 1, .isa = kernels().name});
  const auto weight = backend->prepare_weight(matrix.view);
  for (const int64_t rows : {int64_t{1}, int64_t{40}}) {
    const std::vector<float> out = multiply_alike(*backend, *weight, x, rows);
    for (size_t i = 0; i < out.size(); ++i) {
      const quant::BlockQ8_0* row = blocks.data() + i % kGroupRows * kBlocks;
      double most = 0;
      for (size_t b = 0; b < kBlocks; ++b) {
        most = std::max(most, std::fabs(double{f16_to_f32(row[b].scale)}));
      }
      double want = 0;
      double sizes = 0;
      for (size_t b = 0; b < kBlocks; ++b) {
        int32_t dot = 0;
        for (size_t c = 0; c < 32; ++c) {
          dot += static_cast<int32_t>(x[32 * b + c]) * row[b].quants[c];
        }
        const double scale = std::round(f16_to_f32(row[b].scale) / most * 32767) * most / 32767;
        want += scale * ((dot + 8) >> 4) * 16;
        sizes += std::fabs(scale * dot);
      }
      EXPECT_NEAR(out[i], want, 3e-7 * sizes);
    }
  }
}

// Sums are kept in units of the span at hand, whose scale may be anything beside the last one's.
TEST_P(KernelTest, ProductsOfSpansOfAnySizeAddUp) {
  constexpr int64_t kColumns = 256;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(13);
  OwnedTensor matrix(DType::q8_0, {kGroupRows, kColumns});
  std::vector<quant::BlockQ8_0> blocks(kGroupRows * kColumns / 32);
  for (quant::BlockQ8_0& block : blocks) {
    block.scale = 0x2c00;  // 2^-4
    for (auto& q : block.quants) q = static_cast<int8_t>(random_code(random));
  }
  std::memcpy(matrix.view.data(), blocks.data(), blocks.size() * sizeof blocks[0]);
  const auto backend = make_cpu_backend({.threads = 1, .isa = kernels().name});
  const auto weight = backend->prepare_weight(matrix.view);
  constexpr std::array<std::array<float, 4>, 9> kSizes{{{0, 0, 0, 1},
                                                        {1, 0, 0, 0},
                                                        {0, 1, 1e-3F, 0},
                                                        {1e-36F, 1e30F, 1e-36F, 1e-30F},
                                                        {1e30F, 1e-30F, 1, 1e-10F},
                                                        {1e-25F, 1e-15F, 1e15F, 1e25F},
                                                        {1e25F, 1e15F, 1e-15F, 1e-25F},
                                                        {1, kNan, 1, 1},
                                                        {1, 1, 1, kInfinity}}};
  for (const auto& sizes : kSizes) {
    std::vector<float> x(kColumns);
    for (size_t c = 0; c < x.size(); ++c)
      x[c] = sizes[c / 64] * static_cast<float>(random_code(random));
    const bool finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
    for (const int64_t rows : {int64_t{1}, int64_t{40}}) {
      const std::vector<float> out = multiply_alike(*backend, *weight, x, rows);
      for (size_t i = 0; i < out.size(); ++i) {
        double want = 0;
        double most = 0;
        for (size_t c = 0; c < x.size(); ++c) {
          const quant::BlockQ8_0& block = blocks[i % kGroupRows * (kColumns / 32) + c / 32];
          const double product = 0.0625 * block.quants[c % 32] * double{x[c]};
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

/// Brings the one token of a block to position `at` of a tile.
void load_token(const KernelTable& kernels, KvKind kind, const void* keys, const void* values,
                int64_t head_dim, int64_t at, std::vector<float>& tile_keys,
                std::vector<float>& tile_values) {
  kernels.attention.kv_load({.keys = static_cast<const uint8_t*>(keys),
                             .values = static_cast<const uint8_t*>(values),
                             .key_kind = kind,
                             .value_kind = kind,
                             .head_dim = head_dim,
                             .block_size = 1,
                             .first = 0,
                             .count = 1,
                             .tile_keys = tile_keys.data(),
                             .tile_values = tile_values.data(),
                             .padded_dim = head_dim,
                             .at = at});
}

// Runs of tokens at any place of a block, and nothing but them.
TEST_P(KernelTest, PairsOfARunLieWhereTheyAreRead) {
  if (kernels().bf16_pairs.store == nullptr)
    GTEST_SKIP() << "no pairs of bf16 on this instruction set";
  constexpr uint16_t kUntouched = 0xabab;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int64_t head_dim : {16, 48, 64}) {
    for (const int64_t block_size : {16, 32, 48}) {
      const int64_t stride = head_dim + 5;
      std::vector<float> k(block_size * stride);
      std::vector<float> v(block_size * stride);
      for (float& x : k) x = normal(random);
      for (float& x : v) x = normal(random);
      for (int64_t first = 0; first < block_size; ++first) {
        for (int64_t count = 1; first + count <= block_size; ++count) {
          constexpr int64_t kGuard = 64 * 32;  // elements; rows of a larger head in a larger block
          const int64_t size = block_size * head_dim;
          std::vector<uint16_t> guarded_keys(kGuard + size + kGuard, kUntouched);
          std::vector<uint16_t> guarded_values(guarded_keys);
          uint16_t* keys = guarded_keys.data() + kGuard;
          uint16_t* values = guarded_values.data() + kGuard;
          kernels().bf16_pairs.store({.k = k.data(),
                                      .v = v.data(),
                                      .token_stride = stride,
                                      .count = count,
                                      .head_dim = head_dim,
                                      .block_size = block_size,
                                      .first = first,
                                      .keys = reinterpret_cast<uint8_t*>(keys),
                                      .values = reinterpret_cast<uint8_t*>(values)});
          for (int64_t t = 0; t < block_size; ++t) {
            const bool stored = t >= first && t < first + count;
            for (int64_t d = 0; d < head_dim; ++d) {
              const int64_t from = (t - first) * stride + d;
              ASSERT_EQ(keys[(d / 2 * block_size + t) * 2 + d % 2],
                        stored ? f32_to_bf16(k[from]) : kUntouched)
                  << "key " << t << " of run " << first << " + " << count << ", element " << d;
              ASSERT_EQ(values[(t / 2 * head_dim + d) * 2 + t % 2],
                        stored ? f32_to_bf16(v[from]) : kUntouched)
                  << "value " << t << " of run " << first << " + " << count << ", element " << d;
            }
          }
          const auto is_untouched = [](uint16_t element) { return element == kUntouched; };
          for (const auto* guarded : {&guarded_keys, &guarded_values}) {
            ASSERT_TRUE(std::all_of(guarded->begin(), guarded->begin() + kGuard, is_untouched));
            ASSERT_TRUE(std::all_of(guarded->end() - kGuard, guarded->end(), is_untouched));
          }
        }
      }
    }
  }
}

// Every binary16 and bf16 through the cache: exact in, rounded to nearest even out.
TEST_P(KernelTest, CacheConversionsMatchTheScalarOnes) {
  constexpr int64_t kDim = 16;
  const auto saturated_f16 = [](float x) {
    return f32_to_f16(std::isnan(x) ? x : std::clamp(x, -65504.0F, 65504.0F));
  };
  std::vector<float> tile_keys(kDim * kTileKeys);
  std::vector<float> tile_values(kTileKeys * kDim);
  const auto check = [&](KvKind kind, const std::vector<float>& in, auto to_bits, auto to_float) {
    std::vector<uint16_t> keys(kDim);
    std::vector<uint16_t> values(kDim);
    for (std::vector<uint16_t>* to : {&keys, &values})
      kernels().kv_store({.x = in.data(),
                          .count = kDim,
                          .kind = kind,
                          .data = to->data(),
                          .first = 0,
                          .stride = 1});
    load_token(kernels(), kind, keys.data(), values.data(), kDim, 5, tile_keys, tile_values);
    for (int64_t d = 0; d < kDim; ++d) {
      const uint16_t want = to_bits(in[d]);
      if (std::isnan(in[d])) {
        EXPECT_TRUE(std::isnan(tile_values[5 * kDim + d]));
        continue;
      }
      EXPECT_EQ(keys[d], want) << in[d];
      EXPECT_EQ(values[d], want) << in[d];
      EXPECT_EQ(tile_values[5 * kDim + d], to_float(want));
      EXPECT_EQ(tile_keys[d * kTileKeys + 5], to_float(want));
    }
  };
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<float> in(kDim);
    for (float& v : in) {
      v = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (round % 2 == 0) v = f16_to_f32(static_cast<uint16_t>(random()));
    }
    check(KvKind::f16, in, saturated_f16, f16_to_f32);
    check(KvKind::bf16, in, f32_to_bf16, bf16_to_f32);
  }
}

TEST_P(KernelTest, EveryE4M3IsReadAsTheScalarOneIs) {
  constexpr int64_t kDim = 256;
  std::vector<uint8_t> codes(kDim);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  std::vector<float> tile_keys(kDim * kTileKeys);
  std::vector<float> tile_values(kTileKeys * kDim);
  load_token(kernels(), KvKind::f8_e4m3, codes.data(), codes.data(), kDim, 0, tile_keys,
             tile_values);
  for (int64_t i = 0; i < kDim; ++i) {
    const float want = f8_e4m3_to_f32(codes[i]);
    for (const float got : {tile_values[i], tile_keys[i * kTileKeys]}) {
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest,
                         ::testing::ValuesIn(supported_kernels().begin(),
                                             supported_kernels().end()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

TEST(Isa, GenericIsAlwaysThereAndLast) {
  ASSERT_FALSE(supported_isas().empty());
  EXPECT_EQ(supported_isas().back(), "generic");
}

TEST(Isa, ByNameElseByEnvironmentElseTheBest) {
  {
    const ScopedIsa none(nullptr);
    EXPECT_EQ(select_kernels({}).name, supported_isas().front());
    EXPECT_STREQ(select_kernels("generic").name, "generic");
    EXPECT_THROW((void)select_kernels("avx1024"), Error);
  }
  const ScopedIsa generic("generic");
  EXPECT_STREQ(select_kernels({}).name, "generic");
  EXPECT_EQ(select_kernels(supported_isas().front()).name, supported_isas().front());
  EXPECT_EQ(make_cpu_backend({.threads = 2})->name(), "cpu (generic, 2 threads)");
}

TEST(Isa, RefusesNegativeThreads) { EXPECT_THROW(make_cpu_backend({.threads = -1}), Error); }

TEST(Ceilings, AreOfThisCentury) {
  CeilingMeter meter(1);
  const Ceilings ceilings = meter.measure(20'000);
  EXPECT_GT(ceilings.read_bytes_per_s, 1e7);
  EXPECT_LT(ceilings.read_bytes_per_s, 1e13);
  EXPECT_GT(ceilings.int8_ops_per_s, 1e7);
  if (bf16_peak_kernel() == nullptr) {
    EXPECT_EQ(ceilings.bf16_flops_per_s, 0);
  } else {
    EXPECT_GT(ceilings.bf16_flops_per_s, 1e7);
  }
  EXPECT_GT(ceilings.f32_flops_per_s, 1e7);
  EXPECT_LT(ceilings.f32_flops_per_s, 1e14);
  EXPECT_GT(CeilingMeter(2).barrier_us(20'000), 0);
}

}  // namespace
}  // namespace hasten::cpu
