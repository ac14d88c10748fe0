// SPDX-License-Identifier: Apache-2.0
// Huge pages: their size, a way to ask for them, and HugeVector, a vector for large tables that are
// read here and there.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace hasten {

/// Of x86-64, and of arm64 whose other pages have 4 KiB.
inline constexpr int64_t kHugePage = int64_t{2} << 20;
/// Rounding up to huge pages costs little of so much memory.
inline constexpr int64_t kLeastOnHugePages = 4 * kHugePage;

/// A hint, refused where huge pages are switched off. Not given where they are larger: a byte that
/// is written would bring in as much.
inline void ask_for_huge_pages(void* data, size_t num_bytes) {
#if defined(MADV_HUGEPAGE)
  if (sysconf(_SC_PAGESIZE) == 4096) madvise(data, num_bytes, MADV_HUGEPAGE);
#endif
}

/// Asks for huge pages, and rounds up to them, where a table has as many pages of 4 KiB as the
/// processor remembers places of at once (its first TLB has 64 entries or so). Several such tables,
/// read here and there for each block, are more than it remembers at all, and then each look costs
/// two ways to memory.
template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    constexpr auto kAlignment = static_cast<size_t>(kHugePage);
    constexpr size_t kLeastBytes = size_t{64} * 4096;
    if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_array_new_length();
    size_t bytes = count * sizeof(T);
    const size_t alignment = bytes >= kLeastBytes ? kAlignment : 64;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void* const data = std::aligned_alloc(alignment, bytes);
    if (data == nullptr) throw std::bad_alloc();
    if (alignment == kAlignment) ask_for_huge_pages(data, bytes);
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t /*count*/) { std::free(data); }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

template <typename T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace hasten
