// SPDX-License-Identifier: Apache-2.0
// Tests of the rows that caches keep: how near they come, rotation, and what is no number.
#include "ops/kv_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace hasten::ops {
namespace {

std::vector<float> normals(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

/// What comes back of a row, rotated back.
std::vector<float> kept(DType type, const std::vector<float>& x) {
  const auto size = static_cast<int64_t>(x.size());
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(type, size)));
  std::vector<float> out(x.size());
  encode_kv_row(type, x.data(), size, row.data());
  decode_kv_row(type, row.data(), size, out.data());
  if (is_rotated(type)) rotate(out.data(), size);
  return out;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(error / norm);
}

TEST(KvRow, RotationIsItsOwnInverseAndKeepsProducts) {
  for (const int64_t size : {32, 64, 96, 128, 80}) {
    const auto x = normals(size, 1);
    const auto y = normals(size, 2);
    auto rotated_x = x;
    auto rotated_y = y;
    rotate(rotated_x.data(), size);
    rotate(rotated_y.data(), size);
    double product = 0;
    double rotated_product = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      product += double{x[i]} * y[i];
      rotated_product += double{rotated_x[i]} * rotated_y[i];
    }
    EXPECT_NEAR(rotated_product, product, 1e-4) << size;
    EXPECT_GT(relative_error(rotated_x, x), 0.5) << size;
    rotate(rotated_x.data(), size);
    EXPECT_LT(relative_error(rotated_x, x), 1e-6) << size;
  }
}

TEST(KvRow, ComesAsNearAsItsBitsAllow) {
  const auto x = normals(128, 3);
  EXPECT_EQ(kept(DType::f32, x), x);
  EXPECT_LT(relative_error(kept(DType::f16, x), x), 4e-4);
  EXPECT_LT(relative_error(kept(DType::bf16, x), x), 3e-3);
  EXPECT_LT(relative_error(kept(DType::f8_e4m3, x), x), 4e-2);
  EXPECT_LT(relative_error(kept(DType::q8_0, x), x), 1e-2);
  EXPECT_LT(relative_error(kept(DType::q4_0, x), x), 0.12);
}

// What the rotation is for: one element that dwarfs the others of its block.
TEST(KvRow, AnOutlierDoesNotCostTheOthersTheirBits) {
  auto x = normals(128, 4);
  x[5] = 60;
  auto others = kept(DType::q4_0, x);
  others[5] = x[5];
  // Unrotated, a step of 60 / 8 would take nearly all the others to zero.
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(double{others[i]} - x[i], 2);
  EXPECT_LT(std::sqrt(error / static_cast<double>(x.size())), 0.7);
}

TEST(KvRow, SaturatesAndHidesNoFault) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto x = normals(64, 5);
  x[1] = 1e6F;
  EXPECT_EQ(kept(DType::f16, x)[1], 65504.0F);
  EXPECT_EQ(kept(DType::f8_e4m3, x)[1], 448.0F);
  for (const float fault : {kInfinity, std::nanf("")}) {
    x[1] = fault;
    for (const DType type : {DType::q8_0, DType::q4_0}) {
      EXPECT_TRUE(std::isnan(kept(type, x)[1])) << info(type).name;
      EXPECT_TRUE(std::isnan(kept(type, x)[2])) << info(type).name;
    }
    EXPECT_FALSE(std::isnan(kept(DType::q8_0, x)[40])) << "of another block";
  }
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3})
    EXPECT_TRUE(std::isnan(kept(type, x)[1])) << info(type).name;
}

TEST(KvRow, TypesThatDoNotFitAreRefusedByName) {
  const auto message = [](KvTypes types, int64_t head_dim) -> std::string {
    try {
      check_kv_types({.head_dim = head_dim, .types = types});
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message({}, 80), "");
  EXPECT_EQ(message({.values = DType::q8_0}, 64), "");
  EXPECT_NE(message({.values = DType::q8_0}, 80).find("80"), std::string::npos);
  EXPECT_NE(message({.keys = DType::q4_0}, 48).find("q4_0"), std::string::npos);
  EXPECT_NE(message({.keys = DType::q6_k}, 256).find("q6_k"), std::string::npos);
}

}  // namespace
}  // namespace hasten::ops
