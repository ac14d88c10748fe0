// SPDX-License-Identifier: Apache-2.0
// Under AddressSanitizer with GCC: how loads and stores of whole vectors are checked.
//
// GCC checks accesses of more than 16 bytes by calls of __asan_loadN and __asan_storeN. Those of
// libasan walk through two further functions and a loop, which took a quarter of the time of all
// tests of kernels. These check the very same bytes; libasan's own code decides, and reports, where
// any of them is not addressable. The linker prefers a program's functions to a shared library's,
// and takes these because they are one file with others of the layer (a unity build); clang links
// its runtime into the program, and keeps it.
#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__) && !defined(__clang__)

#include <sanitizer/asan_interface.h>

#include <cstdint>

extern "C" {

// What GCC calls where a check that it has inlined fails.
void __asan_report_load_n(void* p, uintptr_t num_bytes);
void __asan_report_store_n(void* p, uintptr_t num_bytes);

}  // extern "C"

namespace hasten::cpu {
namespace {

/// Whether all of 32 or 64 bytes can be accessed, by their shadow: a byte for each eight of memory,
/// zero when all eight can be (Serebryany et al., "AddressSanitizer: A Fast Address Sanity
/// Checker", 2012). False for other sizes, too.
__attribute__((no_sanitize("address"), always_inline)) inline bool can_be_accessed(
    const void* p, uintptr_t num_bytes) {
  constexpr uintptr_t kShadowOffset = 0x7fff8000;  // of x86-64 on Linux, which GCC compiles in
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  const auto* shadow = reinterpret_cast<const char*>((address >> 3) + kShadowOffset);
  const auto* last =
      reinterpret_cast<const char*>(((address + num_bytes - 1) >> 3) + kShadowOffset);
  if (num_bytes == 64) {
    uint64_t eight;
    __builtin_memcpy(&eight, shadow, sizeof eight);
    return (eight | static_cast<uint8_t>(*last)) == 0;
  }
  if (num_bytes == 32) {
    uint32_t four;
    __builtin_memcpy(&four, shadow, sizeof four);
    return (four | static_cast<uint8_t>(*last)) == 0;
  }
  return false;
}

}  // namespace
}  // namespace hasten::cpu

extern "C" {

__attribute__((no_sanitize("address"))) void __asan_loadN(void* p, uintptr_t num_bytes) {
  if (hasten::cpu::can_be_accessed(p, num_bytes)) return;
  if (__asan_region_is_poisoned(p, num_bytes) != nullptr) __asan_report_load_n(p, num_bytes);
}

__attribute__((no_sanitize("address"))) void __asan_storeN(void* p, uintptr_t num_bytes) {
  if (hasten::cpu::can_be_accessed(p, num_bytes)) return;
  if (__asan_region_is_poisoned(p, num_bytes) != nullptr) __asan_report_store_n(p, num_bytes);
}

}  // extern "C"

#endif
