// SPDX-License-Identifier: Apache-2.0
// Tests of how AddressSanitizer checks loads and stores of whole vectors: only where it does.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

extern "C" {
void __asan_loadN(void* p, uintptr_t num_bytes);
void __asan_storeN(void* p, uintptr_t num_bytes);
}

namespace hasten::cpu {
namespace {

// Of 128 bytes: what libasan decides alone.
TEST(AsanVectorsDeathTest, EachByteMustBeAddressable) {
  constexpr size_t kBlockBytes = 192;
  const auto memory = std::make_unique<uint8_t[]>(kBlockBytes);
  uint8_t* const block = memory.get();
  for (const size_t num_bytes : {32, 64, 128}) {
    SCOPED_TRACE(num_bytes);
    const size_t last = kBlockBytes - num_bytes;
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, last - 1, last}) {
      __asan_loadN(block + offset, num_bytes);
      __asan_storeN(block + offset, num_bytes);
    }
    for (uint8_t* const p : {block + last + 1, block + kBlockBytes - 1, block - 1}) {
      SCOPED_TRACE(p - block);
      EXPECT_DEATH(__asan_loadN(p, num_bytes), "AddressSanitizer: .*READ of size");
      EXPECT_DEATH(__asan_storeN(p, num_bytes), "AddressSanitizer: .*WRITE of size");
    }
  }
}

}  // namespace
}  // namespace hasten::cpu

#endif
