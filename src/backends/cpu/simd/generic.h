// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes on any machine: the compiler's vector extension, lowered to what the target has.
#pragma once

#include <stdint.h>

#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

typedef float F32x16 __attribute__((vector_size(64)));
typedef int32_t I32x16 __attribute__((vector_size(64)));
typedef uint8_t U8x64 __attribute__((vector_size(64)));
typedef int16_t I16x32 __attribute__((vector_size(64)));
typedef uint16_t U16x32 __attribute__((vector_size(64)));
typedef uint32_t U32x16 __attribute__((vector_size(64)));

// Register tiles: a value takes four of 16 registers with SSE2 or NEON.
constexpr int kQuantGroups = 1;
constexpr int kQuantRows = 2;
constexpr int kQuantDirectRows = 1;  // rows that read packed weights without a panel
/// Groups at a time that they read.
constexpr int direct_groups(int /*rows*/) { return 1; }
/// No rows take accumulate_tall: it needs 32 registers.
constexpr int kLeastTallRows = kQuantDirectRows + 1;
constexpr int kTallRows = 1;
/// Of one row alone; so that any machine tests it, but for whole stacks.
constexpr bool kReadsInOrder = true;
constexpr int kFloatGroups = 1;
constexpr int kFloatRows = 2;
constexpr int kFloatTileRows = kFloatRows;  // of activations
constexpr bool kConvertsF16Slowly = true;   // then many rows share converted weights
/// Groups that so many rows are multiplied with at a time.
constexpr int float_groups(int /*rows*/) { return kFloatGroups; }
constexpr int kCachedTileRows = kFloatRows;  // queries with keys where they lie
/// Vectors of keys, or of elements, that so many of them are multiplied with at a time.
constexpr int cached_vectors(int /*rows*/) { return kFloatGroups; }
constexpr int kPeakChains = 12;  // see peak.inl: they hide a latency and stay in the registers

inline F32x16 set1(float x) { return x - F32x16{}; }
inline F32x16 zero() { return F32x16{}; }
inline F32x16 load(const float* p) {
  F32x16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, F32x16 v) { __builtin_memcpy(p, &v, sizeof v); }
/// The first n < 16 elements; the other lanes are zero.
inline F32x16 load_first(const float* p, int64_t n) {
  F32x16 v{};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
inline void store_first(float* p, F32x16 v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
inline F32x16 add(F32x16 a, F32x16 b) { return a + b; }
inline F32x16 sub(F32x16 a, F32x16 b) { return a - b; }
inline F32x16 mul(F32x16 a, F32x16 b) { return a * b; }
inline F32x16 div(F32x16 a, F32x16 b) { return a / b; }
/// Two roundings: not every machine has the fused one.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return a * b + c; }
/// total += a * b.
inline void add_product(F32x16& total, F32x16 a, F32x16 b) { total = fma(a, b, total); }
/// a > b ? a : b, so b where either is NaN.
inline F32x16 max(F32x16 a, F32x16 b) { return a > b ? a : b; }
/// a < b ? a : b, so b where either is NaN.
inline F32x16 min(F32x16 a, F32x16 b) { return a < b ? a : b; }
inline F32x16 abs(F32x16 a) {
  return reinterpret_cast<F32x16>(reinterpret_cast<I32x16>(a) & 0x7fffffff);
}
/// a < b ? x : y.
inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) { return a < b ? x : y; }
inline float reduce_add(F32x16 v) {
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = v[i] + v[i + 8];
  for (int i = 0; i < 4; ++i) sums[i] += sums[i + 4];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}
/// Any lane or NaN where lanes are NaN.
inline float reduce_max(F32x16 v) {
  float most = v[0];
  for (int i = 1; i < 16; ++i) most = v[i] > most ? v[i] : most;
  return most;
}
/// Whether a > b in any lane; false in those that hold a NaN.
inline bool any_greater(F32x16 a, F32x16 b) {
  const I32x16 greater = a > b;
  int32_t any = 0;
  for (int i = 0; i < 16; ++i) any |= greater[i];
  return any != 0;
}

inline I32x16 zero_i32() { return I32x16{}; }
inline I32x16 set1_i32(int32_t x) { return x - I32x16{}; }
inline I32x16 add_i32(I32x16 a, I32x16 b) { return a + b; }
inline I32x16 load_i32(const int32_t* p) {
  I32x16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline I32x16 sub_i32(I32x16 a, I32x16 b) { return a - b; }
inline I32x16 mul_i32(I32x16 a, I32x16 b) { return a * b; }
inline I32x16 max_i32(I32x16 a, I32x16 b) { return a > b ? a : b; }
inline I32x16 min_i32(I32x16 a, I32x16 b) { return a < b ? a : b; }
/// Lanes change places with those kDistance, a power of two, beside them.
template <int kDistance>
inline I32x16 swap_lanes(I32x16 v) {
  I32x16 swapped;
  for (int i = 0; i < 16; ++i) swapped[i] = v[i ^ kDistance];
  return swapped;
}
inline F32x16 to_float(I32x16 v) { return __builtin_convertvector(v, F32x16); }
/// Rounded down.
inline I32x16 shift_right(I32x16 v, int32_t n) { return v >> n; }
inline I32x16 shift_left(I32x16 v, int32_t n) {
  return reinterpret_cast<I32x16>(reinterpret_cast<U32x16>(v) << static_cast<uint32_t>(n));
}
/// The lower half of each lane of `low` and the upper one of `high`.
inline I32x16 join_halves(I32x16 low, I32x16 high) { return (low & 0xffff) | (high & ~0xffff); }
/// The lower half of each lane of `low`, as int16 shifted right, and the upper one of `high`.
inline I32x16 join_shifted(I32x16 low, int32_t n, I32x16 high) {
  return join_halves(shift_left(low, 16) >> (16 + n), high);
}
/// Lanes of two int16, here of which the lower half is the first in memory: little-endian.
inline I32x16 load_halves(const uint8_t* p) {
  I32x16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
/// The lower (upper) half of each lane, in both halves.
inline I32x16 low_halves(I32x16 v) { return join_halves(v, shift_left(v, 16)); }
inline I32x16 high_halves(I32x16 v) { return join_halves(v >> 16, v); }
/// The lower half of each lane as a number.
inline I32x16 low_numbers(I32x16 v) { return shift_left(v, 16) >> 16; }
/// a * b / 2^15 of int16, to the nearest.
inline I32x16 multiply_high(I32x16 a, I32x16 b) {
  const I32x16 low = (low_numbers(a) * low_numbers(b) + (1 << 14)) >> 15;
  const I32x16 high = ((a >> 16) * (b >> 16) + (1 << 14)) >> 15;
  return join_halves(low, shift_left(high, 16));
}
/// sum[lane] += the two products of int16 in the lane, modulo 2^32.
inline I32x16 add_pairs(I32x16 sum, I32x16 a, I32x16 b) {
  const I32x16 low = low_numbers(a) * low_numbers(b);
  const I32x16 high = (a >> 16) * (b >> 16);
  return reinterpret_cast<I32x16>(reinterpret_cast<U32x16>(low) + reinterpret_cast<U32x16>(high) +
                                  reinterpret_cast<U32x16>(sum));
}
/// sum[lane] += the two products of int16 in the lane of `pairs` and in `pair`, modulo 2^32.
inline I32x16 add_pair_products(I32x16 sum, I32x16 pairs, int32_t pair) {
  return add_pairs(sum, pairs, set1_i32(pair));
}
inline void store_i32(uint8_t* p, I32x16 v) { __builtin_memcpy(p, &v, sizeof v); }
/// The same bits.
inline F32x16 as_float(I32x16 v) { return reinterpret_cast<F32x16>(v); }
inline I32x16 as_bits(F32x16 v) { return reinterpret_cast<I32x16>(v); }
/// To nearest, ties to even; |v| < 2^22. Adding 1.5 * 2^23 leaves the integer in the low bits.
inline I32x16 to_int(F32x16 v) { return reinterpret_cast<I32x16>(v + 0x1.8p23F) - 0x4b400000; }
/// 2^n for n in [-126, 127]; zero below, infinity for n = 128.
inline F32x16 power_of_two(I32x16 n) {
  const I32x16 biased = n + 127;
  return reinterpret_cast<F32x16>((biased > 0 ? biased : I32x16{}) << 23);
}
/// Bit patterns of the larger of |a| and |b|, which orders numbers, infinity and NaN.
inline I32x16 max_magnitudes(F32x16 a, F32x16 b) {
  const I32x16 a_bits = reinterpret_cast<I32x16>(abs(a));
  const I32x16 b_bits = reinterpret_cast<I32x16>(abs(b));
  return a_bits > b_bits ? a_bits : b_bits;
}
/// Lane i: the largest lane of f(Constant<i>).
template <class F>
inline I32x16 reduce_each_max(F&& f) {
  I32x16 largest{};
  unroll<0, 16>([&](auto index) {
    const I32x16 v = f(index);
    int32_t most = v[0];
    for (int i = 1; i < 16; ++i) most = v[i] > most ? v[i] : most;
    largest[index.value] = most;
  });
  return largest;
}
/// Lane i: the sum of the lanes of f(Constant<i>).
template <class F>
inline I32x16 reduce_each_add(F&& f) {
  I32x16 sums{};
  unroll<0, 16>([&](auto index) {
    const I32x16 v = f(index);
    for (int i = 0; i < 16; ++i) sums[index.value] += v[i];
  });
  return sums;
}

/// Lanes that fit in a byte.
inline void store_i8(int8_t* p, I32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(v[i]);
}
inline F32x16 load_i8(const uint8_t* p) {
  I32x16 v{};
  for (int i = 0; i < 16; ++i) v[i] = static_cast<int8_t>(p[i]);
  return to_float(v);
}
/// The low (high) nibbles of 16 bytes.
inline F32x16 load_low_nibbles(const uint8_t* p) {
  I32x16 v{};
  for (int i = 0; i < 16; ++i) v[i] = p[i] & 15;
  return to_float(v);
}
inline F32x16 load_high_nibbles(const uint8_t* p) {
  I32x16 v{};
  for (int i = 0; i < 16; ++i) v[i] = p[i] >> 4;
  return to_float(v);
}

inline U32x16 load_u16(const uint16_t* p) {
  U32x16 v{};
  for (int i = 0; i < 16; ++i) v[i] = p[i];
  return v;
}
inline void store_u16(uint16_t* p, U32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint16_t>(v[i]);
}
/// Numbers and subnormals by a multiplication with 2^112; infinity and NaN by their exponent.
inline F32x16 load_f16(const uint16_t* p) {
  const U32x16 half = load_u16(p);
  const U32x16 magnitude = (half & 0x7fffU) << 13;
  const F32x16 number = reinterpret_cast<F32x16>(magnitude) * 0x1p112F;
  const U32x16 special = magnitude | 0x7f800000U;
  const U32x16 bits = magnitude >= 0x0f800000U ? special : reinterpret_cast<U32x16>(number);
  return reinterpret_cast<F32x16>(bits | (half & 0x8000U) << 16);
}
/// To nearest even: in a subnormal result by adding 0.5, whose last bit is 2^-24, else with
/// integers.
inline void store_f16(uint16_t* p, F32x16 v) {
  const U32x16 bits = reinterpret_cast<U32x16>(v);
  const U32x16 magnitude = bits & 0x7fffffffU;
  const U32x16 rounded = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  const U32x16 tiny =
      reinterpret_cast<U32x16>(reinterpret_cast<F32x16>(magnitude) + 0.5F) - 0x3f000000U;
  U32x16 half = magnitude < 0x38800000U ? tiny : rounded;
  half = magnitude >= 0x477ff000U ? U32x16{} + 0x7c00U : half;
  half = magnitude > 0x7f800000U ? U32x16{} + 0x7e00U : half;
  store_u16(p, half | ((bits >> 16) & 0x8000U));
}
/// One binary16 in all lanes.
inline F32x16 broadcast_f16(const uint16_t* p) {
  uint16_t lanes[16];
  for (uint16_t& lane : lanes) lane = *p;
  return load_f16(lanes);
}
/// See tensor/float8.h.
inline F32x16 load_f8_e4m3(const uint8_t* p) {
  U32x16 v{};
  for (int i = 0; i < 16; ++i) v[i] = p[i];
  const U32x16 magnitude = v & 0x7fU;
  const F32x16 small = __builtin_convertvector(magnitude, F32x16) * 0x1p-9F;
  U32x16 bits = (magnitude << 20) + (120U << 23);
  bits = magnitude < 8U ? reinterpret_cast<U32x16>(small) : bits;
  bits = magnitude == 0x7fU ? U32x16{} + 0x7fc00000U : bits;
  return reinterpret_cast<F32x16>(bits | (v & 0x80U) << 24);
}
inline F32x16 load_bf16(const uint16_t* p) { return reinterpret_cast<F32x16>(load_u16(p) << 16); }
/// Sixteen in the order of lanes that costs least: as they are, here.
inline F32x16 load_bf16_shuffled(const uint16_t* p) { return load_bf16(p); }
inline F32x16 shuffled(F32x16 v) { return v; }
inline F32x16 ordered(F32x16 v) { return v; }
/// To nearest even; NaN stays NaN.
inline void store_bf16(uint16_t* p, F32x16 v) {
  const U32x16 bits = reinterpret_cast<U32x16>(v);
  const U32x16 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const U32x16 quiet = (bits >> 16) | 0x40U;
  store_u16(p, (bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}
/// Of 16 pairs of bf16 in a little-endian order: the first (second) of each pair.
inline F32x16 load_bf16_even(const uint8_t* p) {
  U32x16 pairs;
  __builtin_memcpy(&pairs, p, sizeof pairs);
  return reinterpret_cast<F32x16>(pairs << 16);
}
inline F32x16 load_bf16_odd(const uint8_t* p) {
  U32x16 pairs;
  __builtin_memcpy(&pairs, p, sizeof pairs);
  return reinterpret_cast<F32x16>(pairs & 0xffff0000U);
}

/// The same bits.
inline I32x16 as_lanes(U8x64 v) { return reinterpret_cast<I32x16>(v); }
inline U8x64 as_bytes(I32x16 v) { return reinterpret_cast<U8x64>(v); }
/// The even (odd) bytes times 256, as int16.
inline I32x16 even_bytes(U8x64 v) {
  return reinterpret_cast<I32x16>(reinterpret_cast<U16x32>(v) << 8);
}
inline I32x16 odd_bytes(U8x64 v) {
  return reinterpret_cast<I32x16>(reinterpret_cast<U16x32>(v) & 0xff00U);
}

inline U8x64 load_codes(const uint8_t* p) {
  U8x64 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store_codes(uint8_t* p, U8x64 v) { __builtin_memcpy(p, &v, sizeof v); }
inline void store_line_past_caches(uint8_t* p, U8x64 v) { store_codes(p, v); }
/// Bytes shifted left (kLeft > 0) or right (kLeft < 0) and masked.
template <int kLeft>
inline U8x64 shift_and(U8x64 v, uint8_t mask) {
  // Few machines shift bytes; what comes from a pair's other byte is masked.
  if constexpr (kLeft > 0) v = reinterpret_cast<U8x64>(reinterpret_cast<U16x32>(v) << kLeft);
  if constexpr (kLeft < 0) v = reinterpret_cast<U8x64>(reinterpret_cast<U16x32>(v) >> -kLeft);
  return v & mask;
}
inline U8x64 bit_or(U8x64 a, U8x64 b) { return a | b; }
/// table[index], index < 16.
__attribute__((noinline)) inline U8x64 lookup(const uint8_t* table, U8x64 index) {
  U8x64 v{};
  for (int i = 0; i < 64; ++i) v[i] = table[index[i]];
  return v;
}
/// 16 bytes of each of 16 rows, which are `row_bytes` apart: of row r in lane r of four vectors.
inline void load_quads(const uint8_t* rows, int64_t row_bytes, U8x64* quads) {
  uint32_t lanes[4][16];
  for (int r = 0; r < 16; ++r) {
    for (int i = 0; i < 4; ++i) __builtin_memcpy(&lanes[i][r], rows + r * row_bytes + 4 * i, 4);
  }
  for (int i = 0; i < 4; ++i) __builtin_memcpy(quads + i, lanes[i], 64);
}
/// 4 bytes of each of 16 rows.
inline U8x64 load_quad(const uint8_t* rows, int64_t row_bytes) {
  uint8_t lanes[64];
  for (int r = 0; r < 16; ++r) __builtin_memcpy(lanes + 4 * r, rows + r * row_bytes, 4);
  U8x64 v;
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
}
/// Byte t of all lanes to p + t * stride.
inline void store_bytes(uint8_t* p, int64_t stride, U8x64 v) {
  uint8_t bytes[64];
  __builtin_memcpy(bytes, &v, sizeof bytes);
  for (int t = 0; t < 4; ++t) {
    for (int r = 0; r < 16; ++r) p[t * stride + r] = bytes[4 * r + t];
  }
}
/// The low (high) halves of all lanes. Little-endian, as add_products.
inline void store_low_halves(uint8_t* p, U8x64 v) {
  uint8_t bytes[64];
  __builtin_memcpy(bytes, &v, sizeof bytes);
  for (int r = 0; r < 16; ++r) __builtin_memcpy(p + 2 * r, bytes + 4 * r, 2);
}
inline void store_high_halves(uint8_t* p, U8x64 v) {
  store_low_halves(p, reinterpret_cast<U8x64>(reinterpret_cast<U32x16>(v) >> 16));
}
/// Those bits of all lanes that are in the mask become their opposites.
inline U8x64 flip_bits(U8x64 v, uint32_t mask) {
  return reinterpret_cast<U8x64>(reinterpret_cast<U32x16>(v) ^ mask);
}
/// Modulo 256.
inline U8x64 add_bytes(U8x64 v, int n) { return v + static_cast<uint8_t>(n); }
/// The bits of a lane that are in the mask change places with those kShift above.
template <int kShift>
inline U8x64 exchange_bits(U8x64 v, uint32_t mask) {
  const U32x16 lanes = reinterpret_cast<U32x16>(v);
  const U32x16 differ = (lanes ^ lanes >> kShift) & mask;
  return reinterpret_cast<U8x64>(lanes ^ (differ | differ << kShift));
}
/// sum[lane] += the four products of unsigned codes (lane) and four signed bytes (all lanes alike).
/// Little-endian: byte t of a lane is its bits from 8 * t. A product fits in int16, which machines
/// multiply that have no instruction for int32.
inline I32x16 add_products(I32x16 sum, U8x64 codes, int32_t quad) {
  const I16x32 x = reinterpret_cast<I16x32>(set1_i32(quad));
  const U16x32 pairs = reinterpret_cast<U16x32>(codes);
  const auto even =
      reinterpret_cast<I32x16>(reinterpret_cast<I16x32>(pairs & 0xff) * (x << 8 >> 8));
  const auto odd = reinterpret_cast<I32x16>(reinterpret_cast<I16x32>(pairs >> 8) * (x >> 8));
  return sum + (low_numbers(even) + (even >> 16)) + (low_numbers(odd) + (odd >> 16));
}
/// See simd/avx512.h; where a vector is several registers, the compiler does as it likes.
inline I32x16 keep_order(I32x16 v) { return v; }
inline F32x16 keep_order(F32x16 v) { return v; }
/// A run of such: see simd/avx2.h. Here it is the sum itself.
using ProductRun = I32x16;
constexpr bool kHasDotInstruction = false;
constexpr int most_run(int /*most_level*/) { return 8; }
inline ProductRun begin_run(I32x16 sum) { return sum; }
inline I32x16 end_run(I32x16 /*sum*/, ProductRun run) { return run; }

/// Asks for the line of p. Without the empty statement GCC 12 takes a function that does nothing
/// else for one without effect, and drops calls of it that are not inlined yet.
inline void prefetch(const uint8_t* p) {
  __asm__ volatile("");
  __builtin_prefetch(p);
}
/// Likewise, into the second-level cache: more lines can be on their way at a time.
inline void prefetch_far(const uint8_t* p) {
  __asm__ volatile("");
  __builtin_prefetch(p, 0, 2);
}

/// 16 bytes; here by ordinary stores, which need no more order than others.
inline void store_past_caches(const uint8_t* from, uint8_t* to) { __builtin_memcpy(to, from, 16); }
inline void order_stores() {}

/// Has the line loaded here, and not first where its bytes are used.
inline void touch(const uint8_t* p) { static_cast<void>(*static_cast<const volatile uint8_t*>(p)); }

}  // namespace
}  // namespace hasten::cpu
