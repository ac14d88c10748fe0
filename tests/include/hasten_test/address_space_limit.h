// SPDX-License-Identifier: Apache-2.0
// AddressSpaceLimit: has the system refuse memory, in tests of what happens then.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

// Sanitizers need address space of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HASTEN_LIMITS_ADDRESS_SPACE 0
#else
#define HASTEN_LIMITS_ADDRESS_SPACE 1
#endif

namespace hasten::testing {

/// As long as it lives, the process gets so many more bytes of addresses.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(int64_t more_bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    struct rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more_bytes);
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;
  ~AddressSpaceLimit() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }

 private:
  struct rlimit before_ {};
};

}  // namespace hasten::testing
