// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but one instruction, or nothing but read: the ceilings of the machine.
#pragma once

#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

// Independent chains: enough to hide a latency of 6 cycles at two a cycle.
constexpr int kChains = 12;

/// The compiler must take v for changed by something that it cannot see.
template <class T>
HASTEN_INLINE inline void opaque(T& v) {
#if defined(__AVX512F__)
  __asm__ volatile("" : "+v"(v));
#else
  __asm__ volatile("" : "+m"(v));
#endif
}

inline int64_t read_bytes(const uint8_t* data, int64_t num_bytes) {
  U8x64 sum[4] = {load_codes(data), load_codes(data), load_codes(data), load_codes(data)};
  for (int64_t i = 0; i + 256 <= num_bytes; i += 256) {
    prefetch(data + i + 2048);
    for (int k = 0; k < 4; ++k) sum[k] = bit_or(sum[k], load_codes(data + i + 64 * k));
  }
  uint8_t bytes[64];
  store_codes(bytes, bit_or(bit_or(sum[0], sum[1]), bit_or(sum[2], sum[3])));
  int64_t total = 0;
  for (const uint8_t byte : bytes) total += byte;
  return total;
}

/// Operations (multiply and add are two) of `rounds` rounds of one multiply-add on each chain.
template <class Value, class Step>
HASTEN_INLINE inline int64_t run_chains(int64_t rounds, int64_t operations, Value start,
                                        Step&& step) {
  Value chain[kChains];
  for (Value& value : chain) value = start;
  for (int64_t i = 0; i < rounds; ++i) {
    unroll<0, kChains>([&](auto index) HASTEN_INLINE {
      Value& value = chain[decltype(index)::value];
      value = step(value);
    });
    if (i % 16 == 0) {
      for (Value& value : chain) opaque(value);
    }
  }
  for (Value& value : chain) opaque(value);
  return rounds * kChains * operations;
}

inline int64_t peak_int8(int64_t rounds) {
  const uint8_t ones[64] = {1, 1, 1, 1};
  U8x64 codes = load_codes(ones);
  opaque(codes);
  return run_chains(rounds, 128, zero_i32(),
                    [&](I32x16 sum) HASTEN_INLINE { return dot4(sum, codes, 0x01010101); });
}

inline int64_t peak_bf16(int64_t rounds) {
  F32x16 factor = set1(1e-9F);
  opaque(factor);
  return run_chains(rounds, 64, zero(),
                    [&](F32x16 sum) HASTEN_INLINE { return dot2_bf16(sum, factor, factor); });
}

inline int64_t peak_f32(int64_t rounds) {
  F32x16 factor = set1(1e-9F);
  opaque(factor);
  return run_chains(rounds, 32, zero(),
                    [&](F32x16 sum) HASTEN_INLINE { return fma(factor, factor, sum); });
}

}  // namespace
}  // namespace hasten::cpu
