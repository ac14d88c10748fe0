// SPDX-License-Identifier: Apache-2.0
// Loops unrolled by the language, where an index must be a constant; numbers out of bytes.
#pragma once

#include <stdint.h>

#include <utility>  // std::integer_sequence, a type only

// What a kernel is made of is inlined by force: arrays stay in registers only so. HASTEN_INLINE
// inlines a function into each that calls it, and that one into the next, which copies all of it
// once for each of ten levels. With HASTEN_FLATTEN a HASTEN_KERNEL takes all that it calls in one
// step instead, in half the time to compile; GCC then sees through two lambdas that capture one
// another, not through three. With sanitizers neither is done, as that takes most of the time to
// compile, and arrays that are checked lie in memory.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HASTEN_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HASTEN_SANITIZED
#endif
#if defined(HASTEN_SANITIZED)
#define HASTEN_INLINE
#define HASTEN_KERNEL __attribute__((noinline))
#elif defined(HASTEN_FLATTEN) && !defined(__clang__)  // which flattens one level
#define HASTEN_INLINE
#define HASTEN_KERNEL __attribute__((flatten, noinline))
#else
#define HASTEN_INLINE __attribute__((always_inline))
#define HASTEN_KERNEL __attribute__((noinline))
#endif

namespace hasten::cpu {
namespace {

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

template <int kBegin, int... kOffsets, class F>
HASTEN_INLINE inline void unroll_each(std::integer_sequence<int, kOffsets...> /*offsets*/, F&& f) {
  (f(Constant<kBegin + kOffsets>{}), ...);
}

/// f(Constant<begin>), ..., f(Constant<end - 1>). Not one call inside the other: each would be
/// inlined into the next with all that is in it, a sixth of the time to compile.
template <int kBegin, int kEnd, class F>
HASTEN_INLINE inline void unroll(F&& f) {
  if constexpr (kBegin < kEnd) {
    unroll_each<kBegin>(std::make_integer_sequence<int, kEnd - kBegin>{}, f);
  }
}

template <int kVectors, int... kOffsets, class F>
HASTEN_INLINE inline void unroll_each_of_tile(std::integer_sequence<int, kOffsets...> /*offsets*/,
                                              F&& f) {
  (f(Constant<kOffsets / kVectors>{}, Constant<kOffsets % kVectors>{}), ...);
}

/// f(r, v), both Constants, for r < kRows and v < kVectors: indices that are constants let the
/// compiler keep the elements of an array in registers. Not one unroll() in another: that would be
/// twice as many calls to inline.
template <int kRows, int kVectors, class F>
HASTEN_INLINE inline void unroll_tile(F&& f) {
  unroll_each_of_tile<kVectors>(std::make_integer_sequence<int, kRows * kVectors>{}, f);
}

/// f(Constant<n>) for n in [1, kMax].
template <int kMax, class F>
inline void with_constant(int64_t n, F&& f) {
  if constexpr (kMax > 1) {
    if (n < kMax) return with_constant<kMax - 1>(n, f);
  }
  f(Constant<kMax>{});
}

template <class T>
HASTEN_INLINE inline T load_scalar(const uint8_t* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace
}  // namespace hasten::cpu
