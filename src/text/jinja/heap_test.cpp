// SPDX-License-Identifier: Apache-2.0
// Counts the heap's bytes by standing in for operator new; in a file of its own, so that no caller
// sees through it and finds malloc paired with delete.
#include "text/jinja/heap_test.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> held = 0, peak = 0;
}  // namespace

// The sanitizers have an operator new of their own, which must not be mixed with this one.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

void* allocate(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = held.fetch_add(bytes) + bytes;
  for (int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return memory;
}
void release(void* memory) {
  held -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
#endif

namespace hasten::text::jinja {

int64_t heap_bytes() { return held; }
int64_t take_heap_peak() { return peak.exchange(held); }

}  // namespace hasten::text::jinja
