// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes on AVX2 with FMA and F16C: two registers per value.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "backends/cpu/kernels/unroll.inl"
#include "backends/cpu/simd/x86.h"

namespace hasten::cpu {
namespace {

struct F32x16 {
  __m256 low, high;
};
struct I32x16 {
  __m256i low, high;
};
struct U8x64 {
  __m256i low, high;
};

// Register tiles (16 registers): the accumulators take twice their number.
constexpr int kQuantGroups = 1;
constexpr int kQuantRows = 3;
constexpr int kQuantDirectRows = 6;  // rows that read packed weights without a panel
/// Groups at a time that they read: two streams of memory, while registers last.
constexpr int direct_groups(int rows) { return rows == 1 ? 2 : 1; }
/// No rows take accumulate_tall: it needs 32 registers.
constexpr int kLeastTallRows = kQuantDirectRows + 1;
constexpr int kTallRows = 1;
constexpr bool kReadsInOrder = false;  // see simd/avx512.h
constexpr int kFloatGroups = 2;
constexpr int kFloatRows = 3;
constexpr int kFloatTileRows = 6;           // of activations
constexpr bool kConvertsF16Slowly = false;  // then many rows share converted weights
/// Groups that so many rows are multiplied with at a time.
constexpr int float_groups(int rows) { return rows <= 3 ? 2 : 1; }
constexpr int kCachedTileRows = 6;  // queries with keys where they lie
/// Vectors of keys, or of elements, that so many of them are multiplied with at a time.
constexpr int cached_vectors(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
constexpr int kPeakChains = 6;  // see peak.inl: they hide a latency and stay in the registers

inline F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F32x16 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
/// The first n < 16 elements; the other lanes are zero.
inline F32x16 load_first(const float* p, int64_t n) {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
inline void store_first(float* p, F32x16 v, int64_t n) {
  float lanes[16];
  store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/// total += a * b. In assembly: GCC 12 lets a sum move into the register of a factor, runs out of
/// registers where a tile needs them all, and then keeps a sum on the stack, inside its chain.
inline void add_product(F32x16& total, F32x16 a, F32x16 b) {
  asm("vfmadd231ps %1, %2, %0" : "+x"(total.low) : "xm"(a.low), "x"(b.low));
  asm("vfmadd231ps %1, %2, %0" : "+x"(total.high) : "xm"(a.high), "x"(b.high));
}
/// a > b ? a : b, so b where either is NaN.
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
/// a < b ? a : b, so b where either is NaN.
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline F32x16 abs(F32x16 a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(a.low, mask), _mm256_and_ps(a.high, mask)};
}
/// a < b ? x : y.
inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
inline float reduce_add(F32x16 v) {
  const __m256 eight = _mm256_add_ps(v.low, v.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
/// Any lane or NaN where lanes are NaN.
inline float reduce_max(F32x16 v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/// Whether a > b in any lane; false in those that hold a NaN.
inline bool any_greater(F32x16 a, F32x16 b) {
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ),
                                         _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ))) != 0;
}

inline I32x16 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I32x16 set1_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32x16 add_i32(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline I32x16 load_i32(const int32_t* p) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline I32x16 sub_i32(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline I32x16 mul_i32(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
inline I32x16 max_i32(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
inline I32x16 min_i32(I32x16 a, I32x16 b) {
  return {_mm256_min_epi32(a.low, b.low), _mm256_min_epi32(a.high, b.high)};
}
/// Lanes change places with those kDistance beside them: 1, 2 or 4.
template <int kDistance>
inline I32x16 swap_lanes(I32x16 v) {
  static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4);
  if constexpr (kDistance == 4) {
    return {_mm256_permute2x128_si256(v.low, v.low, 1),
            _mm256_permute2x128_si256(v.high, v.high, 1)};
  }
  constexpr int kOrder = kDistance == 1 ? 0xb1 : 0x4e;
  return {_mm256_shuffle_epi32(v.low, kOrder), _mm256_shuffle_epi32(v.high, kOrder)};
}
inline F32x16 to_float(I32x16 v) { return {_mm256_cvtepi32_ps(v.low), _mm256_cvtepi32_ps(v.high)}; }
/// Rounded down.
inline I32x16 shift_right(I32x16 v, int32_t n) {
  const __m256i by = _mm256_set1_epi32(n);
  return {_mm256_srav_epi32(v.low, by), _mm256_srav_epi32(v.high, by)};
}
inline I32x16 shift_left(I32x16 v, int32_t n) {
  const __m256i by = _mm256_set1_epi32(n);
  return {_mm256_sllv_epi32(v.low, by), _mm256_sllv_epi32(v.high, by)};
}
/// The lower half of each lane of `low` and the upper one of `high`.
inline I32x16 join_halves(I32x16 low, I32x16 high) {
  return {_mm256_blend_epi16(low.low, high.low, 0xaa),
          _mm256_blend_epi16(low.high, high.high, 0xaa)};
}
/// The lower half of each lane of `low`, as int16 shifted right, and the upper one of `high`.
inline I32x16 join_shifted(I32x16 low, int32_t n, I32x16 high) {
  const __m128i by = _mm_cvtsi32_si128(n);
  return join_halves({_mm256_sra_epi16(low.low, by), _mm256_sra_epi16(low.high, by)}, high);
}
/// Lanes of two int16.
inline I32x16 load_halves(const uint8_t* p) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
/// The lower (upper) half of each lane, in both halves.
inline I32x16 low_halves(I32x16 v) {
  const auto half = [](__m256i x) { return _mm256_blend_epi16(x, _mm256_slli_epi32(x, 16), 0xaa); };
  return {half(v.low), half(v.high)};
}
inline I32x16 high_halves(I32x16 v) {
  const auto half = [](__m256i x) { return _mm256_blend_epi16(_mm256_srli_epi32(x, 16), x, 0xaa); };
  return {half(v.low), half(v.high)};
}
/// a * b / 2^15 of int16, to the nearest.
inline I32x16 multiply_high(I32x16 a, I32x16 b) {
  return {_mm256_mulhrs_epi16(a.low, b.low), _mm256_mulhrs_epi16(a.high, b.high)};
}
/// sum[lane] += the two products of int16 in the lane, modulo 2^32.
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  return add_i32(sum, {_mm256_madd_epi16(a.low, b.low), _mm256_madd_epi16(a.high, b.high)});
}
inline void store_i32(uint8_t* p, I32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + 1, v.high);
}
/// The same bits.
inline F32x16 as_float(I32x16 v) {
  return {_mm256_castsi256_ps(v.low), _mm256_castsi256_ps(v.high)};
}
inline I32x16 as_bits(F32x16 v) {
  return {_mm256_castps_si256(v.low), _mm256_castps_si256(v.high)};
}
/// To nearest, ties to even; |v| < 2^22.
inline I32x16 to_int(F32x16 v) { return {_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high)}; }
/// 2^n for n in [-126, 127]; zero below, infinity for n = 128.
inline F32x16 power_of_two(I32x16 n) {
  const auto half = [](__m256i exponent) {
    const __m256i biased = _mm256_add_epi32(exponent, _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_max_epi32(biased, _mm256_setzero_si256()), 23));
  };
  return {half(n.low), half(n.high)};
}
/// Bit patterns of the larger of |a| and |b|, which orders numbers, infinity and NaN.
inline I32x16 max_magnitudes(F32x16 a, F32x16 b) {
  const auto larger = [](__m256 x, __m256 y) {
    return _mm256_max_epi32(_mm256_castps_si256(x), _mm256_castps_si256(y));
  };
  const F32x16 p = abs(a);
  const F32x16 q = abs(b);
  return {larger(p.low, q.low), larger(p.high, q.high)};
}
/// Lane i: the lanes of f(Constant<i>) brought together by op, in some order.
template <class F, class Op>
HASTEN_INLINE inline I32x16 reduce_each(F&& f, Op&& op) {
  const auto eight = [&](auto first) HASTEN_INLINE {
    constexpr int kFirst = decltype(first)::value;
    __m256i pairs[4];  // lane 4 h + j of vector i: a quarter of vector i + 4 h
    unroll<0, 4>([&](auto index) HASTEN_INLINE {
      constexpr int kI = kFirst + decltype(index)::value;
      const I32x16 a = f(Constant<kI>{});
      const I32x16 b = f(Constant<kI + 4>{});
      const __m256i a_eight = op(a.low, a.high);
      const __m256i b_eight = op(b.low, b.high);
      pairs[decltype(index)::value] = op(_mm256_permute2x128_si256(a_eight, b_eight, 0x20),
                                         _mm256_permute2x128_si256(a_eight, b_eight, 0x31));
    });
    const auto join = [&](__m256i a, __m256i b) HASTEN_INLINE {
      return _mm256_castsi256_ps(op(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)));
    };
    const __m256 low = join(pairs[0], pairs[1]);
    const __m256 high = join(pairs[2], pairs[3]);
    return op(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)),
              _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd)));
  };
  return {eight(Constant<0>{}), eight(Constant<8>{})};
}
/// Lane i: the largest lane of f(Constant<i>).
template <class F>
HASTEN_INLINE inline I32x16 reduce_each_max(F&& f) {
  return reduce_each(f, [](__m256i a, __m256i b) HASTEN_INLINE { return _mm256_max_epi32(a, b); });
}
/// Lane i: the sum of the lanes of f(Constant<i>).
template <class F>
HASTEN_INLINE inline I32x16 reduce_each_add(F&& f) {
  return reduce_each(f, [](__m256i a, __m256i b) HASTEN_INLINE { return _mm256_add_epi32(a, b); });
}

/// Lanes that fit in a byte.
inline void store_i8(int8_t* p, I32x16 v) {
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.low, v.high), 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}
inline __m128i load_8_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
inline F32x16 load_i8(const uint8_t* p) {
  return to_float(
      {_mm256_cvtepi8_epi32(load_8_bytes(p)), _mm256_cvtepi8_epi32(load_8_bytes(p + 8))});
}
inline I32x16 widen_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(load_8_bytes(p)), _mm256_cvtepu8_epi32(load_8_bytes(p + 8))};
}
/// The low (high) nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) {
  const I32x16 v = widen_u8(p);
  const __m256i mask = _mm256_set1_epi32(15);
  return to_float({_mm256_and_si256(v.low, mask), _mm256_and_si256(v.high, mask)});
}
inline F32x16 load_high_nibbles(const uint8_t* p) {
  const I32x16 v = widen_u8(p);
  return to_float({_mm256_srli_epi32(v.low, 4), _mm256_srli_epi32(v.high, 4)});
}

inline __m128i load_8_halves(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_8_halves(p)), _mm256_cvtph_ps(load_8_halves(p + 8))};
}
inline void store_f16(uint16_t* p, F32x16 v) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.low, kRounding));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(v.high, kRounding));
}
/// One binary16 in all lanes.
inline F32x16 broadcast_f16(const uint16_t* p) {
  const __m256 v = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(*p)));
  return {v, v};
}
/// See tensor/float8.h. Shifted into the place of a binary16, the bits are those of the number
/// times 2^-8; unlike a multiplication, that conversion is not slow for subnormals.
inline F32x16 load_f8_e4m3(const uint8_t* p) {
  const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(v, magnitude), 8);
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i half =
      _mm256_blendv_epi8(_mm256_slli_epi16(magnitude, 7), _mm256_set1_epi16(0x7e00), nan);
  const __m256i bits = _mm256_or_si256(half, sign);
  const F32x16 scaled = {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)),
                         _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
  return mul(scaled, set1(0x1p8F));
}
inline F32x16 load_bf16(const uint16_t* p) {
  const auto half = [](__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  };
  return {half(load_8_halves(p)), half(load_8_halves(p + 8))};
}
/// Sixteen, `shuffled`: a load, a shift and a mask, where widening takes two conversions and two
/// shifts.
inline F32x16 load_bf16_shuffled(const uint16_t* p) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i odd = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(pairs, odd))};
}
/// Lanes 0 2 ... 14, 1 3 ... 15.
inline F32x16 shuffled(F32x16 v) {
  const __m256 outer = _mm256_permute2f128_ps(v.low, v.high, 0x20);
  const __m256 inner = _mm256_permute2f128_ps(v.low, v.high, 0x31);
  return {_mm256_shuffle_ps(outer, inner, 0x88), _mm256_shuffle_ps(outer, inner, 0xdd)};
}
/// Undoes `shuffled`.
inline F32x16 ordered(F32x16 v) {
  const __m256 outer = _mm256_unpacklo_ps(v.low, v.high);
  const __m256 inner = _mm256_unpackhi_ps(v.low, v.high);
  return {_mm256_permute2f128_ps(outer, inner, 0x20), _mm256_permute2f128_ps(outer, inner, 0x31)};
}
/// To nearest even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F32x16 v) {
  const auto half = [](__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  };
  const __m256i packed = _mm256_packus_epi32(half(v.low), half(v.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
/// The same bits.
inline I32x16 as_lanes(U8x64 v) { return {v.low, v.high}; }
inline U8x64 as_bytes(I32x16 v) { return {v.low, v.high}; }
/// The even (odd) bytes times 256, as int16.
inline I32x16 even_bytes(U8x64 v) {
  return {_mm256_slli_epi16(v.low, 8), _mm256_slli_epi16(v.high, 8)};
}
inline I32x16 odd_bytes(U8x64 v) {
  const __m256i odd = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
  return {_mm256_and_si256(v.low, odd), _mm256_and_si256(v.high, odd)};
}
inline U8x64 load_codes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline void store_codes(uint8_t* p, U8x64 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.high);
}
inline void store_line_past_caches(uint8_t* p, U8x64 v) {
  if constexpr (kSanitized) return store_codes(p, v);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p + 32), v.high);
}
/// Of 16 pairs of bf16: the first (second) of each pair.
inline F32x16 load_bf16_even(const uint8_t* p) {
  const U8x64 v = load_codes(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(v.low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(v.high, 16))};
}
inline F32x16 load_bf16_odd(const uint8_t* p) {
  const U8x64 v = load_codes(p);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  return {_mm256_castsi256_ps(_mm256_and_si256(v.low, mask)),
          _mm256_castsi256_ps(_mm256_and_si256(v.high, mask))};
}

/// Bytes shifted left (kLeft > 0) or right (kLeft < 0) and masked.
template <int kLeft>
inline U8x64 shift_and(U8x64 v, uint8_t mask) {
  if constexpr (kLeft > 0) {
    v = {_mm256_slli_epi16(v.low, kLeft), _mm256_slli_epi16(v.high, kLeft)};
  }
  if constexpr (kLeft < 0) {
    v = {_mm256_srli_epi16(v.low, -kLeft), _mm256_srli_epi16(v.high, -kLeft)};
  }
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(v.low, bits), _mm256_and_si256(v.high, bits)};
}
inline U8x64 bit_or(U8x64 a, U8x64 b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
/// table[index], index < 16.
inline U8x64 lookup(const uint8_t* table, U8x64 index) {
  const __m256i levels =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(levels, index.low), _mm256_shuffle_epi8(levels, index.high)};
}
/// 16 bytes of each of 16 rows, which are `row_bytes` apart: of row r in lane r of four vectors.
inline void load_quads(const uint8_t* rows, int64_t row_bytes, U8x64* quads) {
  const auto row = [&](int r) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + r * row_bytes));
  };
  const auto eight_rows = [&](int first, auto&& put) {
    const auto two = [&](int r) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(row(first + r)), row(first + r + 4), 1);
    };
    const __m256i a = two(0);
    const __m256i b = two(1);
    const __m256i c = two(2);
    const __m256i d = two(3);
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
    const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
    put(0, _mm256_unpacklo_epi64(ab_low, cd_low));
    put(1, _mm256_unpackhi_epi64(ab_low, cd_low));
    put(2, _mm256_unpacklo_epi64(ab_high, cd_high));
    put(3, _mm256_unpackhi_epi64(ab_high, cd_high));
  };
  eight_rows(0, [&](int i, __m256i v) { quads[i].low = v; });
  eight_rows(8, [&](int i, __m256i v) { quads[i].high = v; });
}
/// 4 bytes of each of 16 rows.
inline U8x64 load_quad(const uint8_t* rows, int64_t row_bytes) {
  const auto four = [&](int r) { return load_quad_of_four(rows + r * row_bytes, row_bytes); };
  return {_mm256_inserti128_si256(_mm256_castsi128_si256(four(0)), four(4), 1),
          _mm256_inserti128_si256(_mm256_castsi128_si256(four(8)), four(12), 1)};
}
/// Byte t of all lanes to p + t * stride.
inline void store_bytes(uint8_t* p, int64_t stride, U8x64 v) {
  const __m256i by_byte = _mm256_set_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400,
                                           0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  const __m256i by_half = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
  const auto eight_rows = [&](__m256i half) {
    return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(half, by_byte), by_half);
  };
  const __m256i low = eight_rows(v.low);
  const __m256i high = eight_rows(v.high);
  const __m256i even = _mm256_unpacklo_epi64(low, high);
  const __m256i odd = _mm256_unpackhi_epi64(low, high);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(even));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + stride), _mm256_castsi256_si128(odd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * stride), _mm256_extracti128_si256(even, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 3 * stride), _mm256_extracti128_si256(odd, 1));
}
/// The low (high) halves of all lanes.
inline void store_low_halves(uint8_t* p, U8x64 v) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  const __m256i halves =
      _mm256_packus_epi32(_mm256_and_si256(v.low, mask), _mm256_and_si256(v.high, mask));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(halves, 0xd8));
}
inline void store_high_halves(uint8_t* p, U8x64 v) {
  const __m256i halves =
      _mm256_packus_epi32(_mm256_srli_epi32(v.low, 16), _mm256_srli_epi32(v.high, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(halves, 0xd8));
}
/// Those bits of all lanes that are in the mask become their opposites.
inline U8x64 flip_bits(U8x64 v, uint32_t mask) {
  const __m256i lanes = _mm256_set1_epi32(static_cast<int>(mask));
  return {_mm256_xor_si256(v.low, lanes), _mm256_xor_si256(v.high, lanes)};
}
/// Modulo 256.
inline U8x64 add_bytes(U8x64 v, int n) {
  const __m256i bytes = _mm256_set1_epi8(static_cast<char>(n));
  return {_mm256_add_epi8(v.low, bytes), _mm256_add_epi8(v.high, bytes)};
}
/// The bits of a lane that are in the mask change places with those kShift above.
template <int kShift>
inline U8x64 exchange_bits(U8x64 v, uint32_t mask) {
  const __m256i lanes = _mm256_set1_epi32(static_cast<int>(mask));
  const auto exchange = [&](__m256i half) {
    const __m256i differ =
        _mm256_and_si256(_mm256_xor_si256(half, _mm256_srli_epi32(half, kShift)), lanes);
    return _mm256_xor_si256(half, _mm256_or_si256(differ, _mm256_slli_epi32(differ, kShift)));
  };
  return {exchange(v.low), exchange(v.high)};
}
/// Keeps additions where they stand: GCC puts them off until all products of a block are there,
/// which do not fit in the registers.
inline void keep_order(__m256i& low, __m256i& high) { __asm__("" : "+x"(low), "+x"(high)); }
inline I32x16 keep_order(I32x16 v) {
  keep_order(v.low, v.high);
  return v;
}
inline F32x16 keep_order(F32x16 v) {
  __asm__("" : "+x"(v.low), "+x"(v.high));
  return v;
}

/// sum[lane] += the two products of codes as int16 (lane) and the two int16 of `pair`.
inline I32x16 add_pair_products(I32x16 sum, U8x64 codes, int32_t pair) {
  const __m256i x = _mm256_set1_epi32(pair);
  sum = {_mm256_add_epi32(sum.low, _mm256_madd_epi16(codes.low, x)),
         _mm256_add_epi32(sum.high, _mm256_madd_epi16(codes.high, x))};
  keep_order(sum.low, sum.high);
  return sum;
}
/// Likewise, of int16 that are no codes, modulo 2^32.
inline I32x16 add_pair_products(I32x16 sum, I32x16 pairs, int32_t pair) {
  return add_pairs(sum, pairs, set1_i32(pair));
}

/// Sums of products of quads, of up to most_run(largest level) of them, as int16: that takes one
/// multiplication for each quad, and one more to end. The sum that a run adds to counts once: where
/// it begins or, here, where it ends.
struct ProductRun {
  __m256i low, high;  // [8][2] int16
};
constexpr bool kHasDotInstruction = false;
/// 0: int16 does not hold the products of one quad.
constexpr int most_run(int most_level) {
  int run = 8;
  while (run > 0 && run * 2 * 127 * most_level > 32767) run /= 2;
  return run;
}
inline ProductRun begin_run(I32x16 /*sum*/) {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
/// run[lane] += the four products of unsigned codes (lane) and four signed bytes (all lanes alike).
inline ProductRun add_products(ProductRun run, U8x64 codes, int32_t quad) {
  const __m256i x = _mm256_set1_epi32(quad);
  run = {_mm256_add_epi16(run.low, _mm256_maddubs_epi16(codes.low, x)),
         _mm256_add_epi16(run.high, _mm256_maddubs_epi16(codes.high, x))};
  keep_order(run.low, run.high);
  return run;
}
inline I32x16 end_run(I32x16 sum, ProductRun run) {
  return add_pair_products(sum, I32x16{run.low, run.high}, 0x00010001);
}

/// The even (odd) codes of each quad as int16, for add_pair_products.
inline U8x64 even_codes(U8x64 codes) {
  const __m256i bytes = _mm256_set1_epi16(0xff);
  return {_mm256_and_si256(codes.low, bytes), _mm256_and_si256(codes.high, bytes)};
}
inline U8x64 odd_codes(U8x64 codes) {
  return {_mm256_srli_epi16(codes.low, 8), _mm256_srli_epi16(codes.high, 8)};
}
/// Of each four lanes the first and third, then the others, as int16.
inline void store_split_i16(uint8_t* p, I32x16 v) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.low, v.high), 0xd8);
  const __m256i low = _mm256_shufflelo_epi16(packed, 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_shufflehi_epi16(low, 0xd8));
}

/// Has the line loaded here, and not first where its bytes are used, for which the compiler may
/// take the same load. That several lines are loaded in the order of the calls is up to it, too;
/// GCC 12 does so.
__attribute__((always_inline)) inline void touch(const uint8_t* p) {
  __asm__ volatile("" : : "x"(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}

}  // namespace
}  // namespace hasten::cpu
