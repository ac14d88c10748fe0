// SPDX-License-Identifier: Apache-2.0
// What AMX adds to AVX-512: eight tile registers of up to 16 rows of 64 bytes, and products of two
// of them (Intel 64 Architectures Software Developer's Manual, volume 1, "Programming with Intel
// Advanced Matrix Extensions").
#pragma once

#include "backends/cpu/simd/avx512_bf16.h"

namespace hasten::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

struct TileShape {
  int64_t rows;
  int64_t row_bytes = kTileRowBytes;
};

/// Gives the registers those shapes, and the processor its registers back in the end: what they
/// hold costs each change to another thread.
class TileScope {
 public:
  explicit TileScope(const TileShape (&shapes)[8]) {
    Shapes of;
    for (int tile = 0; tile < 8; ++tile) {
      of.rows[tile] = static_cast<uint8_t>(shapes[tile].rows);
      of.row_bytes[tile] = static_cast<uint16_t>(shapes[tile].row_bytes);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(of));
  }
  ~TileScope() { __asm__ volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  struct Shapes {  // as LDTILECFG reads them
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(Shapes) == 64);
};

template <int kTile>
HASTEN_INLINE inline void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
/// Rows that are `stride` bytes apart.
template <int kTile>
HASTEN_INLINE inline void load_tile(const void* rows, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(rows), "r"(stride), "i"(kTile)
                   : "memory");
}
template <int kTile>
HASTEN_INLINE inline void store_tile(void* rows, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(rows), "r"(stride), "i"(kTile)
                   : "memory");
}

/// sums[row][lane] += a[row] · column `lane` of b, of pairs of bf16: the sum of the first elements'
/// products and that of the second ones' along the tile, each addition rounded to nearest, then
/// both together; what is subnormal counts as zero.
template <int kSums, int kA, int kB>
HASTEN_INLINE inline void dot_bf16_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace hasten::cpu
