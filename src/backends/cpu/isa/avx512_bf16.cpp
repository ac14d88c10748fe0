// SPDX-License-Identifier: Apache-2.0
// What AVX-512 BF16 does better than AVX-512 alone; compiled with flags of this file only.
#if defined(HASTEN_AVX512)
#include "backends/cpu/simd/avx512_bf16.h"
// Written in the types and functions of the header above.
#include "backends/cpu/kernels/bf16_attention.inl"
#include "backends/cpu/kernels/bf16_matmul.inl"
#include "backends/cpu/kernels/peak.inl"

namespace hasten::cpu {

/// Makes of the table of AVX-512 that of both.
void add_avx512_bf16(KernelTable& kernels) {
  kernels.name = "avx512_bf16";
  kernels.bf16_matmul = bf16_matmul;
  kernels.round_bf16_tile = round_bf16_tile;
  kernels.bf16_tile_rows = kPairRows;
  kernels.bf16_pairs = {.store = store_bf16_pairs,
                        .attend = {attend_bf16<CacheLevel::first>, attend_bf16<CacheLevel::second>},
                        .round_query = round_query_bf16};
}

int64_t peak_avx512_bf16(int64_t rounds) {
  const F32x16 factor = set1(1e-9F);
  const I32x16 pairs = reinterpret_cast<I32x16>(factor);
  return run_chains<F32x16, kPeakChains>(rounds, 64, [&](F32x16 sum, int64_t) HASTEN_INLINE {
    return dot_bf16(sum, pairs, pairs);  // 16 lanes of two products
  });
}

}  // namespace hasten::cpu
#endif
