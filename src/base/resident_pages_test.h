// SPDX-License-Identifier: Apache-2.0
// For tests of what memory costs: how much of it is there.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

namespace hasten {

/// How many bytes of [data, data + num_bytes), in whole pages, are there. `data` begins a page.
inline int64_t resident_bytes(const void* data, int64_t num_bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> states(static_cast<size_t>((num_bytes + page - 1) / page));
  if (mincore(const_cast<void*>(data), static_cast<size_t>(num_bytes), states.data()) != 0) {
    ADD_FAILURE() << "mincore: " << std::strerror(errno);
  }
  return page * std::ranges::count_if(states, [](unsigned char state) { return state % 2 == 1; });
}

/// Of all that this process has.
inline int64_t resident_bytes_of_process() {
  int64_t total = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Whether the system tells the truth about memory that nobody has written to.
inline bool tells_what_is_resident() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const data =
      mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return false;
  const int64_t untouched = resident_bytes(data, static_cast<int64_t>(page));
  *static_cast<volatile char*>(data) = 1;
  const int64_t written = resident_bytes(data, static_cast<int64_t>(page));
  munmap(data, page);
  return untouched == 0 && written == static_cast<int64_t>(page);
}

}  // namespace hasten
