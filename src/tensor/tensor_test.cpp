// SPDX-License-Identifier: Apache-2.0
// Tests of element types, 16-bit conversions, shapes, views and buffers.
#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "hasten/error.h"
#include "tensor/half.h"
#include "tensor/kv_types.h"

namespace hasten {
namespace {

TEST(DType, NamesRoundTrip) {
  EXPECT_EQ(dtype_from_name("Q4_K"), DType::q4_k);
  EXPECT_EQ(dtype_from_name("iq4_xs"), DType::iq4_xs);
  EXPECT_FALSE(dtype_from_name("q9_z"));
  EXPECT_EQ(row_bytes(DType::q4_0, 64), 36);
  EXPECT_EQ(row_bytes(DType::q6_k, 512), 420);
  EXPECT_THROW((void)row_bytes(DType::q4_0, 33), Error);
}

TEST(KvTypes, AreOneNameForBothOrOneForEach) {
  const auto types = [](std::string_view names) {
    return kv_types_from_name(names, DType::f32, "--flag");
  };
  EXPECT_EQ(types("q8_0"), std::pair(DType::q8_0, DType::q8_0));
  EXPECT_EQ(types("fp8/auto"), std::pair(DType::f8_e4m3, DType::f32));
  for (const std::string_view wrong : {"", "q4_k", "q8_0/", "f16/f16/f16"}) {
    try {
      (void)types(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(std::string_view(error.what()).starts_with("--flag \"")) << error.what();
    }
  }
}

TEST(Half, EveryBinary16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    } else {
      EXPECT_EQ(f32_to_f16(value), bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F), 0x3c00);             // tie to even: down
  EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F + 0x1p-20F), 0x3c01);  // above the tie: up
  EXPECT_EQ(f32_to_f16(1.0F + 3 * 0x1p-11F), 0x3c02);         // tie to even: up
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-0x1p-25F), 0x8000);  // half the least subnormal: to even
  EXPECT_EQ(f32_to_bf16(1.0F + 0x1p-8F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0F + 3 * 0x1p-8F), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ((Shape{2, 3, 4}.num_elements()), 24);
  EXPECT_EQ((Shape{2, 3}.to_string()), "[2, 3]");
  EXPECT_EQ(Shape{}.num_elements(), 1);
}

TEST(Tensor, SlicesRowsOfBlocks) {
  OwnedTensor tensor(DType::q8_0, {4, 64});
  EXPECT_EQ(tensor.view.num_bytes(), 4 * 68);
  const Tensor middle = tensor.view.slice(1, 2);
  EXPECT_EQ(middle.shape(), (Shape{2, 64}));
  EXPECT_EQ(static_cast<std::byte*>(middle.data()) - tensor.buffer.data(), 68);
  EXPECT_THROW((void)tensor.view.slice(3, 2), Error);
  EXPECT_THROW((void)tensor.view.f32(), Error);
}

TEST(Buffer, IsAlignedAndZeroed) {
  const Buffer buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0U);
  for (int64_t i = 0; i < buffer.num_bytes(); ++i) EXPECT_EQ(buffer.data()[i], std::byte{0});
}

TEST(Buffer, LargeOnesAreZeroedToo) {
  constexpr int64_t kBytes = 9 << 20;
  for (int turn = 0; turn < 2; ++turn) {  // the second could get what the first gave back
    const Buffer buffer(kBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0U);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + kBytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    std::memset(buffer.data(), 0xff, kBytes);
  }
  try {
    const Buffer none(int64_t{1} << 60);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  }
}

}  // namespace
}  // namespace hasten
