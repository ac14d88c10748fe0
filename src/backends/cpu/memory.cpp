// SPDX-License-Identifier: Apache-2.0
// Aligned allocation with a hint for huge pages.
#include "backends/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

Memory::Memory(int64_t num_bytes) : num_bytes_(num_bytes) {
  HASTEN_CHECK(num_bytes >= 0);
  if (num_bytes == 0) return;
  // Rounding up to huge pages must not cost much of a small buffer.
  const int64_t alignment = num_bytes >= 4 * kHugePage ? kHugePage : kLine;
  const auto size = static_cast<size_t>(round_up(num_bytes, alignment));
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(static_cast<size_t>(alignment), size)));
  if (data_ == nullptr) {
    fail(ErrorCode::resource_exhausted, "cannot allocate {} bytes of memory", num_bytes);
  }
#if defined(MADV_HUGEPAGE)
  // A hint: refused where huge pages are switched off.
  if (alignment == kHugePage) madvise(data_.get(), size, MADV_HUGEPAGE);
#endif
}

void Memory::Free::operator()(uint8_t* p) const { std::free(p); }

uint8_t* Scratch::get(int64_t num_bytes) {
  if (num_bytes > memory_.num_bytes()) {
    if (reserved_) {
      log::warn("a step needs {} bytes of scratch memory, {} were reserved; allocating more",
                num_bytes, memory_.num_bytes());
    }
    memory_ = Memory();
    memory_ = Memory(num_bytes);
  }
  return memory_.data();
}

void Scratch::reserve(int64_t num_bytes) {
  reserved_ = false;
  get(num_bytes);
  reserved_ = true;
}

}  // namespace hasten::cpu
