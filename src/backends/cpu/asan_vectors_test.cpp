// SPDX-License-Identifier: Apache-2.0
// Tests of how AddressSanitizer checks loads and stores of whole vectors: only where it does.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)

#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <cstddef>
#include <cstdint>

extern "C" {
void __asan_loadN(void* p, uintptr_t num_bytes);
void __asan_storeN(void* p, uintptr_t num_bytes);
}

namespace hasten::cpu {
namespace {

/// Memory of which some bytes are poisoned. Begins at a multiple of eight.
class PartlyPoisoned {
 public:
  static constexpr size_t kBytes = 160;
  PartlyPoisoned(size_t at, size_t count) : at_(at), count_(count) {
    __asan_poison_memory_region(bytes_ + at_, count_);
  }
  ~PartlyPoisoned() { __asan_unpoison_memory_region(bytes_ + at_, count_); }
  PartlyPoisoned(const PartlyPoisoned&) = delete;
  PartlyPoisoned& operator=(const PartlyPoisoned&) = delete;
  uint8_t* data() { return bytes_; }

 private:
  alignas(8) uint8_t bytes_[kBytes] = {};
  size_t at_;
  size_t count_;
};

// Of 24 and of 128 bytes libasan decides alone.
constexpr size_t kAccessBytes[] = {16, 24, 32, 64, 128};

TEST(AsanVectors, WhatIsBesidePoisonedBytesIsAddressable) {
  for (const size_t num_bytes : kAccessBytes) {
    for (size_t offset = 8; offset <= 16; ++offset) {
      PartlyPoisoned before(0, 8);
      __asan_loadN(before.data() + offset, num_bytes);
      __asan_storeN(before.data() + offset, num_bytes);
      const size_t end = (offset + num_bytes + 7) / 8 * 8;
      PartlyPoisoned behind(end, PartlyPoisoned::kBytes - end);
      __asan_loadN(behind.data() + offset, num_bytes);
      __asan_storeN(behind.data() + offset, num_bytes);
    }
  }
  // Some bytes of eight: poison reaches from one of them to their end.
  PartlyPoisoned part(69, 3);
  __asan_loadN(part.data() + 5, 64);
  __asan_storeN(part.data() + 37, 32);
}

TEST(AsanVectorsDeathTest, NoByteMayBePoisoned) {
  constexpr size_t kOffset = 13;  // so that they reach into one more of the eights
  for (const size_t num_bytes : {16, 24, 32, 64}) {
    SCOPED_TRACE(num_bytes);
    for (size_t at = 8; at < kOffset + num_bytes; at += 8) {
      SCOPED_TRACE(at);
      PartlyPoisoned memory(at, 8);
      EXPECT_DEATH(__asan_loadN(memory.data() + kOffset, num_bytes),
                   "AddressSanitizer: .*READ of size");
    }
    const size_t last = kOffset + num_bytes - 1;
    PartlyPoisoned memory(last, 8 - last % 8);
    EXPECT_DEATH(__asan_storeN(memory.data() + kOffset, num_bytes),
                 "AddressSanitizer: .*WRITE of size");
  }
}

}  // namespace
}  // namespace hasten::cpu

#endif
