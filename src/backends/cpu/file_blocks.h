// SPDX-License-Identifier: Apache-2.0
// Where a model file's blocks of quantised weights have their parts (quant/), as kernels read them:
// numbers only, since nothing that the kernels include may have code (kernel_table.h).
#pragma once

#include "backends/cpu/packed_format.h"

namespace hasten::cpu {

/// Some bits of all codes, in planes: those of element e are kept from bit
/// bits * (e / width % (8 / bits)) on, in byte at + e / (8 / bits * width) * width + e % width.
struct CodePlanes {
  int bits = 0;  // 0: there are none
  int width = 0;
  int at = 0;
};

/// How the integer scales of a super-block lie.
enum class InnerScales : uint8_t {
  none,
  bytes,   // 16, each as it is packed
  k,       // quant::KScales
  q3_k,    // see quant::BlockQ3K
  iq4_xs,  // see quant::BlockIq4Xs
};

struct FileBlock {
  int64_t bytes = 0;
  int columns = 32;  // or 256: a super-block
  int scale_at = 0;
  int offset_at = 0;  // of formats with offsets; those of super-blocks are subtracted
  InnerScales inner = InnerScales::none;
  int inner_at = 0;  // for k and iq4_xs 4 bytes behind the start of the block
  CodePlanes low = {};
  CodePlanes high = {};  // the bits above those
  int fifth_at = 0;      // not 0: 32 bits, the fifth of each element
  bool is_signed = false;
};

/// In the order of PackedKind.
inline constexpr FileBlock kFileBlocks[kNumPackedKinds] = {
    {.bytes = 18, .low = {4, 16, 2}},                                 // q4_0
    {.bytes = 20, .offset_at = 2, .low = {4, 16, 4}},                 // q4_1
    {.bytes = 22, .low = {4, 16, 6}, .fifth_at = 2},                  // q5_0
    {.bytes = 24, .offset_at = 2, .low = {4, 16, 8}, .fifth_at = 4},  // q5_1
    {.bytes = 34, .low = {8, 32, 2}, .is_signed = true},              // q8_0
    {.bytes = 84,                                                     // q2_k
     .columns = 256,
     .scale_at = 80,
     .offset_at = 82,
     .inner = InnerScales::bytes,
     .inner_at = 0,
     .low = {2, 32, 16}},
    {.bytes = 110,  // q3_k
     .columns = 256,
     .scale_at = 108,
     .inner = InnerScales::q3_k,
     .inner_at = 96,
     .low = {2, 32, 32},
     .high = {1, 32, 0}},
    {.bytes = 144,  // q4_k
     .columns = 256,
     .offset_at = 2,
     .inner = InnerScales::k,
     .inner_at = 4,
     .low = {4, 32, 16}},
    {.bytes = 176,  // q5_k
     .columns = 256,
     .offset_at = 2,
     .inner = InnerScales::k,
     .inner_at = 4,
     .low = {4, 32, 48},
     .high = {1, 32, 16}},
    {.bytes = 210,  // q6_k
     .columns = 256,
     .scale_at = 208,
     .inner = InnerScales::bytes,
     .inner_at = 192,
     .low = {4, 64, 0},
     .high = {2, 32, 128}},
    {.bytes = 18, .low = {4, 16, 2}},  // iq4_nl
    {.bytes = 136,                     // iq4_xs
     .columns = 256,
     .inner = InnerScales::iq4_xs,
     .inner_at = 2,
     .low = {4, 16, 8}},
};

}  // namespace hasten::cpu
