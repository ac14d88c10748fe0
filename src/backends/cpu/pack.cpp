// SPDX-License-Identifier: Apache-2.0
// Packing of weights: each format's codes and scales, exactly as they are, in the order of lanes.
#include "backends/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "quant/iq4_xs.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace hasten::cpu {
namespace {

/// A file's block taken apart: code and scales of each element, for blocks of 32 and of 256.
struct BlockParts {
  uint8_t codes[256];
  uint16_t scale = 0;        // binary16; of 32 columns, or the outer one of 256
  uint16_t offset = 0;       // binary16, added
  uint8_t inner_scales[16];  // of 32 or 16 columns; q2_k: with the offset in the high nibble
  uint8_t inner_offsets[8];  // of 32 columns
};

uint16_t negated(uint16_t binary16) { return static_cast<uint16_t>(binary16 ^ 0x8000U); }

/// 32 codes of which byte j has element j in its low and j + 16 in its high nibble.
void split_nibbles(const uint8_t* quants, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = quants[j] & 15;
    codes[j + 16] = quants[j] >> 4;
  }
}

/// codes[i] |= bit i of high_bits, as the fifth: a byte's bits become the tops of eight bytes.
void add_fifth_bits(const uint8_t* high_bits, uint8_t* codes) {
  static_assert(std::endian::native == std::endian::little);
  for (int i = 0; i < 4; ++i) {
    const uint64_t spread = high_bits[i] * 0x0101010101010101U & 0x8040201008040201U;
    const uint64_t tops = (spread + 0x7f7f7f7f7f7f7f7fU) & 0x8080808080808080U;
    uint64_t word = 0;
    std::memcpy(&word, codes + 8 * i, sizeof word);
    word |= tops >> 3;
    std::memcpy(codes + 8 * i, &word, sizeof word);
  }
}

/// codes[i] |= bits [kFrom, kFrom + kCount) of from[i], as bits from kTo on, for 32 codes. What is
/// shifted by constants the compiler does for many at a time.
template <int kFrom, int kCount, int kTo>
void add_bits(const uint8_t* from, uint8_t* codes) {
  constexpr int kMask = (1 << kCount) - 1;
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | (from[i] >> kFrom & kMask) << kTo);
  }
}

/// The same of 8 / kCount runs of 32 codes, which lie in the bits of 32 bytes from the lowest on.
template <int kCount, int kTo, size_t... kRuns>
void add_planes(const uint8_t* from, uint8_t* codes, std::index_sequence<kRuns...> /*runs*/) {
  (add_bits<kCount* static_cast<int>(kRuns), kCount, kTo>(from, codes + 32 * kRuns), ...);
}
template <int kCount, int kTo>
void add_planes(const uint8_t* from, uint8_t* codes) {
  add_planes<kCount, kTo>(from, codes, std::make_index_sequence<8 / kCount>());
}

void take_apart(const quant::BlockQ4_0& block, BlockParts& parts) {
  parts.scale = block.scale;
  split_nibbles(block.quants, parts.codes);
}

void take_apart(const quant::BlockQ4_1& block, BlockParts& parts) {
  parts.scale = block.scale;
  parts.offset = block.min;
  split_nibbles(block.quants, parts.codes);
}

void take_apart(const quant::BlockQ5_0& block, BlockParts& parts) {
  parts.scale = block.scale;
  split_nibbles(block.quants, parts.codes);
  add_fifth_bits(block.high_bits, parts.codes);
}

void take_apart(const quant::BlockQ5_1& block, BlockParts& parts) {
  parts.scale = block.scale;
  parts.offset = block.min;
  split_nibbles(block.quants, parts.codes);
  add_fifth_bits(block.high_bits, parts.codes);
}

void take_apart(const quant::BlockQ8_0& block, BlockParts& parts) {
  parts.scale = block.scale;
  for (int j = 0; j < 32; ++j) parts.codes[j] = static_cast<uint8_t>(block.quants[j] + 128);
}

void take_apart(const quant::BlockIq4Nl& block, BlockParts& parts) {
  parts.scale = block.scale;
  split_nibbles(block.quants, parts.codes);
}

void take_apart(const quant::BlockQ2K& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  parts.offset = negated(block.super_offset);
  std::memcpy(parts.inner_scales, block.scales, 16);
  std::memset(parts.codes, 0, sizeof parts.codes);
  for (int half = 0; half < 2; ++half) {
    add_planes<2, 0>(block.quants + 32 * half, parts.codes + 128 * half);
  }
}

void take_apart(const quant::BlockQ3K& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  for (int g = 0; g < 16; ++g) {
    parts.inner_scales[g] = static_cast<uint8_t>(quant::group_scale(block, g));
  }
  std::memset(parts.codes, 0, sizeof parts.codes);
  for (int half = 0; half < 2; ++half) {
    add_planes<2, 0>(block.quants + 32 * half, parts.codes + 128 * half);
  }
  add_planes<1, 2>(block.high_bits, parts.codes);
}

template <class Block>
void take_k_scales_apart(const Block& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  parts.offset = negated(block.super_offset);
  for (int g = 0; g < 8; ++g) {
    const quant::KScale inner = quant::unpack(block.scales, g);
    parts.inner_scales[g] = static_cast<uint8_t>(inner.scale);
    parts.inner_offsets[g] = static_cast<uint8_t>(inner.offset);
  }
  std::memset(parts.codes, 0, sizeof parts.codes);
  for (int pair = 0; pair < 4; ++pair) {
    add_planes<4, 0>(block.quants + 32 * pair, parts.codes + 64 * pair);
  }
}

void take_apart(const quant::BlockQ4K& block, BlockParts& parts) {
  take_k_scales_apart(block, parts);
}

void take_apart(const quant::BlockQ5K& block, BlockParts& parts) {
  take_k_scales_apart(block, parts);
  add_planes<1, 4>(block.high_bits, parts.codes);
}

void take_apart(const quant::BlockQ6K& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  std::memcpy(parts.inner_scales, block.scales, 16);
  std::memset(parts.codes, 0, sizeof parts.codes);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* quants = block.quants + 64 * half;
    uint8_t* codes = parts.codes + 128 * half;
    add_bits<0, 4, 0>(quants, codes);
    add_bits<0, 4, 0>(quants + 32, codes + 32);
    add_bits<4, 4, 0>(quants, codes + 64);
    add_bits<4, 4, 0>(quants + 32, codes + 96);
    add_planes<2, 4>(block.high_bits + 32 * half, codes);
  }
}

void take_apart(const quant::BlockIq4Xs& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  for (int g = 0; g < 8; ++g) {
    parts.inner_scales[g] = static_cast<uint8_t>(quant::group_scale(block, g));
    split_nibbles(block.quants + 16 * g, parts.codes + 32 * g);
  }
}

/// Puts 32 codes of one row into the eight vectors of a block (see CodeBits), four codes at a time:
/// no shift moves a bit out of its byte.
template <CodeBits kBits>
void put_codes(const uint8_t* codes, int row, uint8_t* block) {
  constexpr int kVectors = code_bytes(kBits) / 64;
  uint32_t words[kVectors] = {};
  for (int j = 0; j < 8; ++j) {
    uint32_t word = 0;
    std::memcpy(&word, codes + 4 * j, sizeof word);
    const int pair_shift = 2 * (j % 4);
    if constexpr (kBits == CodeBits::bytes) {
      words[j] = word;
    } else if constexpr (kBits == CodeBits::bits2 || kBits == CodeBits::bits2_1) {
      words[j / 4] |= (word & 0x03030303U) << pair_shift;
      if constexpr (kBits == CodeBits::bits2_1) words[2] |= (word >> 2 & 0x01010101U) << j;
    } else {
      words[j / 2] |= (word & 0x0f0f0f0fU) << (4 * (j % 2));
      if constexpr (kBits == CodeBits::nibbles_1) words[4] |= (word >> 4 & 0x01010101U) << j;
      if constexpr (kBits == CodeBits::nibbles_2) {
        words[4 + j / 4] |= (word >> 4 & 0x03030303U) << pair_shift;
      }
    }
  }
  for (int i = 0; i < kVectors; ++i) std::memcpy(block + 64 * i + 4 * row, &words[i], 4);
}

/// Puts the scales and offsets of one file block into its unit, of which it is the `index`-th.
void put_scales(const PackedFormat& format, const UnitLayout& unit, const BlockParts& parts,
                int64_t index, int row, uint8_t* out) {
  uint8_t* halves = out + index * unit.half_bytes;
  std::memcpy(halves + 2 * row, &parts.scale, 2);
  if (format.offsets) std::memcpy(halves + 2 * (kGroupRows + row), &parts.offset, 2);
  if (!format.super_scales) return;
  const int num_inner = kBlocksPerSuper * format.scales_per_block;
  const int64_t stride = unit.inner_bytes / format.scales_per_block;
  uint8_t* inner = out + unit.inner_at + index * kBlocksPerSuper * unit.inner_bytes;
  for (int i = 0; i < num_inner; ++i) {
    inner[i * stride + row] = parts.inner_scales[i];
    if (stride > kGroupRows) inner[i * stride + kGroupRows + row] = parts.inner_offsets[i];
  }
}

template <class Block, const PackedFormat& kFormat>
void pack_rows(const Tensor& source, int64_t index, uint8_t* out) {
  constexpr UnitLayout kUnit = unit_layout(kFormat);
  constexpr int64_t kBlocks = Block::kSize / kBlockColumns;
  constexpr int64_t kUnitFileBlocks = kUnit.blocks / kBlocks;
  const int64_t first_row = index * kGroupRows;
  for (int row = 0; row < kGroupRows && first_row + row < source.dim(0); ++row) {
    const std::byte* from = source.row(first_row + row);
    for (int64_t b = 0; b < source.dim(1) / Block::kSize; ++b) {
      Block block;
      std::memcpy(&block, from + b * static_cast<int64_t>(sizeof block), sizeof block);
      BlockParts parts;
      take_apart(block, parts);
      uint8_t* unit = out + b / kUnitFileBlocks * kUnit.bytes();
      const int64_t in_unit = b % kUnitFileBlocks;
      put_scales(kFormat, kUnit, parts, in_unit, row, unit);
      for (int64_t i = 0; i < kBlocks; ++i) {
        put_codes<kFormat.bits>(parts.codes + kBlockColumns * i, row,
                                unit + kUnit.codes_at + (in_unit * kBlocks + i) * kUnit.code_bytes);
      }
    }
  }
}

/// [columns][16] elements: `Element` is of their size. Some columns after others, so that what all
/// rows write stays in the first-level cache.
template <class Element>
void pack_elements(const Tensor& source, int64_t index, int64_t columns, uint8_t* out) {
  constexpr int64_t kColumns = 128;
  const int64_t first_row = index * kGroupRows;
  const int64_t num_rows = std::min<int64_t>(kGroupRows, source.dim(0) - first_row);
  for (int64_t first = 0; first < columns; first += kColumns) {
    const int64_t end = std::min(first + kColumns, columns);
    for (int64_t row = 0; row < num_rows; ++row) {
      const std::byte* from = source.row(first_row + row);
      for (int64_t c = first; c < end; ++c) {
        std::memcpy(out + (c * kGroupRows + row) * static_cast<int64_t>(sizeof(Element)),
                    from + c * static_cast<int64_t>(sizeof(Element)), sizeof(Element));
      }
    }
  }
}

/// [columns][16] elements, or [columns / 2][16][2] for bf16.
void pack_float_rows(const WeightLayout& layout, const Tensor& source, int64_t index,
                     uint8_t* out) {
  const int64_t columns = source.dim(1);
  if (layout.floats == FloatKind::f32) return pack_elements<uint32_t>(source, index, columns, out);
  if (layout.floats == FloatKind::f16) return pack_elements<uint16_t>(source, index, columns, out);
  pack_elements<uint32_t>(source, index, columns / 2, out);
  if (columns % 2 == 0) return;
  const int64_t first_row = index * kGroupRows;
  for (int64_t row = 0; row < kGroupRows && first_row + row < source.dim(0); ++row) {
    std::memcpy(out + (columns / 2 * kGroupRows + row) * 4,
                source.row(first_row + row) + 2 * (columns - 1), 2);
  }
}

using PackRows = void (*)(const Tensor&, int64_t, uint8_t*);
struct PackEntry {
  DType dtype;
  PackedKind kind;
  PackRows pack;
};
/// In the order of PackedKind.
constexpr PackEntry kPackEntries[kNumPackedKinds] = {
    {DType::q4_0, PackedKind::q4_0, pack_rows<quant::BlockQ4_0, kPackQ4_0>},
    {DType::q4_1, PackedKind::q4_1, pack_rows<quant::BlockQ4_1, kPackQ4_1>},
    {DType::q5_0, PackedKind::q5_0, pack_rows<quant::BlockQ5_0, kPackQ5_0>},
    {DType::q5_1, PackedKind::q5_1, pack_rows<quant::BlockQ5_1, kPackQ5_1>},
    {DType::q8_0, PackedKind::q8_0, pack_rows<quant::BlockQ8_0, kPackQ8_0>},
    {DType::q2_k, PackedKind::q2_k, pack_rows<quant::BlockQ2K, kPackQ2K>},
    {DType::q3_k, PackedKind::q3_k, pack_rows<quant::BlockQ3K, kPackQ3K>},
    {DType::q4_k, PackedKind::q4_k, pack_rows<quant::BlockQ4K, kPackQ4K>},
    {DType::q5_k, PackedKind::q5_k, pack_rows<quant::BlockQ5K, kPackQ5K>},
    {DType::q6_k, PackedKind::q6_k, pack_rows<quant::BlockQ6K, kPackQ6K>},
    {DType::iq4_nl, PackedKind::iq4_nl, pack_rows<quant::BlockIq4Nl, kPackIq4Nl>},
    {DType::iq4_xs, PackedKind::iq4_xs, pack_rows<quant::BlockIq4Xs, kPackIq4Xs>},
};

}  // namespace

WeightLayout weight_layout(const Tensor& source) {
  HASTEN_CHECK(source.defined() && source.shape().rank() == 2);
  WeightLayout layout;
  layout.num_groups = ceil_div(source.dim(0), kGroupRows);
  const int64_t columns = source.dim(1);
  for (const PackEntry& entry : kPackEntries) {
    if (entry.dtype != source.dtype()) continue;
    layout.packed = entry.kind;
    layout.group_bytes =
        unit_layout(kPackedFormats[static_cast<int>(entry.kind)]).group_bytes(columns);
    return layout;
  }
  switch (source.dtype()) {
    case DType::f32:
      layout.floats = FloatKind::f32;
      break;
    case DType::f16:
      layout.floats = FloatKind::f16;
      break;
    case DType::bf16:
      layout.floats = FloatKind::bf16;
      break;
    default:
      fail(ErrorCode::unsupported, "a weight matrix cannot be of type {}",
           info(source.dtype()).name);
  }
  const int64_t element_bytes = layout.floats == FloatKind::f32 ? 4 : 2;
  layout.group_bytes = round_up(columns, 2) * kGroupRows * element_bytes;
  return layout;
}

void pack_group(const WeightLayout& layout, const Tensor& source, int64_t index, uint8_t* out) {
  std::memset(out, 0, static_cast<size_t>(layout.group_bytes));
  if (!layout.packed) return pack_float_rows(layout, source, index, out);
  kPackEntries[static_cast<int>(*layout.packed)].pack(source, index, out);
}

}  // namespace hasten::cpu
