// SPDX-License-Identifier: Apache-2.0
// HugeVector: a vector for large tables that are read here and there, in huge pages if it can be.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace hasten {

/// Asks for huge pages where so much is wanted that rounding up to them costs little. A table of
/// some megabytes in pages of 4 KiB has more of them than the processor remembers the places of
/// (its TLB), and then each look costs two ways to memory.
template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    constexpr size_t kHugePage = size_t{2} << 20;
    if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_array_new_length();
    size_t bytes = count * sizeof(T);
    const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void* const data = std::aligned_alloc(alignment, bytes);
    if (data == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    // A hint: refused where huge pages are switched off.
    if (alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t /*count*/) { std::free(data); }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

template <typename T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace hasten
