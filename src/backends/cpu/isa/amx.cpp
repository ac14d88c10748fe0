// SPDX-License-Identifier: Apache-2.0
// What AMX does better than AVX-512 BF16; compiled with flags of this file only.
#if defined(HASTEN_AVX512)
#include "backends/cpu/simd/amx.h"
// Written in the types and functions of the header above.
#include "backends/cpu/kernels/tile_attention.inl"
#include "backends/cpu/kernels/tile_bf16_matmul.inl"

namespace hasten::cpu {

/// Makes of the table of AVX-512 BF16 that of both.
void add_amx(KernelTable& kernels) {
  kernels.name = "amx";
  kernels.bf16_matmul = tile_bf16_matmul;
  kernels.round_bf16_tile = round_bf16_chunks;
  kernels.bf16_tile_rows = kTileRows;
  kernels.bf16_pairs.attend[static_cast<int>(CacheLevel::first)] =
      attend_bf16_tiles<CacheLevel::first>;
  kernels.bf16_pairs.attend[static_cast<int>(CacheLevel::second)] =
      attend_bf16_tiles<CacheLevel::second>;
}

int64_t peak_amx_bf16(int64_t rounds) {
  constexpr TileShape kWhole{kTileRows};
  const TileScope scope({kWhole, kWhole, kWhole, kWhole, kWhole, kWhole, kWhole, kWhole});
  unroll<0, 8>([](auto tile) HASTEN_INLINE { clear_tile<decltype(tile)::value>(); });
  constexpr int64_t kOperations = 2 * kTileRows * kGroupRows * kChunkColumns;  // of a product
  const int64_t turns = rounds / kTileRows;
  for (int64_t i = 0; i < turns; ++i) {
    dot_bf16_tiles<0, 4, 6>();
    dot_bf16_tiles<1, 4, 7>();
    dot_bf16_tiles<2, 5, 6>();
    dot_bf16_tiles<3, 5, 7>();
  }
  return 4 * turns * kOperations;
}

}  // namespace hasten::cpu
#endif
