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

/// Likewise, pairs of a float of each.
inline I32x16 round_halves(F32x16 first, F32x16 second) {
  const auto halves = [](F32x16 v) {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
  };
  return _mm512_or_si512(halves(first), _mm512_slli_epi32(halves(second), 16));
}

/// Pairs with zero for the other half.
inline I32x16 first_halves(I32x16 v) { return _mm512_and_si512(v, set1_i32(0xffff)); }
inline I32x16 second_halves(I32x16 v) { return _mm512_andnot_si512(set1_i32(0xffff), v); }
inline void store_pairs(void* p, I32x16 v) { _mm512_storeu_si512(p, v); }
inline void store_first_pairs(void* p, I32x16 v, int64_t n) {
  _mm512_mask_storeu_epi32(p, first_lanes(n), v);
}
/// Leaves the other half of each pair as it is.
inline void store_first_halves(void* p, I32x16 v) { _mm512_mask_storeu_epi16(p, 0x55555555, v); }
inline void store_second_halves(void* p, I32x16 v) { _mm512_mask_storeu_epi16(p, 0xaaaaaaaa, v); }
inline I32x16 load_pairs(const float* p) { return _mm512_loadu_si512(p); }

/// rows[i][k] and rows[k][i] change places.
inline void transpose(I32x16 (&rows)[16]) {
  I32x16 mixed[16];
  for (int i = 0; i < 16; i += 2) {
    mixed[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    mixed[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // now rows[i + k] holds columns k, 4 + k, ... of four rows
    rows[i] = _mm512_unpacklo_epi64(mixed[i], mixed[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(mixed[i], mixed[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(mixed[i + 1], mixed[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(mixed[i + 1], mixed[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    const I32x16 even_first = _mm512_shuffle_i32x4(rows[k], rows[4 + k], 0x88);
    const I32x16 odd_first = _mm512_shuffle_i32x4(rows[k], rows[4 + k], 0xdd);
    const I32x16 even_last = _mm512_shuffle_i32x4(rows[8 + k], rows[12 + k], 0x88);
    const I32x16 odd_last = _mm512_shuffle_i32x4(rows[8 + k], rows[12 + k], 0xdd);
    mixed[k] = _mm512_shuffle_i32x4(even_first, even_last, 0x88);
    mixed[4 + k] = _mm512_shuffle_i32x4(odd_first, odd_last, 0x88);
    mixed[8 + k] = _mm512_shuffle_i32x4(even_first, even_last, 0xdd);
    mixed[12 + k] = _mm512_shuffle_i32x4(odd_first, odd_last, 0xdd);
  }
  for (int i = 0; i < 16; ++i) rows[i] = mixed[i];
}

}  // namespace
}  // namespace hasten::cpu
