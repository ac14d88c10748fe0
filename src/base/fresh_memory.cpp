// SPDX-License-Identifier: Apache-2.0
// Anonymous mappings.
#include "base/fresh_memory.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/huge_pages.h"

namespace hasten {

FreshMemory::FreshMemory(int64_t num_bytes) {
  HASTEN_CHECK(num_bytes >= 0);
  if (num_bytes == 0 || num_bytes > INT64_MAX - 2 * kHugePage) return;
  const int64_t size = round_up(num_bytes, kHugePage);
  // A mapping begins on any page: what lies before a huge one is addresses only.
  const auto mapped = static_cast<size_t>(size + kHugePage);
  void* const mapping =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  mapped_bytes_ = mapped;
  const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapping)) % kHugePage;
  data_ = static_cast<std::byte*>(mapping) + (before == 0 ? 0 : kHugePage - before);
#if defined(MADV_HUGEPAGE)
  // A hint: refused where huge pages are switched off.
  madvise(data_, static_cast<size_t>(size), MADV_HUGEPAGE);
#endif
}

FreshMemory::~FreshMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

}  // namespace hasten
