// SPDX-License-Identifier: Apache-2.0
// How the CPU backend keeps quantised matrices: groups of 16 rows, so that one SIMD lane is one
// row. Functions are static for the reason that kernel_table.h gives.
#pragma once

#include <stdint.h>

namespace hasten::cpu {

/// Rows of a group: the 32-bit lanes of a 512-bit register.
inline constexpr int kGroupRows = 16;
/// Columns of a block. The codes of a group's block are eight vectors of 64 bytes; byte 4 * r + t
/// of vector j belongs to row r and column 4 * j + t, which is what a 4-way dot product wants.
inline constexpr int kBlockColumns = 32;
inline constexpr int kBlocksPerSuper = 8;  // blocks that share the outer scale of a k-quant

/// Where the bits of a code lie. Nibbles: vector j is the low (even j) or high half of the bytes of
/// vector j / 2 of four. A plane of one bit: one vector, bit j of a byte for vector j. Planes of
/// two bits: two vectors, bits 2 * (j % 4) of vector j / 4.
enum class CodeBits : uint8_t {
  bits2,      // planes of two
  bits2_1,    // planes of two, then the third bit in a plane of one
  nibbles,    // four bits
  nibbles_1,  // nibbles, then the fifth bit in a plane of one
  nibbles_2,  // nibbles, then the upper two in planes of two
  bytes,      // eight vectors as they are
};

/// Bytes of the codes of one group's block.
static constexpr int64_t code_bytes(CodeBits bits) {
  switch (bits) {
    case CodeBits::bits2:
      return 128;
    case CodeBits::bits2_1:
      return 192;
    case CodeBits::nibbles:
      return 256;
    case CodeBits::nibbles_1:
      return 320;
    case CodeBits::nibbles_2:
      return 384;
    case CodeBits::bytes:
      return 512;
  }
  return 0;
}

/// The largest code: 64 bytes of a group's block are one bit of each of its codes.
static constexpr int most_code(CodeBits bits) { return (1 << code_bytes(bits) / 64) - 1; }

/// One way to keep a matrix: element = scale * (code - zero_point) + offset, what the file says.
/// Where there is one scale to a block, it is an int16 that counts the 2^-14 parts of a unit of its
/// row, and an offset counts offset_parts() of those, both within a half, or, with super_scales,
/// within one. Where there are two, they are products of a binary16 per 256 columns and small
/// integers, as in the file.
struct PackedFormat {
  CodeBits bits;
  bool lookup;           // codes are nibbles that index the levels of iq4_nl, biased by 128
  bool super_scales;     // what 256 columns share, and integers inside
  bool signed_scales;    // those are int8 rather than uint8
  int scales_per_block;  // 1, or 2: one per 16 columns
  bool offsets;          // the blocks have offsets (then zero_point is 0)
  int zero_point;
};

/// What a code is multiplied as, at most.
static constexpr int most_level(const PackedFormat& format) {
  return format.lookup ? 255 : most_code(format.bits);
}
/// Whether that takes all eight bits.
static constexpr bool is_wide(const PackedFormat& format) { return most_level(format) == 255; }

/// Whether scales are int16, none above kMostIntegerScale. The dot products of two blocks are then
/// multiplied with theirs, and added, by one instruction, and those of two more to the same sum
/// (docs/decisions/integer-scales.md).
static constexpr bool has_integer_scales(const PackedFormat& format) {
  return format.scales_per_block == 1;
}
enum class ScaleKind : uint8_t { floats, integers, integers_and_offsets };
static constexpr ScaleKind scale_kind(const PackedFormat& format) {
  if (!has_integer_scales(format)) return ScaleKind::floats;
  return format.offsets ? ScaleKind::integers_and_offsets : ScaleKind::integers;
}
inline constexpr int kMostIntegerScale = 16383;
inline constexpr int kIntegerScaleBits = 14;
/// With super_scales, these int16 are (inner << 8) * outer, over 2^15, to the nearest: inner is the
/// file's integer of six bits, packed as a byte that it fills from above but for the sign, and
/// outer an int16. So many times smaller than their product is the scale.
static constexpr int inner_unit(const PackedFormat& format) {
  if (!format.super_scales) return 1;
  return format.signed_scales ? 32 : 64;
}
/// Columns of an activation row that share one int8 scale: as many as share a weight's.
static constexpr int activation_columns(const PackedFormat& format) {
  return kBlockColumns / format.scales_per_block;
}
/// Blocks whose parts share an activation scale but for a power of two, which costs a product
/// nothing. More of them save a multiplication each, but small values beside large ones become less
/// exact, and the sum of products of integer scales would not fit in an int32.
inline constexpr int kScaleBlocks = 4;
/// Blocks of a span: activations have their scale, or what else there is of a span, behind them. Of
/// integer scales it is a pair, and two of them have the same.
static constexpr int span_blocks(const PackedFormat& format) {
  return has_integer_scales(format) ? 2 : kScaleBlocks;
}

/// Offsets are multiplied with sums of 32 activations times 2^kSumBits, which fit in an int16, and
/// count offset_parts() of what scales count: what they make then meets in one sum with what scales
/// make of dot products, which are shifted by as many bits as codes have above kSumBits.
inline constexpr int kSumBits = 3;
static constexpr int offset_parts(const PackedFormat& format) { return most_level(format) + 1; }
/// A scale so many times below the largest of its row is off by 1.5 % as an integer, or, with
/// super_scales, half as many; more is as much as all else that products are rounded by, and rows
/// with mostly such scales are told of.
inline constexpr int kMostScaleRatio = 500;
/// Bits by which the dot product of a block exceeds an int16: no code is farther from the zero
/// point than zero is, or, where that is the zero point, the largest.
static constexpr int wide_dot_bits(const PackedFormat& format) {
  const int most = format.offsets ? most_level(format) : format.zero_point;
  int bits = 0;
  while (127 * kBlockColumns * most >> bits > 32767) ++bits;
  return bits;
}

/// Whether what was quantised for one serves the other.
static constexpr bool take_same_activations(const PackedFormat& a, const PackedFormat& b) {
  return a.scales_per_block == b.scales_per_block && a.offsets == b.offsets &&
         a.zero_point == b.zero_point && is_wide(a) == is_wide(b) &&
         (!has_integer_scales(a) || wide_dot_bits(a) == wide_dot_bits(b));
}

inline constexpr PackedFormat kPackQ4_0{CodeBits::nibbles, false, false, false, 1, false, 8};
inline constexpr PackedFormat kPackQ4_1{CodeBits::nibbles, false, false, false, 1, true, 0};
inline constexpr PackedFormat kPackQ5_0{CodeBits::nibbles_1, false, false, false, 1, false, 16};
inline constexpr PackedFormat kPackQ5_1{CodeBits::nibbles_1, false, false, false, 1, true, 0};
inline constexpr PackedFormat kPackQ8_0{CodeBits::bytes, false, false, false, 1, false, 128};
inline constexpr PackedFormat kPackQ2K{CodeBits::bits2, false, true, false, 2, true, 0};
inline constexpr PackedFormat kPackQ3K{CodeBits::bits2_1, false, true, true, 2, false, 4};
inline constexpr PackedFormat kPackQ4K{CodeBits::nibbles, false, true, false, 1, true, 0};
inline constexpr PackedFormat kPackQ5K{CodeBits::nibbles_1, false, true, false, 1, true, 0};
inline constexpr PackedFormat kPackQ6K{CodeBits::nibbles_2, false, true, true, 2, false, 32};
inline constexpr PackedFormat kPackIq4Nl{CodeBits::nibbles, true, false, false, 1, false, 128};
inline constexpr PackedFormat kPackIq4Xs{CodeBits::nibbles, true, true, true, 1, false, 128};

/// The packed formats in one order: the index of a kernel in KernelTable::quant_matmul.
enum class PackedKind : uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
};
inline constexpr int kNumPackedKinds = 12;
inline constexpr PackedFormat kPackedFormats[kNumPackedKinds] = {
    kPackQ4_0, kPackQ4_1, kPackQ5_0, kPackQ5_1, kPackQ8_0,  kPackQ2K,
    kPackQ3K,  kPackQ4K,  kPackQ5K,  kPackQ6K,  kPackIq4Nl, kPackIq4Xs};

/// Where the parts of a group of 16 rows lie: units of some blocks, in the order of the columns. A
/// unit is
///   halves  [blocks, or super-blocks][scale, then offset if any][16 rows] binary16; of integer
///           scales [scale, then offset if any][16 rows][2 blocks] int16, or, of super-blocks,
///           [16 rows][scale, offset] or [16 rows][2 super-blocks];
///   inner   super-scaled only: [scales_per_block * blocks][scale, then offset if any][16 rows]
///           bytes; with two scales per block and offsets (q2_k) both share a byte, scale low; of
///           integer scales [pairs of blocks][16 rows][2 blocks][scale, offset] bytes, or, without
///           offsets, [fours of blocks][16 rows][2 blocks][2 pairs];
///   codes   code_bytes(bits) per block, from the start of a line on.
/// The last unit of a group has the codes of those blocks only that there are, or, with integer
/// scales, of those pairs. With those, a group has a head besides: the units of its rows, [16 rows]
/// binary32.
struct UnitLayout {
  int64_t blocks = 1;       // of a whole unit
  int64_t half_bytes = 0;   // of a block's or a super-block's halves
  int64_t inner_at = 0;     // bytes from the start of the unit
  int64_t inner_bytes = 0;  // of a block
  int64_t codes_at = 0;     // bytes from the start of the unit; a multiple of 64
  int64_t code_bytes = 0;   // of a block; a multiple of 64
  int64_t head_bytes = 0;   // of a group; a multiple of 64

  __attribute__((always_inline)) constexpr int64_t bytes() const {
    return codes_at + blocks * code_bytes;
  }
  /// From the first unit to where a block's codes lie.
  __attribute__((always_inline)) constexpr int64_t codes_of(int64_t block) const {
    return block / blocks * bytes() + codes_at + block % blocks * code_bytes;
  }
  /// On average, scales included.
  __attribute__((always_inline)) constexpr int64_t bytes_per_block() const {
    return bytes() / blocks;
  }
  /// Of some blocks, from the first of a unit on: whole units, or up to the end of a strip or
  /// group.
  __attribute__((always_inline)) constexpr int64_t bytes_of(int64_t count) const {
    const int64_t kept = head_bytes > 0 ? (count + 1) / 2 * 2 : count;
    return (count + blocks - 1) / blocks * codes_at + kept * code_bytes;
  }
  __attribute__((always_inline)) constexpr int64_t group_bytes(int64_t columns) const {
    return head_bytes + bytes_of(columns / kBlockColumns);
  }
};

/// As few blocks as have scales of whole lines.
static constexpr UnitLayout unit_layout(const PackedFormat& format) {
  const int64_t per_scale = format.offsets ? 2 * kGroupRows : kGroupRows;
  UnitLayout unit;
  unit.half_bytes = 2 * per_scale;
  unit.code_bytes = code_bytes(format.bits);
  if (has_integer_scales(format)) unit.head_bytes = 4 * kGroupRows;
  if (format.super_scales) {
    unit.inner_bytes = format.scales_per_block == 2 ? 2 * kGroupRows : per_scale;
  }
  const int64_t least = format.super_scales ? kBlocksPerSuper : 2;
  for (unit.blocks = least;; unit.blocks *= 2) {
    unit.inner_at = unit.blocks / (format.super_scales ? least : 1) * unit.half_bytes;
    unit.codes_at = unit.inner_at + unit.blocks * unit.inner_bytes;
    if (unit.codes_at % 64 == 0) return unit;
  }
}

/// Groups of a stack.
inline constexpr int64_t kStackGroups = 4;
/// Blocks of a strip.
inline constexpr int64_t kStripBlocks = 32;
/// Rows of so many blocks, and shorter ones, are not worth dividing into strips.
inline constexpr int64_t kMostUndividedBlocks = 64;

/// Where the groups of a matrix lie: one behind the other, a group's head before its units. Or, of
/// rows that are divided, in stacks of kStackGroups, or what is left of them. A stack is the heads
/// of its groups and then, for each kStripBlocks blocks or what is left of them, the units of each
/// group. So few rows of activations meet a strip of several groups while what they meet it with is
/// in the first-level cache, and weights are still one stream of memory
/// (docs/performance-log.md, "Strips of columns"). Either way all have unit.group_bytes() each.
/// Places are bytes from the start of the matrix. Inlined, so that a constant unit costs no
/// division.
struct StackLayout {
  int64_t num_blocks;  // of a row; odd or rounded up to pairs, which is the same to integer scales
  int64_t num_groups;  // of the matrix
  bool divided;        // only with integer scales
};

__attribute__((always_inline)) static constexpr int64_t group_bytes(const UnitLayout& unit,
                                                                    const StackLayout& layout) {
  return unit.head_bytes + unit.bytes_of(layout.num_blocks);
}
/// Of the group's stack.
static constexpr int64_t first_of_stack(int64_t group) { return group - group % kStackGroups; }

__attribute__((always_inline)) static constexpr int64_t head_at(const UnitLayout& unit,
                                                                const StackLayout& layout,
                                                                int64_t group) {
  if (!layout.divided) return group * group_bytes(unit, layout);
  const int64_t first = first_of_stack(group);
  return first * group_bytes(unit, layout) + (group - first) * unit.head_bytes;
}
/// Blocks of the strip that begins with this one, or of a row that is not divided.
static constexpr int64_t blocks_from(const StackLayout& layout, int64_t strip) {
  const int64_t left = layout.num_blocks - strip;
  return !layout.divided || left < kStripBlocks ? left : kStripBlocks;
}
/// Where the unit lies that begins with this block of the group.
__attribute__((always_inline)) static constexpr int64_t unit_at(const UnitLayout& unit,
                                                                const StackLayout& layout,
                                                                int64_t group, int64_t block) {
  if (!layout.divided) {
    return head_at(unit, layout, group) + unit.head_bytes + unit.bytes_of(block);
  }
  const int64_t first = first_of_stack(group);
  const int64_t left = layout.num_groups - first;
  const int64_t count = left < kStackGroups ? left : kStackGroups;
  const int64_t in_strip = block % kStripBlocks;
  const int64_t strip = block - in_strip;
  return first * group_bytes(unit, layout) + count * (unit.head_bytes + unit.bytes_of(strip)) +
         (group - first) * unit.bytes_of(blocks_from(layout, strip)) + unit.bytes_of(in_strip);
}
/// From a group's strip of so many blocks to that of the next one in the stack.
__attribute__((always_inline)) static constexpr int64_t group_distance(const UnitLayout& unit,
                                                                       const StackLayout& layout,
                                                                       int64_t blocks) {
  return layout.divided ? unit.bytes_of(blocks) : group_bytes(unit, layout);
}

static constexpr bool strips_are_whole_units() {
  for (const PackedFormat& format : kPackedFormats) {
    if (kStripBlocks % unit_layout(format).blocks != 0) return false;
  }
  return true;
}
static_assert(strips_are_whole_units());

}  // namespace hasten::cpu
