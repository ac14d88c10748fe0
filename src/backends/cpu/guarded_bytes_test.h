// SPDX-License-Identifier: Apache-2.0
// Memory behind which nothing may be touched, on every instruction set and without a sanitizer.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace hasten::cpu {

/// Bytes, all zero, up to a page that nobody may touch. What lies before them is not guarded.
class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t num_bytes)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        length_((static_cast<size_t>(num_bytes) / page_ + 2) * page_),
        memory_(static_cast<uint8_t*>(
            mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    EXPECT_EQ(mprotect(memory_ + length_ - page_, page_, PROT_NONE), 0);
    data_ = memory_ + length_ - page_ - num_bytes;
  }
  ~GuardedBytes() { munmap(memory_, length_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() const { return data_; }

 private:
  size_t page_;
  size_t length_;
  uint8_t* memory_;
  uint8_t* data_;
};

}  // namespace hasten::cpu
