// SPDX-License-Identifier: Apache-2.0
// Tests of the 8-bit floats: every number, every tie, what is too large, and what is none.
#include "tensor/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hasten {
namespace {

TEST(Float8, KnowsTheSpecification) {
  EXPECT_EQ(f8_e4m3_to_f32(0x00), 0.0F);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9F);
  EXPECT_EQ(f8_e4m3_to_f32(0x07), 0x7p-9F);
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0x1p-6F);
  EXPECT_EQ(f8_e4m3_to_f32(0x38), 1.0F);
  EXPECT_EQ(f8_e4m3_to_f32(0xb9), -1.125F);
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0F);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7f)));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0xff)));
  EXPECT_TRUE(std::signbit(f8_e4m3_to_f32(0x80)));
}

TEST(Float8, EveryNumberComesBack) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    EXPECT_EQ(f32_to_f8_e4m3(f8_e4m3_to_f32(code)), code) << bits;
  }
}

// Between two neighbours the nearer one wins, and halfway the one with an even last bit.
TEST(Float8, RoundsToNearestEven) {
  for (uint8_t code = 0; code < 0x7e; ++code) {
    const float low = f8_e4m3_to_f32(code);
    const float high = f8_e4m3_to_f32(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    const auto even = static_cast<uint8_t>(code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(f32_to_f8_e4m3(middle), even) << int{code};
    EXPECT_EQ(f32_to_f8_e4m3(-middle), even | 0x80) << int{code};
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(middle, low)), code) << int{code};
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(middle, high)), code + 1) << int{code};
  }
}

TEST(Float8, SaturatesAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float large : {449.0F, 464.0F, 1e9F, kInfinity}) {
    EXPECT_EQ(f32_to_f8_e4m3(large), 0x7e) << large;
    EXPECT_EQ(f32_to_f8_e4m3(-large), 0xfe) << large;
  }
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(f32_to_f8_e4m3(std::nanf("")))));
}

}  // namespace
}  // namespace hasten
