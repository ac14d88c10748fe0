// SPDX-License-Identifier: Apache-2.0
// Under AddressSanitizer with GCC: how loads and stores of whole vectors are checked.
//
// Where checks are calls (CMakeLists.txt has them so for kernels), GCC calls __asan_loadN and
// __asan_storeN for what is longer than 16 bytes or may lie anywhere. Those of libasan walk through
// two further functions and a loop, which took a quarter of the time of all tests of kernels. These
// look at the shadow of the very same bytes; where any of it is not zero, libasan's own code
// decides and reports. They count where the linker meets them before libasan, as it does in a unity
// build, in which this file is one with others of the layer; elsewhere libasan's do. (Not with
// -static-libasan, nor with clang, whose runtime is part of the program.)
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__) && defined(__x86_64__) && \
    defined(__LP64__) && defined(__linux__)

#include <sanitizer/asan_interface.h>

#include <cstdint>

// Checks of what checks would be most of it.
#define HASTEN_UNCHECKED __attribute__((no_sanitize("address", "undefined")))

extern "C" {

// What GCC calls where a check that it has inlined fails.
void __asan_report_load_n(void* p, uintptr_t num_bytes);
void __asan_report_store_n(void* p, uintptr_t num_bytes);

}  // extern "C"

namespace hasten::cpu {
namespace {

/// Whether the shadow of `num_bytes` from `p` on is zero: of memory it has a byte for each eight,
/// zero when all eight can be accessed (Serebryany et al., "AddressSanitizer: A Fast Address Sanity
/// Checker", 2012). Bytes: those of the shadow of as many that begin at a multiple of eight.
template <class Bytes>
HASTEN_UNCHECKED inline bool has_clear_shadow(uintptr_t p, uintptr_t num_bytes) {
  constexpr uintptr_t kShadowOffset = 0x7fff8000;  // of x86-64 on Linux, which GCC compiles in
  Bytes first;
  __builtin_memcpy(&first, reinterpret_cast<const void*>((p >> 3) + kShadowOffset), sizeof first);
  const auto* last = reinterpret_cast<const uint8_t*>(((p + num_bytes - 1) >> 3) + kShadowOffset);
  return (first | *last) == 0;
}

/// False for other sizes than those of vectors, too.
HASTEN_UNCHECKED inline bool is_surely_addressable(const void* p, uintptr_t num_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (num_bytes == 64) return has_clear_shadow<uint64_t>(address, num_bytes);
  if (num_bytes == 32) return has_clear_shadow<uint32_t>(address, num_bytes);
  return num_bytes == 16 && has_clear_shadow<uint16_t>(address, num_bytes);
}

}  // namespace
}  // namespace hasten::cpu

extern "C" {

HASTEN_UNCHECKED void __asan_loadN(void* p, uintptr_t num_bytes) {
  if (hasten::cpu::is_surely_addressable(p, num_bytes)) return;
  if (__asan_region_is_poisoned(p, num_bytes) != nullptr) __asan_report_load_n(p, num_bytes);
}

HASTEN_UNCHECKED void __asan_storeN(void* p, uintptr_t num_bytes) {
  if (hasten::cpu::is_surely_addressable(p, num_bytes)) return;
  if (__asan_region_is_poisoned(p, num_bytes) != nullptr) __asan_report_store_n(p, num_bytes);
}

}  // extern "C"

#undef HASTEN_UNCHECKED
#endif
