// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but one instruction, or nothing but read: the ceilings of the machine.
#pragma once

#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// The compiler must take what lies at p for read, and for changed by something that it cannot see.
HASTEN_INLINE inline void opaque(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/// All lines, in kStreams parts of the memory side by side, fetching kAhead bytes ahead
/// (0: which the processor does by itself).
template <int kStreams, int64_t kAhead>
inline int64_t read_streams(const uint8_t* data, int64_t num_bytes) {
  constexpr int kLines = 4 / kStreams;  // of each stream at a time: four sums hide their latency
  const int64_t part = num_bytes / kStreams / (64 * kLines) * (64 * kLines);
  U8x64 sum[4];
  for (int k = 0; k < 4; ++k) sum[k] = load_codes(data);
  for (int64_t i = 0; i < part; i += 64 * kLines) {
    for (int k = 0; k < 4; ++k) {
      const uint8_t* line = data + k % kStreams * part + i + k / kStreams * 64;
      if (kAhead > 0) prefetch(line + kAhead);
      sum[k] = bit_or(sum[k], load_codes(line));
    }
  }
  uint8_t bytes[64];
  store_codes(bytes, bit_or(bit_or(sum[0], sum[1]), bit_or(sum[2], sum[3])));
  int64_t total = 0;
  for (const uint8_t byte : bytes) total += byte;
  return total;
}

/// Which is faster differs: a core of Zen 4 likes one stream, and one of Sapphire Rapids needs
/// several.
inline int64_t read_bytes(const uint8_t* data, int64_t num_bytes, bool one_stream) {
  return one_stream ? read_streams<1, 0>(data, num_bytes) : read_streams<4, 1024>(data, num_bytes);
}

inline void load_chain(const float* p, F32x16& v) { v = load(p); }
inline void load_chain(const float* p, I32x16& v) { v = to_int(load(p)); }

inline void keep(F32x16 v) {
  float lanes[16];
  store(lanes, v);
  opaque(lanes);
}
inline void keep(I32x16 v) { keep(to_float(v)); }

/// Operations (multiply and add are two) of `rounds` rounds of chain = step(chain, round) on each
/// of kChains. Constant indices only, so that the chains stay in registers; unknown starts, so that
/// the compiler does not find them to be the same.
template <class Value, int kChains, class Step>
HASTEN_INLINE inline int64_t run_chains(int64_t rounds, int64_t operations, Step&& step) {
  float start[kChains][16] = {};
  opaque(start);
  Value chain[kChains];
  unroll<0, kChains>([&](auto index) HASTEN_INLINE {
    constexpr int kIndex = decltype(index)::value;
    load_chain(start[kIndex], chain[kIndex]);
  });
  for (int64_t i = 0; i < rounds; ++i) {
    unroll<0, kChains>([&](auto index) HASTEN_INLINE {
      constexpr int kIndex = decltype(index)::value;
      chain[kIndex] = step(chain[kIndex], i);
      chain[kIndex] = keep_order(chain[kIndex]);
    });
  }
  unroll<0, kChains>([&](auto index) HASTEN_INLINE { keep(chain[decltype(index)::value]); });
  return rounds * kChains * operations;
}

/// Products of codes with bytes, kQuads to a run.
template <int kQuads, int kChains>
inline int64_t peak_products(int64_t rounds) {
  uint8_t ones[64] = {1, 1, 1, 1};
  // They change from round to round, so that no product can be moved out of the loop.
  int32_t quads[16 + kQuads] = {1, 2, 3, 4, 5, 6, 7, 8};
  opaque(ones);
  opaque(quads);
  const auto step = [&](I32x16 sum, int64_t i) HASTEN_INLINE {
    if constexpr (!kHasDotInstruction) {  // or chains would share products
      opaque(ones);
      opaque(quads);
    }
    const U8x64 codes = load_codes(ones);
    ProductRun run = begin_run(sum);
    for (int j = 0; j < kQuads; ++j) run = add_products(run, codes, quads[i % 16 + j]);
    return end_run(sum, run);
  };
  return run_chains<I32x16, kChains>(rounds / kQuads, kQuads * 128, step);
}

inline int64_t peak_int8(int64_t rounds) { return peak_products<1, kPeakChains>(rounds); }
inline int64_t peak_int4(int64_t rounds) {
  return peak_products<most_run(15), kPeakChains / 2>(rounds);
}

inline int64_t peak_f32(int64_t rounds) {
  const F32x16 factor = set1(1e-9F);
  return run_chains<F32x16, kPeakChains>(
      rounds, 32, [&](F32x16 sum, int64_t) HASTEN_INLINE { return fma(factor, factor, sum); });
}

}  // namespace
}  // namespace hasten::cpu
