// SPDX-License-Identifier: Apache-2.0
// What the lanes of AVX2 and of AVX-512 are put together from alike.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace hasten::cpu {
namespace {

/// 4 bytes of each of 4 rows, which are `row_bytes` apart.
inline __m128i load_quad_of_four(const uint8_t* rows, int64_t row_bytes) {
  const auto row = [&](int r) {
    int32_t bytes;
    __builtin_memcpy(&bytes, rows + r * row_bytes, sizeof bytes);
    return bytes;
  };
  __m128i v = _mm_cvtsi32_si128(row(0));
  v = _mm_insert_epi32(v, row(1), 1);
  v = _mm_insert_epi32(v, row(2), 2);
  return _mm_insert_epi32(v, row(3), 3);
}

/// Asks for the line of p. Not by the intrinsic in GCC 12, which takes a function that does nothing
/// else for one without effect, and drops calls of it that are not inlined yet.
inline void prefetch(const uint8_t* p) {
#if defined(__clang__)  // which does not know such an operand
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
#else
  __asm__ volatile("prefetcht0 %a0" : : "p"(p));
#endif
}
/// Likewise, into the second-level cache: more lines can be on their way at a time.
inline void prefetch_far(const uint8_t* p) {
#if defined(__clang__)
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
#else
  __asm__ volatile("prefetcht1 %a0" : : "p"(p));
#endif
}

/// Sanitizers do not see stores past the caches.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// 16 bytes to a multiple of 16. Another core's copy of the line is dropped, and no store waits for
/// that. Other threads see them in order with what is stored behind order_stores().
inline void store_past_caches(const uint8_t* from, uint8_t* to) {
  if constexpr (kSanitized) {
    __builtin_memcpy(to, from, 16);
  } else {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
}
inline void order_stores() { _mm_sfence(); }

}  // namespace
}  // namespace hasten::cpu
