// SPDX-License-Identifier: Apache-2.0
// Reading packed groups of quantised weights (packed_format.h): codes, scales and offsets of a
// block.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/ask.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Whether levels of all eight bits are multiplied as int16, the even ones of a quad apart from the
/// odd ones.
constexpr bool kSplitsWideCodes = most_run(255) == 0;

constexpr int least(int a, int b) { return a < b ? a : b; }

/// The levels of iq4_nl plus 128, so that they are unsigned.
constexpr uint8_t kIq4Levels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                    129, 141, 153, 166, 181, 197, 217, 241};

/// Vector kIndex of the eight that hold the codes of a block.
template <CodeBits kBits, int kIndex>
HASTEN_INLINE inline U8x64 unpack_codes(const uint8_t* block) {
  constexpr int kNibble = -4 * (kIndex % 2);
  constexpr int kPair = -2 * (kIndex % 4);
  if constexpr (kBits == CodeBits::bytes) {
    return load_codes(block + 64 * kIndex);
  } else if constexpr (kBits == CodeBits::bits2 || kBits == CodeBits::bits2_1) {
    const U8x64 low = shift_and<kPair>(load_codes(block + 64 * (kIndex / 4)), 3);
    if constexpr (kBits == CodeBits::bits2) return low;
    return bit_or(low, shift_and<2 - kIndex>(load_codes(block + 128), 4));
  } else {
    const U8x64 low = shift_and<kNibble>(load_codes(block + 64 * (kIndex / 2)), 15);
    if constexpr (kBits == CodeBits::nibbles_1) {
      return bit_or(low, shift_and<4 - kIndex>(load_codes(block + 256), 16));
    } else if constexpr (kBits == CodeBits::nibbles_2) {
      return bit_or(low, shift_and<4 + kPair>(load_codes(block + 256 + 64 * (kIndex / 4)), 48));
    } else {
      return low;
    }
  }
}

/// A strip of a packed group, or what is left of it behind some units, as a source of weights for
/// accumulate(). Block indices count from its first.
template <const PackedFormat& kFormat>
class PackedStrip {
 public:
  static constexpr int kParts = kFormat.scales_per_block;  // of a block: 1 or 2
  static constexpr int kSpanBlocks = span_blocks(kFormat);
  static_assert(kPanelBlocks % kSpanBlocks == 0);
  static constexpr ScaleKind kScaleKind = scale_kind(kFormat);
  static constexpr bool kIntegerScales = kScaleKind != ScaleKind::floats;
  static_assert(kIntegerScales || kFormat.super_scales);
  /// Whether the dot product of a block is an int16 as it is.
  static constexpr bool kNarrow = kIntegerScales && wide_dot_bits(kFormat) == 0;
  static constexpr bool kOffsets = kFormat.offsets;
  static constexpr int64_t kSpanBytes = activation_span_bytes(kScaleKind);
  /// Quads of products to a ProductRun; 0: none fits, and codes are split.
  static constexpr int kRun = least(most_run(most_level(kFormat)), 8 / kParts);
  static constexpr bool kSplit = kRun == 0;
  /// Whether blocks lie as in a panel.
  static constexpr bool kIsPanel =
      kIntegerScales && kFormat.bits == CodeBits::bytes && !kFormat.lookup && !kSplit;
  static constexpr UnitLayout kUnit = unit_layout(kFormat);
  /// Whether every other vector of codes is the lower nibbles of a packed one, and a panel may
  /// leave them there (KernelTable::keeps_low_nibbles): a dot product has time for the one
  /// instruction that takes them out, not for that and a shift, nor, with many rows, beside
  /// offsets.
  static constexpr bool kMayKeepLowNibbles = kHasDotInstruction &&
                                             kScaleKind == ScaleKind::integers &&
                                             kFormat.bits == CodeBits::nibbles && !kFormat.lookup;

  PackedStrip() = default;
  /// `head`: of the group, if it has any.
  PackedStrip(const uint8_t* head, const uint8_t* units)
      : row_units_(reinterpret_cast<const float*>(head)), units_(units) {}
  /// A whole group, of rows that are not divided.
  explicit PackedStrip(const uint8_t* group) : PackedStrip(group, group + kUnit.head_bytes) {}

  /// In a row of so many columns.
  static constexpr int64_t num_blocks(int64_t columns) {
    return activation_blocks(columns, kFormat);
  }
  template <int kIndex>
  HASTEN_INLINE U8x64 codes(int64_t block) const {
    const U8x64 packed = unpack_codes<kFormat.bits, kIndex>(codes_of(block));
    if constexpr (kFormat.lookup) return lookup(kIq4Levels, packed);
    return packed;
  }
  /// Vector kIndex of sixteen, where codes are split: of each quad the even ones, then the odd
  /// ones, as int16.
  template <int kIndex>
  HASTEN_INLINE U8x64 split_codes(int64_t block) const {
    const auto quads = codes<kIndex / 2>(block);
    return kIndex % 2 == 0 ? even_codes(quads) : odd_codes(quads);
  }

  /// Of integer scales: those of this block, the first of a pair, and of the next one, [16][2].
  HASTEN_INLINE I32x16 pair_scales(int64_t block) const {
    if constexpr (!kFormat.super_scales) {
      return load_halves(unit_of(block));
    } else if constexpr (kOffsets) {
      return multiply_high(even_bytes(load_codes(inner_of(block))),
                           low_halves(load_halves(unit_of(block))));
    } else {
      const auto second_pair = static_cast<int32_t>(block / 2 % 2);
      const auto second_super = static_cast<int32_t>(block / kBlocksPerSuper % 2);
      const I32x16 inner = as_lanes(load_codes(inner_of(block - block % 4)));
      return multiply_high(even_bytes(as_bytes(shift_right(inner, 8 * second_pair))),
                           low_halves(shift_right(load_halves(unit_of(block)), 16 * second_super)));
    }
  }
  HASTEN_INLINE I32x16 pair_offsets(int64_t block) const {
    if constexpr (kFormat.super_scales) {
      return multiply_high(odd_bytes(load_codes(inner_of(block))),
                           high_halves(load_halves(unit_of(block))));
    } else {
      return load_halves(unit_of(block) + 64);
    }
  }
  HASTEN_INLINE F32x16 row_units() const { return load(row_units_); }

  /// Of others: those of a part of the block.
  HASTEN_INLINE F32x16 scale(int64_t block, int part) const {
    const uint8_t* at = inner_of(block) + part * kGroupRows;
    return mul(load_f16(halves_of(block)), kOffsets ? load_low_nibbles(at) : load_i8(at));
  }
  HASTEN_INLINE F32x16 offset(int64_t block, int part) const {
    const uint8_t* at = inner_of(block) + part * kGroupRows;
    return mul(load_f16(halves_of(block) + kGroupRows), load_high_nibbles(at));
  }

  /// What is behind so many blocks, which are whole units.
  HASTEN_INLINE PackedStrip behind(int64_t blocks) const {
    PackedStrip rest = *this;
    rest.units_ = unit_of(blocks);
    return rest;
  }

  /// Fetches what lies `ahead` bytes behind this block's place in the stream, as much as a block
  /// is.
  template <CacheLevel kInto = CacheLevel::first>
  HASTEN_INLINE void prefetch_ahead(int64_t block, int64_t ahead) const {
    const uint8_t* at = units_ + block * kUnit.bytes_per_block() + ahead;
    for (int64_t i = 0; i < kUnit.bytes_per_block(); i += 64) ask_for<kInto>(at + i);
  }

  /// Fetches the units of the rows, which are read last.
  HASTEN_INLINE void prefetch_head() const {
    if constexpr (kIntegerScales) prefetch(reinterpret_cast<const uint8_t*>(row_units_));
  }
  /// Has the units of the rows loaded, which lie before all strips, so that lines come in order.
  HASTEN_INLINE void load_head() const {
    if constexpr (kIntegerScales) touch(reinterpret_cast<const uint8_t*>(row_units_));
  }

  /// Has the lines of a block loaded in the order in which they lie, and before a unit's first
  /// block those of its scales: products meet scales, and bits that are stored apart, out of turn.
  HASTEN_INLINE void load_in_order(int64_t block) const {
    constexpr int kScaleLines = kUnit.codes_at / 64;
    constexpr int kCodeLines = kUnit.code_bytes / 64;
    if (block % kUnit.blocks == 0) {
      const uint8_t* at = unit_of(block);
      unroll<0, kScaleLines>([&](auto line) HASTEN_INLINE { touch(at + 64 * line.value); });
    }
    const uint8_t* at = codes_of(block);
    unroll<0, kCodeLines>([&](auto line) HASTEN_INLINE { touch(at + 64 * line.value); });
  }

  /// Where the unit lies that has the block.
  HASTEN_INLINE const uint8_t* unit_of(int64_t block) const {
    return units_ + block / kUnit.blocks * kUnit.bytes();
  }

 private:
  HASTEN_INLINE const uint8_t* codes_of(int64_t block) const {
    return units_ + kUnit.codes_of(block);
  }
  HASTEN_INLINE const uint16_t* halves_of(int64_t block) const {
    return reinterpret_cast<const uint16_t*>(
        unit_of(block) + block % kUnit.blocks / kBlocksPerSuper * kUnit.half_bytes);
  }
  HASTEN_INLINE const uint8_t* inner_of(int64_t block) const {
    return unit_of(block) + kUnit.inner_at + block % kUnit.blocks * kUnit.inner_bytes;
  }

  const float* row_units_ = nullptr;  // of integer scales
  const uint8_t* units_ = nullptr;
};

/// Groups of a packed matrix, counted from one of them on.
template <class Source>
class PackedGroups {
 public:
  PackedGroups(const GroupsFrom& groups, int64_t num_blocks)
      : groups_(groups),
        layout_{.num_blocks = num_blocks,
                .num_groups = groups.matrix_groups,
                .divided = groups.divided} {}

  /// From that block of the group, the first of a unit, to the end of its strip.
  HASTEN_INLINE Source from(int64_t group, int64_t block) const {
    const int64_t index = groups_.first + group;
    return Source(groups_.matrix + head_at(Source::kUnit, layout_, index),
                  groups_.matrix + unit_at(Source::kUnit, layout_, index, block));
  }
  const StackLayout& layout() const { return layout_; }
  /// From a group's strip of so many blocks to that of the next one in the stack.
  HASTEN_INLINE int64_t distance(int64_t blocks) const {
    return group_distance(Source::kUnit, layout_, blocks);
  }
  /// Groups of the matrix from that one on.
  int64_t num_left(int64_t group) const { return groups_.matrix_groups - groups_.first - group; }

 private:
  GroupsFrom groups_;
  StackLayout layout_;
};

/// Some blocks of a group with codes as bytes, or split, and scales as they are used: what is made
/// of a PackedStrip for use with many activation rows. Block indices count from the panel's first.
/// With kLowUnit.blocks > 0, codes that are lower nibbles stay in units of that layout: to copy
/// them costs AMD's processors 4 % where 16 rows share the panel, and 2 % where 32 do.
template <int kNumParts, int kNumSpanBlocks, bool kHasOffsets, ScaleKind kKind, bool kIsNarrow,
          int kQuadsToRun, UnitLayout kLowUnit>
struct Panel {
  static constexpr int kParts = kNumParts;
  static constexpr int kSpanBlocks = kNumSpanBlocks;
  static constexpr bool kOffsets = kHasOffsets;
  static constexpr bool kIntegerScales = kKind != ScaleKind::floats;
  static constexpr bool kNarrow = kIsNarrow;
  static constexpr int64_t kSpanBytes = activation_span_bytes(kKind);
  static constexpr int kRun = kQuadsToRun;
  static constexpr bool kSplit = kRun == 0;
  static constexpr bool kLowInPlace = kLowUnit.blocks > 0;
  static constexpr int64_t kCodeBytes = kLowInPlace ? 256 : kSplit ? 1024 : 512;  // of a block
  static constexpr int64_t kScaleFloats = kIntegerScales ? kGroupRows / 2 : kParts * kGroupRows;

  uint8_t* code_bytes;  // [blocks][8][64], or of every other one, or int16 [blocks][16][32]
  float* scales;        // [blocks * kParts][16], or integer scales, [blocks / 2][16][2] int16
  float* offsets;       // likewise
  const uint8_t* low;   // units, from the panel's first on

  /// Whether vector `index` of a block's codes is in the panel.
  static constexpr bool has_codes(int index) { return !kLowInPlace || index % 2 == 1; }
  HASTEN_INLINE uint8_t* codes_at(int64_t block, int index) const {
    return code_bytes + block * kCodeBytes + (kLowInPlace ? index / 2 : index) * 64;
  }
  HASTEN_INLINE uint8_t* pair_scales_at(int64_t block) const {
    return reinterpret_cast<uint8_t*>(scales + block / 2 * kGroupRows);
  }
  HASTEN_INLINE uint8_t* pair_offsets_at(int64_t block) const {
    return reinterpret_cast<uint8_t*>(offsets + block / 2 * kGroupRows);
  }
  HASTEN_INLINE float* scales_at(int64_t block, int part) const {
    return scales + (block * kParts + part) * kGroupRows;
  }
  HASTEN_INLINE float* offsets_at(int64_t block, int part) const {
    return offsets + (block * kParts + part) * kGroupRows;
  }

  template <int kIndex>
  HASTEN_INLINE U8x64 codes(int64_t block) const {
    if constexpr (has_codes(kIndex)) {
      return load_codes(codes_at(block, kIndex));
    } else {
      return unpack_codes<CodeBits::nibbles, kIndex>(low + kLowUnit.codes_of(block));
    }
  }
  template <int kIndex>
  HASTEN_INLINE U8x64 split_codes(int64_t block) const {
    return codes<kIndex>(block);
  }
  HASTEN_INLINE I32x16 pair_scales(int64_t block) const {
    return load_halves(pair_scales_at(block));
  }
  HASTEN_INLINE I32x16 pair_offsets(int64_t block) const {
    return load_halves(pair_offsets_at(block));
  }
  HASTEN_INLINE F32x16 scale(int64_t block, int part) const { return load(scales_at(block, part)); }
  HASTEN_INLINE F32x16 offset(int64_t block, int part) const {
    return load(offsets_at(block, part));
  }
};

/// The panel of a group: the group itself, where it is one. With kKeepsLow, lower nibbles stay in
/// it.
template <class Source, bool kKeepsLow, bool kIsPanel = Source::kIsPanel>
struct PanelOf {
  static_assert(!kKeepsLow || Source::kMayKeepLowNibbles);
  using Type =
      Panel<Source::kParts, Source::kSpanBlocks, Source::kOffsets, Source::kScaleKind,
            Source::kNarrow, Source::kRun, kKeepsLow ? Source::kUnit : UnitLayout{.blocks = 0}>;
  static constexpr int64_t kBytes =
      kPanelBlocks * (Type::kCodeBytes + (Type::kOffsets ? 2 : 1) * 4 * Type::kScaleFloats);
};
template <class Source>
struct PanelOf<Source, false, true> {
  using Type = Source;
  static constexpr int64_t kBytes = 0;
};

/// Places panels of so many blocks one behind the other: codes, scales and then offsets of all.
/// Without gaps: what lies whole ways apart would meet in few sets of the first-level cache.
template <int kGroups, class PanelType>
inline void place_panels(uint8_t* scratch, int64_t num_blocks, PanelType (&panels)[kGroups]) {
  constexpr int64_t kScaleBytes = 4 * PanelType::kScaleFloats;
  uint8_t* const scales = scratch + kGroups * num_blocks * PanelType::kCodeBytes;
  uint8_t* const offsets = scales + kGroups * num_blocks * kScaleBytes;
  for (int g = 0; g < kGroups; ++g) {
    panels[g].code_bytes = scratch + g * num_blocks * PanelType::kCodeBytes;
    panels[g].scales = reinterpret_cast<float*>(scales + g * num_blocks * kScaleBytes);
    panels[g].offsets = reinterpret_cast<float*>(offsets + g * num_blocks * kScaleBytes);
  }
}

/// Makes a panel of the first blocks of a strip. What the stores may not reach, since it is passed
/// by value, need not be loaded again behind each.
template <class Source, class PanelType>
inline void unpack(Source source, int64_t num_blocks, PanelType panel) {
  static_assert(Source::kSplit == PanelType::kSplit);
  constexpr int64_t kStep = Source::kIntegerScales ? 2 : 1;
  for (int64_t b = 0; b < num_blocks; b += kStep) {
    unroll<0, kStep>([&](auto step) HASTEN_INLINE {
      constexpr int kBlock = decltype(step)::value;
      unroll<0, 8>([&](auto index) HASTEN_INLINE {
        constexpr int kIndex = decltype(index)::value;
        if constexpr (PanelType::has_codes(kIndex)) {
          // Constant places in a unit cost nothing.
          const auto codes = Source::kUnit.blocks == kStep
                                 ? source.behind(b).template codes<kIndex>(kBlock)
                                 : source.template codes<kIndex>(b + kBlock);
          if constexpr (PanelType::kSplit) {
            store_codes(panel.codes_at(b + kBlock, 2 * kIndex), even_codes(codes));
            store_codes(panel.codes_at(b + kBlock, 2 * kIndex + 1), odd_codes(codes));
          } else {
            store_codes(panel.codes_at(b + kBlock, kIndex), codes);
          }
        }
      });
    });
    if constexpr (Source::kIntegerScales) {
      store_i32(panel.pair_scales_at(b), source.pair_scales(b));
      if constexpr (Source::kOffsets) {
        store_i32(panel.pair_offsets_at(b), source.pair_offsets(b));
      }
    } else {
      for (int part = 0; part < Source::kParts; ++part) {
        store(panel.scales_at(b, part), source.scale(b, part));
        if constexpr (Source::kOffsets) {
          store(panel.offsets_at(b, part), source.offset(b, part));
        }
      }
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
