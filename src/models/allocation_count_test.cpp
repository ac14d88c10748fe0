// SPDX-License-Identifier: Apache-2.0
// Counts allocations by standing in for operator new; in a file of its own, so that no caller sees
// through it and finds malloc paired with delete.
#include "models/allocation_count_test.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hasten::models {

int64_t allocation_count() { return count; }

}  // namespace hasten::models
