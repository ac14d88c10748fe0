// SPDX-License-Identifier: Apache-2.0
// Tests of the block formats: known bytes, error bounds of encoding, hostile values.
#include "quant/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/half.h"

namespace hasten::quant {
namespace {

struct Golden {
  DType dtype;
  size_t scale_at;
  int second_at;  // -1: the format has one binary16 number
  double first;
  double last;
  double sum;
  double weighted_sum;
};

constexpr Golden kGolden[] = {
#include "quant/golden_blocks.inl"
};

std::vector<DType> block_formats() {
  std::vector<DType> formats;
  for (const Golden& golden : kGolden) formats.push_back(golden.dtype);
  return formats;
}

std::vector<std::byte> golden_bytes(const Golden& golden) {
  std::vector<std::byte> bytes(static_cast<size_t>(info(golden.dtype).block_bytes));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 73 + 41);
  const auto put = [&](size_t at, float value) {
    const uint16_t bits = f32_to_f16(value);
    bytes[at] = static_cast<std::byte>(bits);
    bytes[at + 1] = static_cast<std::byte>(bits >> 8);
  };
  put(golden.scale_at, 0.0371F);
  if (golden.second_at >= 0) put(static_cast<size_t>(golden.second_at), -0.219F);
  return bytes;
}

std::vector<float> round_trip(DType dtype, const std::vector<float>& in) {
  const auto count = static_cast<int64_t>(in.size());
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, count)));
  std::vector<float> out(in.size());
  encode_row(dtype, in.data(), row.data(), count);
  decode_row(dtype, row.data(), out.data(), count);
  return out;
}

// sqrt(sum (out - in)^2 / sum in^2)
double relative_rms(const std::vector<float>& in, const std::vector<float>& out) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    error += std::pow(double{out[i]} - in[i], 2);
    power += std::pow(double{in[i]}, 2);
  }
  return std::sqrt(error / power);
}

TEST(Codec, KnowsTheBlockSizesOfTheTable) {
  EXPECT_EQ(std::size(kGolden), 12U);
  for (int i = 0; i <= static_cast<int>(DType::iq4_xs); ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool plain = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    ASSERT_EQ(has_codec(dtype), info(dtype).quantized || plain) << info(dtype).name;
    if (!has_codec(dtype)) continue;
    // Throws when codec and table of types disagree about the block.
    round_trip(dtype, std::vector<float>(static_cast<size_t>(info(dtype).block_size) * 3, 0.5F));
  }
  float value = 0;
  EXPECT_THROW(decode_row(DType::i8, &value, &value, 1), Error);
  EXPECT_THROW(decode_row(DType::q4_0, &value, &value, 31), Error);
}

TEST(Codec, DecodesKnownBytes) {
  for (const Golden& golden : kGolden) {
    const auto bytes = golden_bytes(golden);
    std::vector<float> out(static_cast<size_t>(info(golden.dtype).block_size));
    decode_row(golden.dtype, bytes.data(), out.data(), static_cast<int64_t>(out.size()));
    double sum = 0;
    double weighted_sum = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      sum += out[i];
      weighted_sum += double{out[i]} * static_cast<double>(i + 1);
    }
    EXPECT_EQ(out.front(), golden.first) << info(golden.dtype).name;
    EXPECT_EQ(out.back(), golden.last) << info(golden.dtype).name;
    EXPECT_EQ(sum, golden.sum) << info(golden.dtype).name;
    EXPECT_EQ(weighted_sum, golden.weighted_sum) << info(golden.dtype).name;
  }
}

TEST(Codec, RowsNeedNoAlignment) {
  for (const Golden& golden : kGolden) {
    auto bytes = golden_bytes(golden);
    bytes.insert(bytes.begin(), std::byte{0});
    std::vector<float> out(static_cast<size_t>(info(golden.dtype).block_size));
    decode_row(golden.dtype, bytes.data() + 1, out.data(), static_cast<int64_t>(out.size()));
    EXPECT_EQ(out.front(), golden.first);
  }
}

struct Bound {
  DType dtype;
  double gaussian_rms;  // relative RMS error of N(0, 1) rows
  double worst;         // worst error of one element, relative to the largest of its block
};

// A tenth above what this input measures; f16 and bf16 as their mantissas say.
constexpr Bound kBounds[] = {
    {DType::f32, 0, 0},          {DType::f16, 0x1p-11, 0x1p-11}, {DType::bf16, 0x1p-8, 0x1p-8},
    {DType::q4_0, 0.095, 0.13},  {DType::q4_1, 0.086, 0.073},    {DType::q5_0, 0.047, 0.068},
    {DType::q5_1, 0.042, 0.035}, {DType::q8_0, 0.0059, 0.0044},  {DType::q2_k, 0.3, 0.53},
    {DType::q3_k, 0.16, 0.22},   {DType::q4_k, 0.079, 0.1},      {DType::q5_k, 0.04, 0.05},
    {DType::q6_k, 0.02, 0.019},  {DType::iq4_nl, 0.081, 0.144},  {DType::iq4_xs, 0.082, 0.128},
};

TEST(Codec, EncodingErrorIsBounded) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> in(256 * 64);
  for (float& x : in) x = normal(random);
  for (const Bound& bound : kBounds) {
    const auto out = round_trip(bound.dtype, in);
    const auto block = static_cast<size_t>(info(bound.dtype).block_size);
    double worst = 0;
    for (size_t begin = 0; begin < in.size(); begin += block) {
      double peak = 0;
      double error = 0;
      for (size_t i = begin; i < begin + block; ++i) {
        peak = std::max(peak, std::fabs(double{in[i]}));
        error = std::max(error, std::fabs(double{out[i]} - in[i]));
      }
      worst = std::max(worst, error / peak);
    }
    const double rms = relative_rms(in, out);
    std::printf("%-7s rms %.5f worst %.5f\n", std::string(info(bound.dtype).name).c_str(), rms,
                worst);
    EXPECT_LE(rms, bound.gaussian_rms) << info(bound.dtype).name;
    EXPECT_LE(worst, bound.worst) << info(bound.dtype).name;
  }
}

TEST(Codec, EncodesZerosAsZeros) {
  for (const DType dtype : block_formats()) {
    for (const float x : round_trip(dtype, std::vector<float>(512, 0.0F)))
      ASSERT_EQ(x, 0.0F) << info(dtype).name;
  }
}

TEST(Codec, EncodesConstants) {
  for (const DType dtype : block_formats()) {
    for (const float value : {1.0F, -1.0F, 0.37F, -123.0F}) {
      for (const float x : round_trip(dtype, std::vector<float>(256, value)))
        ASSERT_NEAR(x, value, std::fabs(value) * 0.13F) << info(dtype).name;
    }
  }
}

TEST(Codec, FiniteInputStaysFinite) {
  const float extremes[] = {0.0F,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(),
                            -1e-40F,
                            1e-8F,
                            65504.0F,
                            -1e30F,
                            1.0F};
  std::mt19937 random(11);
  for (const DType dtype : block_formats()) {
    for (int trial = 0; trial < 200; ++trial) {
      // Some rows of one extreme, some of two, some of all.
      const size_t kinds = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 2 : std::size(extremes);
      const size_t first = random() % std::size(extremes);
      std::vector<float> in(256);
      for (float& x : in) x = extremes[(first + random() % kinds) % std::size(extremes)];
      for (const float x : round_trip(dtype, in)) ASSERT_TRUE(std::isfinite(x)) << info(dtype).name;
    }
  }
}

}  // namespace
}  // namespace hasten::quant
