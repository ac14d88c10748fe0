// SPDX-License-Identifier: Apache-2.0
// Elements of keys and values as they lie in the cache. Whatever the type, an element is one exact
// float: a code of 8 bits times a scale of 11 fits in its 24.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// 16 codes; of q4_0 the low nibbles of 16 bytes or, kHigh, the high ones.
template <KvKind kKind, bool kHigh>
HASTEN_INLINE inline F32x16 load_kv_codes(const uint8_t* p) {
  if constexpr (kKind == KvKind::f32) return load(reinterpret_cast<const float*>(p));
  if constexpr (kKind == KvKind::f16) return load_f16(reinterpret_cast<const uint16_t*>(p));
  if constexpr (kKind == KvKind::bf16) return load_bf16(reinterpret_cast<const uint16_t*>(p));
  if constexpr (kKind == KvKind::f8_e4m3) return load_f8_e4m3(p);
  if constexpr (kKind == KvKind::q8_0) return load_i8(p);
  if constexpr (kKind == KvKind::q4_0)
    return sub(kHigh ? load_high_nibbles(p) : load_low_nibbles(p), set1(8));
}

/// The first n <= 16 codes; the other lanes are whatever zeros decode to.
template <KvKind kKind, bool kHigh>
inline F32x16 load_first_kv_codes(const uint8_t* p, int64_t n) {
  if (n == 16) return load_kv_codes<kKind, kHigh>(p);
  uint8_t lanes[64] = {};
  __builtin_memcpy(lanes, p, kv_key_row_bytes(kKind, n));
  return load_kv_codes<kKind, kHigh>(lanes);
}

/// Scales of 16 keys.
inline F32x16 load_kv_scales(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}
inline F32x16 load_first_kv_scales(const uint8_t* p, int64_t n) {
  uint16_t lanes[16] = {};
  __builtin_memcpy(lanes, p, n * kKvScaleBytes);
  return load_f16(lanes);
}

/// f(row, high) for the rows of key codes that elements [32 j, 32 j + 32) of the head lie in, in
/// the order of the elements; of a type without scales for all elements at once.
template <KvKind kKind, class F>
HASTEN_INLINE inline void for_key_rows(int64_t head_dim, int64_t j, F&& f) {
  if constexpr (kKind == KvKind::q4_0) {
    for (int64_t row = 16 * j; row < 16 * j + 16; ++row) f(row, Constant<0>{});
    for (int64_t row = 16 * j; row < 16 * j + 16; ++row) f(row, Constant<1>{});
  } else {
    const int64_t begin = has_scales(kKind) ? kKvScaleElements * j : 0;
    const int64_t end = has_scales(kKind) ? begin + kKvScaleElements : head_dim;
    // Two rows to a turn: attention to bf16 in the cache takes 3 % less on AVX2.
#pragma GCC unroll 2
    for (int64_t row = begin; row < end; ++row) f(row, Constant<0>{});
  }
}
template <KvKind kKind>
constexpr int64_t num_key_row_runs(int64_t head_dim) {
  return has_scales(kKind) ? head_dim / kKvScaleElements : 1;
}

/// load_kv_codes with lanes in the order that costs least: of bf16 `shuffled`, else as they lie.
template <KvKind kKind, bool kHigh>
HASTEN_INLINE inline F32x16 load_kv_codes_shuffled(const uint8_t* p) {
  if constexpr (kKind == KvKind::bf16)
    return load_bf16_shuffled(reinterpret_cast<const uint16_t*>(p));
  return load_kv_codes<kKind, kHigh>(p);
}
/// Lanes as they lie to that order, and back.
template <KvKind kKind>
HASTEN_INLINE inline F32x16 to_code_order(F32x16 v) {
  return kKind == KvKind::bf16 ? shuffled(v) : v;
}
template <KvKind kKind>
HASTEN_INLINE inline F32x16 from_code_order(F32x16 v) {
  return kKind == KvKind::bf16 ? ordered(v) : v;
}

/// Where the code of element d of a value lies, d a multiple of 16.
template <KvKind kKind>
constexpr int64_t value_code_at(int64_t d) {
  return kKind == KvKind::q4_0 ? d / 32 * 16 : kv_code_bytes(kKind, d);
}

template <KvKind kKind>
constexpr int64_t value_scale_bytes(int64_t head_dim) {
  return has_scales(kKind) ? head_dim / kKvScaleElements * kKvScaleBytes : 0;
}

/// Elements d ... of a value, d a multiple of 16, from their codes.
template <KvKind kKind>
HASTEN_INLINE inline F32x16 scale_value_codes(F32x16 codes, const uint8_t* scales, int64_t d) {
  if constexpr (!has_scales(kKind)) return codes;
  const auto* scale = reinterpret_cast<const uint16_t*>(scales) + d / kKvScaleElements;
  return mul(codes, broadcast_f16(scale));
}

/// f(Constant<kind>) for a kind of single elements that is known only at run time.
template <class F>
inline void with_kv_kind(KvKind kind, F&& f) {
  switch (kind) {
    case KvKind::f32:
      return f(Constant<static_cast<int>(KvKind::f32)>{});
    case KvKind::f16:
      return f(Constant<static_cast<int>(KvKind::f16)>{});
    case KvKind::bf16:
      return f(Constant<static_cast<int>(KvKind::bf16)>{});
    case KvKind::bf16_pairs:
    case KvKind::q8_0_pairs:
      return;  // PairKernels read those
    case KvKind::f8_e4m3:
      return f(Constant<static_cast<int>(KvKind::f8_e4m3)>{});
    case KvKind::q8_0:
      return f(Constant<static_cast<int>(KvKind::q8_0)>{});
    case KvKind::q4_0:
      return f(Constant<static_cast<int>(KvKind::q4_0)>{});
  }
}

}  // namespace
}  // namespace hasten::cpu
