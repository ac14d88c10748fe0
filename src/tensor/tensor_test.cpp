// SPDX-License-Identifier: Apache-2.0
// Tests of element types, 16-bit conversions, shapes, views and buffers.
#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/huge_pages.h"
#include "base/resident_pages_test.h"
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

// Above the last size but one the system does it.
TEST(Buffer, IsAlignedAndZeroed) {
  for (const int64_t size : {int64_t{100}, kLeastOnHugePages - 1, kLeastOnHugePages}) {
    for (int turn = 0; turn < 3; ++turn) {  // the last may get what one before gave back
      const Buffer buffer(size);
      EXPECT_EQ(buffer.num_bytes(), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0U);
      EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + size,
                              [](std::byte byte) { return byte == std::byte{0}; }));
      volatile std::byte* const written = buffer.data();  // or the compiler leaves them out
      for (int64_t i = 0; i < size; ++i) written[i] = std::byte{0xff};
    }
  }
}

TEST(Buffer, LargeOnesCostNothingUntilTheyAreUsed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "with AddressSanitizer all buffers come from the heap, which it watches";
#else
  if (!tells_what_is_resident()) GTEST_SKIP() << "this system does not tell which pages are there";
  const Buffer buffer(kLeastOnHugePages);
  EXPECT_EQ(resident_bytes(buffer.data(), kLeastOnHugePages), 0);
#endif
}

TEST(Buffer, MovesBetweenSizes) {
  Buffer small(100);
  Buffer large(kLeastOnHugePages);
  small.data()[99] = std::byte{1};
  large.data()[kLeastOnHugePages - 1] = std::byte{2};
  Buffer moved = std::move(small);
  EXPECT_EQ(moved.data()[99], std::byte{1});
  moved = std::move(large);
  EXPECT_EQ(moved.num_bytes(), kLeastOnHugePages);
  EXPECT_EQ(moved.data()[kLeastOnHugePages - 1], std::byte{2});
  moved = Buffer(100);
  EXPECT_EQ(moved.num_bytes(), 100);
  EXPECT_EQ(moved.data()[99], std::byte{0});
}

TEST(Buffer, SaysWhatTheSystemRefuses) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends a program that asks for so much";
#else
  try {
    const Buffer none(int64_t{1} << 60);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  }
#endif
}

}  // namespace
}  // namespace hasten
