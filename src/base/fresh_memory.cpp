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
  const auto size = static_cast<size_t>(round_up(num_bytes, kHugePage));
  constexpr auto kSpare = static_cast<size_t>(kHugePage);  // a mapping begins on any page
  void* const mapping =
      mmap(nullptr, size + kSpare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return;
  auto* const first = static_cast<std::byte*>(mapping);
  const size_t before = (kSpare - reinterpret_cast<uintptr_t>(mapping) % kSpare) % kSpare;
  if (before > 0) munmap(first, before);
  munmap(first + before + size, kSpare - before);
  data_ = first + before;
  mapped_bytes_ = size;
  ask_for_huge_pages(data_, size);
}

FreshMemory::~FreshMemory() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

void bring_in_pages(std::span<std::byte> unused) {
  constexpr size_t kSmallestPage = 4096;  // where there are no huge ones
  volatile std::byte* const data = unused.data();
  for (size_t at = 0; at < unused.size(); at += kSmallestPage) data[at] = std::byte{0};
  if (!unused.empty()) data[unused.size() - 1] = std::byte{0};  // pages may begin between
}

}  // namespace hasten
