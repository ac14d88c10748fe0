// SPDX-License-Identifier: Apache-2.0
// Packing of weights: each format's codes and scales, exactly as they are, in the order of lanes.
#include "backends/cpu/pack.h"

#include <cstring>

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

void add_fifth_bits(const uint8_t* high_bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] |= static_cast<uint8_t>((high_bits[i / 8] >> (i % 8) & 1) << 4);
  }
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
  for (int i = 0; i < 256; ++i) {
    const int q = block.quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    parts.codes[i] = static_cast<uint8_t>(q);
  }
}

void take_apart(const quant::BlockQ3K& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  for (int g = 0; g < 16; ++g) {
    parts.inner_scales[g] = static_cast<uint8_t>(quant::group_scale(block, g));
  }
  for (int i = 0; i < 256; ++i) {
    const int low = block.quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    const int high = block.high_bits[i % 32] >> (i / 32) & 1;
    parts.codes[i] = static_cast<uint8_t>(low | high << 2);
  }
}

template <class Block>
void take_k_scales_apart(const Block& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  parts.offset = negated(block.super_offset);
  for (int g = 0; g < 8; ++g) {
    const quant::KScale inner = quant::unpack(block.scales, g);
    parts.inner_scales[g] = static_cast<uint8_t>(inner.scale);
    parts.inner_offsets[g] = static_cast<uint8_t>(inner.offset);
    for (int j = 0; j < 32; ++j) {
      parts.codes[32 * g + j] = block.quants[g / 2 * 32 + j] >> (g % 2 * 4) & 15;
    }
  }
}

void take_apart(const quant::BlockQ4K& block, BlockParts& parts) {
  take_k_scales_apart(block, parts);
}

void take_apart(const quant::BlockQ5K& block, BlockParts& parts) {
  take_k_scales_apart(block, parts);
  for (int i = 0; i < 256; ++i) {
    parts.codes[i] |= static_cast<uint8_t>((block.high_bits[i % 32] >> (i / 32) & 1) << 4);
  }
}

void take_apart(const quant::BlockQ6K& block, BlockParts& parts) {
  parts.scale = block.super_scale;
  std::memcpy(parts.inner_scales, block.scales, 16);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int r = i % 128;
    const int low = block.quants[64 * half + r % 64] >> (r / 64 * 4) & 15;
    const int high = block.high_bits[32 * half + r % 32] >> (r / 32 * 2) & 3;
    parts.codes[i] = static_cast<uint8_t>(low | high << 4);
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
/// no shift moves a bit out of its byte. `block` starts as zeros.
template <CodeBits kBits>
void put_codes(const uint8_t* codes, int row, uint8_t* block) {
  const auto put = [&](int vector, uint32_t bits) {
    uint8_t* at = block + 64 * vector + 4 * row;
    uint32_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word |= bits;
    std::memcpy(at, &word, sizeof word);
  };
  for (int j = 0; j < 8; ++j) {
    uint32_t word = 0;
    std::memcpy(&word, codes + 4 * j, sizeof word);
    const int pair_shift = 2 * (j % 4);
    if constexpr (kBits == CodeBits::bytes) {
      put(j, word);
    } else if constexpr (kBits == CodeBits::bits2 || kBits == CodeBits::bits2_1) {
      put(j / 4, (word & 0x03030303U) << pair_shift);
      if constexpr (kBits == CodeBits::bits2_1) put(2, (word >> 2 & 0x01010101U) << j);
    } else {
      put(j / 2, (word & 0x0f0f0f0fU) << (4 * (j % 2)));
      if constexpr (kBits == CodeBits::nibbles_1) put(4, (word >> 4 & 0x01010101U) << j);
      if constexpr (kBits == CodeBits::nibbles_2) {
        put(4 + j / 4, (word >> 4 & 0x03030303U) << pair_shift);
      }
    }
  }
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

/// [columns][16] elements, or [columns / 2][16][2] for bf16.
void pack_float_rows(const WeightLayout& layout, const Tensor& source, int64_t index,
                     uint8_t* out) {
  const int64_t columns = source.dim(1);
  const int64_t first_row = index * kGroupRows;
  for (int64_t row = 0; row < kGroupRows && first_row + row < source.dim(0); ++row) {
    const std::byte* from = source.row(first_row + row);
    for (int64_t c = 0; c < columns; ++c) {
      switch (layout.floats) {
        case FloatKind::f32:
          std::memcpy(out + (c * kGroupRows + row) * 4, from + 4 * c, 4);
          break;
        case FloatKind::f16:
          std::memcpy(out + (c * kGroupRows + row) * 2, from + 2 * c, 2);
          break;
        case FloatKind::bf16:
          std::memcpy(out + ((c / 2 * kGroupRows + row) * 2 + c % 2) * 2, from + 2 * c, 2);
          break;
      }
    }
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
