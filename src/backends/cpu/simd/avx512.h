// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes on AVX-512 (F, BW, DQ, VL, VNNI): one register per value.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "backends/cpu/kernels/unroll.inl"
#include "backends/cpu/simd/x86.h"

namespace hasten::cpu {
namespace {

using F32x16 = __m512;
using I32x16 = __m512i;
using U8x64 = __m512i;

// Register tiles (32 registers): accumulators, weights and a broadcast must fit together.
constexpr int kQuantGroups = 3;  // 3 x 4 sums of products, and as many of the blocks before
constexpr int kQuantRows = 4;
/// Rows that read packed weights without a panel. With sanitizers each takes up to 20 s to compile:
/// nine are two turns of tall ones, as twelve are, and threads divide five rows as they do twelve.
#if defined(__SANITIZE_THREAD__)
constexpr int kQuantDirectRows = 5;
#elif defined(HASTEN_SANITIZED)
constexpr int kQuantDirectRows = 9;
#else
constexpr int kQuantDirectRows = 12;
#endif
/// Groups at a time that they read, but for kOneStreamRows and tall tiles: several streams of
/// memory, while registers last.
constexpr int direct_groups(int rows) { return rows <= 2 ? 4 : rows <= 6 ? 2 : 1; }
/// Rows from which on two groups of weights with integer scales are multiplied side by side
/// (accumulate_tall), so many rows at a time; up to so many, groups that are divided one by one.
constexpr int kLeastTallRows = 5;
constexpr int kTallRows = 8;  // 2 x 8 sums of products, and half as many of the blocks before
/// WeightStreams::in_order, which only processors with AVX-512 are known to gain by; it takes a
/// third of the time in which products compile.
constexpr bool kReadsInOrder = true;
constexpr int kFloatGroups = 4;  // 4 x 6 accumulators
constexpr int kFloatRows = 6;
constexpr int kFloatTileRows = kFloatRows;  // of activations
constexpr bool kConvertsF16Slowly = false;  // then many rows share converted weights
/// Groups that so many rows are multiplied with at a time.
constexpr int float_groups(int /*rows*/) { return kFloatGroups; }
constexpr int kCachedTileRows = kFloatRows;  // queries with keys where they lie
/// Vectors of keys, or of elements, that so many of them are multiplied with at a time.
constexpr int cached_vectors(int /*rows*/) { return kFloatGroups; }
constexpr int kPeakChains = 20;  // see peak.inl: they hide a latency and stay in the registers

inline F32x16 zero() { return _mm512_setzero_ps(); }
inline F32x16 set1(float x) { return _mm512_set1_ps(x); }
inline F32x16 load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F32x16 v) { _mm512_storeu_ps(p, v); }
inline __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
/// The first n < 16 elements; the other lanes are zero.
inline F32x16 load_first(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void store_first(float* p, F32x16 v, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}
inline F32x16 add(F32x16 a, F32x16 b) { return _mm512_add_ps(a, b); }
inline F32x16 sub(F32x16 a, F32x16 b) { return _mm512_sub_ps(a, b); }
inline F32x16 mul(F32x16 a, F32x16 b) { return _mm512_mul_ps(a, b); }
inline F32x16 div(F32x16 a, F32x16 b) { return _mm512_div_ps(a, b); }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
/// total += a * b.
inline void add_product(F32x16& total, F32x16 a, F32x16 b) { total = fma(a, b, total); }
/// a > b ? a : b, so b where either is NaN.
inline F32x16 max(F32x16 a, F32x16 b) { return _mm512_max_ps(a, b); }
/// a < b ? a : b, so b where either is NaN.
inline F32x16 min(F32x16 a, F32x16 b) { return _mm512_min_ps(a, b); }
inline F32x16 abs(F32x16 a) { return _mm512_abs_ps(a); }
/// a < b ? x : y.
inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline float reduce_add(F32x16 v) { return _mm512_reduce_add_ps(v); }
/// Any lane or NaN where lanes are NaN.
inline float reduce_max(F32x16 v) { return _mm512_reduce_max_ps(v); }

/// Whether a > b in any lane; false in those that hold a NaN.
inline bool any_greater(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }

inline I32x16 zero_i32() { return _mm512_setzero_si512(); }
inline I32x16 set1_i32(int32_t x) { return _mm512_set1_epi32(x); }
inline I32x16 add_i32(I32x16 a, I32x16 b) { return _mm512_add_epi32(a, b); }
inline I32x16 load_i32(const int32_t* p) { return _mm512_loadu_si512(p); }
inline I32x16 sub_i32(I32x16 a, I32x16 b) { return _mm512_sub_epi32(a, b); }
inline I32x16 mul_i32(I32x16 a, I32x16 b) { return _mm512_mullo_epi32(a, b); }
inline I32x16 max_i32(I32x16 a, I32x16 b) { return _mm512_max_epi32(a, b); }
inline I32x16 min_i32(I32x16 a, I32x16 b) { return _mm512_min_epi32(a, b); }
/// Lanes change places with those kDistance beside them: 1, 2 or 4.
template <int kDistance>
inline I32x16 swap_lanes(I32x16 v) {
  static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4);
  if constexpr (kDistance == 1) return _mm512_shuffle_epi32(v, _MM_PERM_CDAB);
  if constexpr (kDistance == 2) return _mm512_shuffle_epi32(v, _MM_PERM_BADC);
  if constexpr (kDistance == 4) return _mm512_shuffle_i64x2(v, v, 0xb1);
}
inline F32x16 to_float(I32x16 v) { return _mm512_cvtepi32_ps(v); }
/// Rounded down.
inline I32x16 shift_right(I32x16 v, int32_t n) { return _mm512_srav_epi32(v, set1_i32(n)); }
inline I32x16 shift_left(I32x16 v, int32_t n) { return _mm512_sllv_epi32(v, set1_i32(n)); }
/// The lower half of each lane of `low` and the upper one of `high`.
inline I32x16 join_halves(I32x16 low, I32x16 high) {
  return _mm512_mask_mov_epi16(low, 0xaaaaaaaa, high);
}
/// The lower half of each lane of `low`, as int16 shifted right, and the upper one of `high`.
inline I32x16 join_shifted(I32x16 low, int32_t n, I32x16 high) {
  return _mm512_mask_srav_epi16(high, 0x55555555, low, set1_i32(n));
}
/// Lanes of two int16.
inline I32x16 load_halves(const uint8_t* p) { return _mm512_loadu_si512(p); }
/// The lower (upper) half of each lane, in both halves.
inline I32x16 low_halves(I32x16 v) {
  return _mm512_shuffle_epi8(v, _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100));
}
inline I32x16 high_halves(I32x16 v) {
  return _mm512_shuffle_epi8(v, _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302));
}
/// a * b / 2^15 of int16, to the nearest.
inline I32x16 multiply_high(I32x16 a, I32x16 b) { return _mm512_mulhrs_epi16(a, b); }
/// sum[lane] += the two products of int16 in the lane, modulo 2^32.
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) { return _mm512_dpwssd_epi32(sum, a, b); }
/// sum[lane] += the two products of int16 in the lane of `pairs` and in `pair`, modulo 2^32.
inline I32x16 add_pair_products(I32x16 sum, I32x16 pairs, int32_t pair) {
  return add_pairs(sum, pairs, set1_i32(pair));
}
inline void store_i32(uint8_t* p, I32x16 v) { _mm512_storeu_si512(p, v); }
/// The same bits.
inline F32x16 as_float(I32x16 v) { return _mm512_castsi512_ps(v); }
inline I32x16 as_bits(F32x16 v) { return _mm512_castps_si512(v); }
/// To nearest, ties to even; |v| < 2^22.
inline I32x16 to_int(F32x16 v) { return _mm512_cvtps_epi32(v); }
/// 2^n for n in [-126, 127]; zero below, infinity for n = 128.
inline F32x16 power_of_two(I32x16 n) {
  const I32x16 biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_max_epi32(biased, _mm512_setzero_si512()), 23));
}
/// The larger of numbers that are not negative, by their bits: NaN, of any sign, if either is.
inline F32x16 max_bits(F32x16 a, F32x16 b) {
  return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
/// The largest lane, likewise.
inline float reduce_bits(F32x16 v) {
  const auto bits = static_cast<int32_t>(_mm512_reduce_max_epu32(_mm512_castps_si512(v)));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
}
/// a * b in the lanes whose bit is set, zero in others.
inline F32x16 mul_lanes(uint16_t lanes, F32x16 a, F32x16 b) {
  return _mm512_maskz_mul_ps(lanes, a, b);
}
/// Bit patterns of the larger of |a| and |b|, which orders numbers, infinity and NaN.
inline I32x16 max_magnitudes(F32x16 a, F32x16 b) {
  return _mm512_max_epi32(_mm512_castps_si512(abs(a)), _mm512_castps_si512(abs(b)));
}
/// Lane i: the lanes of f(Constant<i>) brought together by op, in some order.
template <class F, class Op>
HASTEN_INLINE inline I32x16 reduce_each(F&& f, Op&& op) {
  I32x16 quarters[4];  // lane 4 q + j of vector i: a quarter of vector i + 4 q
  unroll<0, 4>([&](auto index) HASTEN_INLINE {
    constexpr int kI = decltype(index)::value;
    const auto halves = [&](I32x16 a, I32x16 b) HASTEN_INLINE {
      return op(_mm512_shuffle_i64x2(a, b, 0x44), _mm512_shuffle_i64x2(a, b, 0xee));
    };
    const I32x16 first = halves(f(Constant<kI>{}), f(Constant<kI + 4>{}));
    const I32x16 second = halves(f(Constant<kI + 8>{}), f(Constant<kI + 12>{}));
    quarters[kI] =
        op(_mm512_shuffle_i64x2(first, second, 0x88), _mm512_shuffle_i64x2(first, second, 0xdd));
  });
  const auto pairs = [&](I32x16 a, I32x16 b) HASTEN_INLINE {
    return _mm512_castsi512_ps(op(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)));
  };
  const F32x16 low = pairs(quarters[0], quarters[1]);
  const F32x16 high = pairs(quarters[2], quarters[3]);
  return op(_mm512_castps_si512(_mm512_shuffle_ps(low, high, 0x88)),
            _mm512_castps_si512(_mm512_shuffle_ps(low, high, 0xdd)));
}
/// Lane i: the largest lane of f(Constant<i>).
template <class F>
HASTEN_INLINE inline I32x16 reduce_each_max(F&& f) {
  return reduce_each(f, [](I32x16 a, I32x16 b) HASTEN_INLINE { return _mm512_max_epi32(a, b); });
}
/// Lane i: the sum of the lanes of f(Constant<i>).
template <class F>
HASTEN_INLINE inline I32x16 reduce_each_add(F&& f) {
  return reduce_each(f, [](I32x16 a, I32x16 b) HASTEN_INLINE { return _mm512_add_epi32(a, b); });
}

/// x less the largest whole number that is not above it; zero for infinities.
inline F32x16 fraction(F32x16 x) {
  return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
/// v * 2^n with that number.
inline F32x16 scale_by_whole(F32x16 v, F32x16 x) { return _mm512_scalef_ps(v, x); }

/// 32 signed bytes as 16 pairs of 16 bits.
inline I32x16 widen_i8(const uint8_t* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
/// Sums of integers that a loop carries: of the very type of what adds to them, or GCC 12 copies
/// them each time, and spills the copies.
using I32Sums = int32_t __attribute__((vector_size(64)));
/// sum[lane] += both products of pairs of 16 bits.
inline I32Sums dot_i16(I32Sums sum, I32x16 pairs, I32x16 others) {
  return reinterpret_cast<I32Sums>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), pairs, others));
}
inline F32x16 to_float(I32Sums v) { return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(v)); }
/// The low half of each lane: eight pairs.
inline void store_i16(float* p, I32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
}
/// Lanes that fit in a byte.
inline void store_i8(int8_t* p, I32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
inline F32x16 load_i8(const uint8_t* p) {
  return to_float(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
/// The low (high) nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) {
  const I32x16 v = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return to_float(_mm512_and_si512(v, _mm512_set1_epi32(15)));
}
inline F32x16 load_high_nibbles(const uint8_t* p) {
  const I32x16 v = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return to_float(_mm512_srli_epi32(v, 4));
}

inline F32x16 load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_f16(uint16_t* p, F32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// One binary16 in all lanes.
inline F32x16 broadcast_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(*p)));
}
/// See tensor/float8.h. Shifted into the place of a binary16, the bits are those of the number
/// times 2^-8; unlike a multiplication, that conversion is not slow for subnormals.
inline F32x16 load_f8_e4m3(const uint8_t* p) {
  const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(v, magnitude), 8);
  const __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i half =
      _mm256_mask_mov_epi16(_mm256_slli_epi16(magnitude, 7), nan, _mm256_set1_epi16(0x7e00));
  return mul(_mm512_cvtph_ps(_mm256_or_si256(half, sign)), set1(0x1p8F));
}
inline F32x16 load_bf16(const uint16_t* p) {
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
/// Sixteen in the order of lanes that costs least: as they are, here.
inline F32x16 load_bf16_shuffled(const uint16_t* p) { return load_bf16(p); }
inline F32x16 shuffled(F32x16 v) { return v; }
inline F32x16 ordered(F32x16 v) { return v; }
/// To nearest even with integers: vcvtneps2bf16 would flush subnormals.
inline void store_bf16(uint16_t* p, F32x16 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i top = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(top));
}
/// Of 16 pairs of bf16: the first (second) of each pair.
inline F32x16 load_bf16_even(const uint8_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
inline F32x16 load_bf16_odd(const uint8_t* p) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
}

/// Keeps a value in its register: GCC 12 copies what a loop carries, and spills the copies.
inline I32x16 keep_order(I32x16 v) {
  __asm__("" : "+v"(v));
  return v;
}
inline F32x16 keep_order(F32x16 v) {
  __asm__("" : "+v"(v));
  return v;
}

/// The same bits.
inline I32x16 as_lanes(U8x64 v) { return v; }
inline U8x64 as_bytes(I32x16 v) { return v; }
/// The even (odd) bytes times 256, as int16.
inline I32x16 even_bytes(U8x64 v) { return _mm512_slli_epi16(v, 8); }
inline I32x16 odd_bytes(U8x64 v) {
  return _mm512_and_si512(v, _mm512_set1_epi16(static_cast<int16_t>(0xff00)));
}

inline U8x64 load_codes(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline void store_codes(uint8_t* p, U8x64 v) { _mm512_storeu_si512(p, v); }
inline void store_line_past_caches(uint8_t* p, U8x64 v) {
  if constexpr (kSanitized) return store_codes(p, v);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v);
}
/// Bytes shifted left (kLeft > 0) or right (kLeft < 0) and masked.
template <int kLeft>
inline U8x64 shift_and(U8x64 v, uint8_t mask) {
  if constexpr (kLeft > 0) v = _mm512_slli_epi16(v, kLeft);
  if constexpr (kLeft < 0) v = _mm512_srli_epi16(v, -kLeft);
  return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask)));
}
inline U8x64 bit_or(U8x64 a, U8x64 b) { return _mm512_or_si512(a, b); }
/// table[index], index < 16.
inline U8x64 lookup(const uint8_t* table, U8x64 index) {
  const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(levels), index);
}
/// 16 bytes of each of 16 rows, which are `row_bytes` apart: of row r in lane r of four
/// vectors.
inline void load_quads(const uint8_t* rows, int64_t row_bytes, U8x64* quads) {
  const auto row = [&](int r) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + r * row_bytes));
  };
  const auto every_fourth = [&](int first) {
    __m512i v = _mm512_castsi128_si512(row(first));
    v = _mm512_inserti32x4(v, row(first + 4), 1);
    v = _mm512_inserti32x4(v, row(first + 8), 2);
    return _mm512_inserti32x4(v, row(first + 12), 3);
  };
  const __m512i a = every_fourth(0);
  const __m512i b = every_fourth(1);
  const __m512i c = every_fourth(2);
  const __m512i d = every_fourth(3);
  const __m512i ab_low = _mm512_unpacklo_epi32(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi32(c, d);
  const __m512i ab_high = _mm512_unpackhi_epi32(a, b);
  const __m512i cd_high = _mm512_unpackhi_epi32(c, d);
  quads[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  quads[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  quads[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  quads[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}
/// 4 bytes of each of 16 rows.
inline U8x64 load_quad(const uint8_t* rows, int64_t row_bytes) {
  const auto four = [&](int r) { return load_quad_of_four(rows + r * row_bytes, row_bytes); };
  __m512i v = _mm512_castsi128_si512(four(0));
  v = _mm512_inserti32x4(v, four(4), 1);
  v = _mm512_inserti32x4(v, four(8), 2);
  return _mm512_inserti32x4(v, four(12), 3);
}
/// Byte t of all lanes to p + t * stride.
inline void store_bytes(uint8_t* p, int64_t stride, U8x64 v) {
  const __m512i by_byte = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  const __m512i by_quarter = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i bytes = _mm512_permutexvar_epi32(by_quarter, _mm512_shuffle_epi8(v, by_byte));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + stride), _mm512_extracti32x4_epi32(bytes, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * stride), _mm512_extracti32x4_epi32(bytes, 2));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 3 * stride), _mm512_extracti32x4_epi32(bytes, 3));
}
/// The low (high) halves of all lanes.
inline void store_low_halves(uint8_t* p, U8x64 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
}
inline void store_high_halves(uint8_t* p, U8x64 v) {
  store_low_halves(p, _mm512_srli_epi32(v, 16));
}
/// Those bits of all lanes that are in the mask become their opposites.
inline U8x64 flip_bits(U8x64 v, uint32_t mask) {
  return _mm512_xor_si512(v, _mm512_set1_epi32(static_cast<int>(mask)));
}
/// Modulo 256.
inline U8x64 add_bytes(U8x64 v, int n) {
  return _mm512_add_epi8(v, _mm512_set1_epi8(static_cast<char>(n)));
}
/// The bits of a lane that are in the mask change places with those kShift above.
template <int kShift>
inline U8x64 exchange_bits(U8x64 v, uint32_t mask) {
  const __m512i differ = _mm512_and_si512(_mm512_xor_si512(v, _mm512_srli_epi32(v, kShift)),
                                          _mm512_set1_epi32(static_cast<int>(mask)));
  return _mm512_xor_si512(v, _mm512_or_si512(differ, _mm512_slli_epi32(differ, kShift)));
}
/// sum[lane] += the four products of unsigned codes (lane) and four signed bytes (all lanes alike).
inline I32x16 add_products(I32x16 sum, U8x64 codes, int32_t quad) {
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(quad));
}
/// A run of such: see simd/avx2.h. Here it is the sum itself.
using ProductRun = I32x16;
constexpr bool kHasDotInstruction = true;
constexpr int most_run(int /*most_level*/) { return 8; }
inline ProductRun begin_run(I32x16 sum) { return sum; }
inline I32x16 end_run(I32x16 /*sum*/, ProductRun run) { return run; }

/// Has the line loaded here, and not first where its bytes are used, for which the compiler may
/// take the same load. That several lines are loaded in the order of the calls is up to it, too;
/// GCC 12 does so.
__attribute__((always_inline)) inline void touch(const uint8_t* p) {
  __asm__ volatile("" : : "v"(_mm512_loadu_si512(p)));
}

}  // namespace
}  // namespace hasten::cpu
