// SPDX-License-Identifier: Apache-2.0
// Scans of rows, whole and in parts, against plain searches.
#include "ops/row_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace hasten::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Many equals.
std::vector<float> random_row(std::mt19937& random, size_t size) {
  std::vector<float> row(size);
  for (float& value : row) value = static_cast<float>(random() % 3000) - 2000.0F;
  return row;
}

TEST(RowScan, FindsTheFirstOfTheLargest) {
  std::mt19937 random(31);
  for (const size_t size : {1U, 2U, 15U, 17U, 399U, 1000U, 1024U, 1025U, 5000U, 50'000U}) {
    for (int round = 0; round < 20; ++round) {
      const std::vector<float> row = random_row(random, size);
      const auto expected = std::ranges::max_element(row);
      const RowScan scan = scan_row(row);
      EXPECT_EQ(scan.likeliest, expected - row.begin());
      EXPECT_EQ(scan.most, *expected);
      EXPECT_EQ(scan.num_not_finite, 0);
    }
  }
}

TEST(RowScan, CountsWhatIsNotFinite) {
  std::mt19937 random(7);
  for (const size_t size : {2U, 1000U, 5000U}) {
    std::vector<float> row = random_row(random, size);
    row[random() % size] = std::nanf("");
    row[size - 1] = kInfinity;
    const auto bad = std::ranges::count_if(
        row, [](float value) { return std::isnan(value) || value == kInfinity; });
    EXPECT_EQ(scan_row(row).num_not_finite, bad);
  }
  const std::vector<float> nothing(7, std::nanf(""));
  EXPECT_EQ(scan_row(nothing).num_not_finite, 7);
  EXPECT_EQ(scan_row(nothing).likeliest, 0);
  EXPECT_EQ(scan_row({}).num_not_finite, 0);
  EXPECT_EQ(scan_row(std::vector<float>(9, -kInfinity)).likeliest, 0);
  EXPECT_EQ(scan_row(std::vector<float>(9, -kInfinity)).num_not_finite, 0);
}

TEST(RowScan, PartsTellWhatTheWholeTells) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> row = random_row(random, 1 + random() % 4000);
    if (round % 2 == 0) row[random() % row.size()] = std::nanf("");
    const size_t cut = random() % row.size();
    RowScan joined = scan_row(std::span(row).first(cut));
    joined.join(scan_row(std::span(row).subspan(cut)), static_cast<int64_t>(cut));
    const RowScan whole = scan_row(row);
    EXPECT_EQ(joined.likeliest, whole.likeliest);
    EXPECT_EQ(joined.most, whole.most);
    EXPECT_EQ(joined.num_not_finite, whole.num_not_finite);
  }
}

}  // namespace
}  // namespace hasten::ops
