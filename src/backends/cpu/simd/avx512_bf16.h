// SPDX-License-Identifier: Apache-2.0
// What AVX-512 BF16 adds to the sixteen lanes: dot products of pairs of bf16.
#pragma once

#include "backends/cpu/simd/avx512.h"

namespace hasten::cpu {
namespace {

/// sum[lane] += both products of pairs of bf16, the second's first, each addition rounded to
/// nearest; what is subnormal counts as zero.
inline F32x16 dot_bf16(F32x16 sum, U8x64 pairs, I32x16 others) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(pairs),
                          reinterpret_cast<__m512bh>(others));
}

/// 32 floats as 16 pairs of bf16, to nearest even; what is subnormal becomes zero.
inline I32x16 round_bf16(F32x16 first, F32x16 second) {
  return reinterpret_cast<I32x16>(_mm512_cvtne2ps_pbh(second, first));
}

}  // namespace
}  // namespace hasten::cpu
