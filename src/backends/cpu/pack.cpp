// SPDX-License-Identifier: Apache-2.0
// Packing of weights: which kernel makes a group, and the copies for groups that are not whole.
#include "backends/cpu/pack.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "backends/cpu/file_blocks.h"
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

/// In the order of PackedKind.
constexpr DType kTypes[kNumPackedKinds] = {DType::q4_0, DType::q4_1, DType::q5_0,   DType::q5_1,
                                           DType::q8_0, DType::q2_k, DType::q3_k,   DType::q4_k,
                                           DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs};

constexpr const FileBlock& file_block(PackedKind kind) {
  return kFileBlocks[static_cast<int>(kind)];
}

/// Whether the numbers of file_blocks.h are those of the block: sizes, scales and codes.
template <class Block>
constexpr bool is_described(PackedKind kind, size_t scale, size_t codes) {
  const FileBlock& block = file_block(kind);
  return block.bytes == sizeof(Block) && block.columns == Block::kSize &&
         block.scale_at == static_cast<int>(scale) && block.low.at == static_cast<int>(codes);
}
#define HASTEN_IS_DESCRIBED(kind, Block, scale) \
  is_described<quant::Block>(kind, offsetof(quant::Block, scale), offsetof(quant::Block, quants))
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q4_0, BlockQ4_0, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q4_1, BlockQ4_1, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q5_0, BlockQ5_0, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q5_1, BlockQ5_1, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q8_0, BlockQ8_0, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q2_k, BlockQ2K, super_scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q3_k, BlockQ3K, super_scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q4_k, BlockQ4K, super_scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q5_k, BlockQ5K, super_scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::q6_k, BlockQ6K, super_scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::iq4_nl, BlockIq4Nl, scale));
static_assert(HASTEN_IS_DESCRIBED(PackedKind::iq4_xs, BlockIq4Xs, super_scale));
#undef HASTEN_IS_DESCRIBED

int64_t element_bytes(FloatKind kind) { return kind == FloatKind::f32 ? 4 : 2; }

/// The smallest part of the columns that a kernel packs by itself.
struct Part {
  int64_t columns;
  int64_t row_bytes;    // of it in the file
  int64_t group_bytes;  // of it in a group
};
constexpr Part part_of(PackedKind kind) {
  const UnitLayout unit = unit_layout(kPackedFormats[static_cast<int>(kind)]);
  const FileBlock& block = file_block(kind);
  const int64_t columns = unit.blocks * kBlockColumns;
  return {columns, columns / block.columns * block.bytes, unit.bytes()};
}

// Room for a part of any kind.
constexpr int64_t kMostRowBytes = 512;
constexpr int64_t kMostGroupBytes = 8192;
constexpr bool parts_fit() {
  for (int kind = 0; kind < kNumPackedKinds; ++kind) {
    const Part part = part_of(static_cast<PackedKind>(kind));
    if (part.row_bytes > kMostRowBytes || part.group_bytes > kMostGroupBytes) return false;
  }
  return true;
}
static_assert(parts_fit());

Part part_of(const WeightLayout& layout) {
  if (!layout.packed) {
    const int64_t columns = 16 / element_bytes(layout.floats);
    return {columns, 16, 16 * kGroupRows};
  }
  return part_of(*layout.packed);
}

}  // namespace

WeightLayout weight_layout(const Tensor& source, WeightStreams streams) {
  HASTEN_CHECK(source.defined() && source.shape().rank() == 2 && source.dim(1) > 0);
  WeightLayout layout;
  layout.num_groups = ceil_div(source.dim(0), kGroupRows);
  const int64_t columns = source.dim(1);
  layout.columns = columns;
  for (int kind = 0; kind < kNumPackedKinds; ++kind) {
    if (kTypes[kind] != source.dtype()) continue;
    layout.packed = static_cast<PackedKind>(kind);
    layout.group_bytes = unit_layout(kPackedFormats[kind]).group_bytes(columns);
    layout.divided = streams == WeightStreams::in_order &&
                     has_integer_scales(kPackedFormats[kind]) &&
                     columns > kMostUndividedBlocks * kBlockColumns;
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
  layout.group_bytes = round_up(columns, 2) * kGroupRows * element_bytes(layout.floats);
  return layout;
}

int32_t pack_group(const KernelTable& kernels, const WeightLayout& layout, const Tensor& source,
                   int64_t index, uint8_t* packed, PackInto into) {
  const auto pack = layout.packed ? kernels.pack_quantized[static_cast<int>(*layout.packed)]
                                  : kernels.pack_floats[static_cast<int>(layout.floats)];
  const int64_t first_row = index * kGroupRows;
  const int64_t num_rows = std::min<int64_t>(kGroupRows, source.dim(0) - first_row);
  const auto* rows = reinterpret_cast<const uint8_t*>(source.row(first_row));
  const int64_t row_bytes = source.row_bytes();
  const Part part = part_of(layout);
  const UnitLayout unit =
      layout.packed ? unit_layout(kPackedFormats[static_cast<int>(*layout.packed)]) : UnitLayout{};
  int64_t columns = 0;  // that lie in one piece: of a strip, or all
  for (int64_t first = 0; first < layout.columns; first += columns) {
    columns = layout.packed ? blocks_from(layout.stacks(), first / kBlockColumns) * kBlockColumns
                            : layout.columns;
    const int64_t row_at = first / part.columns * part.row_bytes;
    uint8_t* const out =
        packed + (layout.packed ? unit_at(unit, layout.stacks(), index, first / kBlockColumns)
                                : index * layout.group_bytes);
    int64_t num_done = 0;  // parts
    if (num_rows == kGroupRows) {
      // Blocks without all of a unit are whole all the same.
      const int64_t whole = layout.packed ? columns : columns / part.columns * part.columns;
      pack({.rows = rows + row_at,
            .row_bytes = row_bytes,
            .columns = whole,
            .next = rows + kGroupRows * (row_bytes + row_at),
            .out = out,
            .asks_into = kernels.asks_into,
            .past_caches = into == PackInto::memory});
      num_done = whole == columns ? ceil_div(columns, part.columns) : columns / part.columns;
    }
    const int64_t num_bytes =
        layout.packed ? unit.bytes_of(columns / kBlockColumns) : layout.group_bytes;
    for (; num_done * part.columns < columns; ++num_done) {
      uint8_t copy[kGroupRows * kMostRowBytes] = {};
      uint8_t packed_part[kMostGroupBytes];
      const int64_t left_columns = std::min(part.columns, columns - num_done * part.columns);
      const int64_t at = row_at + num_done * part.row_bytes;
      const int64_t size = std::min(part.row_bytes, row_bytes - at);
      for (int64_t r = 0; r < num_rows; ++r) {
        std::memcpy(copy + r * part.row_bytes, rows + r * row_bytes + at,
                    static_cast<size_t>(size));
      }
      pack({.rows = copy,
            .row_bytes = part.row_bytes,
            .columns = layout.packed ? left_columns : part.columns,
            .next = copy,
            .out = packed_part});
      const int64_t to = num_done * part.group_bytes;
      std::memcpy(out + to, packed_part,
                  static_cast<size_t>(std::min(part.group_bytes, num_bytes - to)));
    }
  }
  if (unit.head_bytes == 0) return 0;
  return kernels.make_integer_scales({.matrix = packed,
                                      .layout = layout.stacks(),
                                      .group = index,
                                      .format = kPackedFormats[static_cast<int>(*layout.packed)]});
}

}  // namespace hasten::cpu
