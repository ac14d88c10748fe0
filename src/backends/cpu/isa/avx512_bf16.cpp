// SPDX-License-Identifier: Apache-2.0
// The peak of bf16 dot products, which not every machine with AVX-512 has; compiled with flags of
// this file only.
#if defined(__x86_64__)
#include "backends/cpu/simd/avx512.h"
// Written in the types and functions of the header above.
#include "backends/cpu/kernels/peak.inl"

namespace hasten::cpu {

int64_t peak_avx512_bf16(int64_t rounds) {
  const F32x16 factor = set1(1e-9F);
  const auto pairs = reinterpret_cast<__m512bh>(factor);
  return run_chains<F32x16>(rounds, 64, [&](F32x16 sum, int64_t) HASTEN_INLINE {
    return _mm512_dpbf16_ps(sum, pairs, pairs);  // 16 lanes of two products
  });
}

}  // namespace hasten::cpu
#endif
