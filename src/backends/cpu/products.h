// SPDX-License-Identifier: Apache-2.0
// What all matrix products share: weights as this backend keeps them, where outputs go, and how
// their work is dealt to the threads.
#pragma once

#include <algorithm>
#include <utility>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pack.h"
#include "backends/cpu/workers.h"
#include "base/error.h"
#include "ops/backend.h"

namespace hasten::cpu {

/// A weight in groups of 16 rows, or still in the file and packed tile by tile while it is used.
class CpuWeight final : public ops::Weight {
 public:
  CpuWeight(const Tensor& source, const WeightLayout& layout, Arena::Piece packed)
      : Weight(source), layout_(layout), packed_(std::move(packed)) {}

  const WeightLayout& layout() const { return layout_; }
  bool is_packed() const override { return packed_ != nullptr; }
  /// Of packed ones.
  GroupsFrom groups_from(int64_t index) const {
    return {.matrix = packed_.get(),
            .matrix_groups = layout_.num_groups,
            .divided = layout_.divided,
            .first = index};
  }

 private:
  WeightLayout layout_;
  Arena::Piece packed_;
};

inline const CpuWeight& cpu_weight(const ops::MatmulParams& params) {
  const auto* weight = dynamic_cast<const CpuWeight*>(&params.weight);
  HASTEN_CHECK(weight != nullptr);  // made by prepare_weight of this kind of backend
  return *weight;
}

constexpr const PackedFormat& format_of(PackedKind kind) {
  return kPackedFormats[static_cast<int>(kind)];
}

/// Of an activation in QuantizedRows.
inline int64_t value_bytes(const KernelTable& kernels, const PackedFormat& format) {
  return is_wide(format) ? kernels.wide_value_bytes : 1;
}

/// Of rows as long, too.
inline bool have_same_format(const WeightLayout& a, const WeightLayout& b) {
  return a.packed == b.packed && a.floats == b.floats && a.columns == b.columns;
}

inline ProductRows product_rows(const ops::MatmulParams& params) {
  const int64_t features = params.weight.out_features();
  return {.data = params.out.f32(),
          .stride = features,
          .columns = features,
          .bias = params.bias.defined() ? params.bias.f32() : nullptr};
}

/// What is left of them from a group on.
inline ProductRows from_group(ProductRows rows, int64_t group) {
  const int64_t column = group * kGroupRows;
  rows.data += column;
  rows.columns -= column;
  if (rows.bias != nullptr) rows.bias += column;
  return rows;
}

/// Register tiles of rows that are worth unpacking weights for, at least.
inline constexpr int64_t kLeastRowTiles = 4;
/// Pieces of what does not go evenly into the threads, for each.
inline constexpr int64_t kPartsOfThread = 2;

/// Of the tiles of rows, those of one of `count` even parts.
struct RowPart {
  int64_t index = 0;
  int64_t count = 1;
  int64_t first_of(int64_t tiles) const { return index * tiles / count; }
  int64_t end_of(int64_t tiles) const { return (index + 1) * tiles / count; }
  /// One of several parts of this one.
  RowPart of(int64_t inner, int64_t inner_count) const {
    return {.index = index * inner_count + inner, .count = count * inner_count};
  }
};

/// `count` pieces of work for the threads, f(begin, end, next, part of the rows, thread):
/// whole ones in ranges, and those that do not go evenly into the threads by rows, of which there
/// are `row_tiles` tiles that may be divided. The first of those is what a thread expects behind
/// its range: where `next` is not `count`, it may be what comes next.
template <class F>
void deal_pieces(Workers& workers, int64_t count, int64_t row_tiles, F&& f) {
  const int64_t threads = workers.num_threads();
  const int64_t left = count % threads;
  const int64_t parts =
      std::min(left > 0 ? kPartsOfThread * threads / left : 1, row_tiles / kLeastRowTiles);
  const int64_t whole = parts > 1 ? count - left : count;
  workers.for_each_in_ranges(
      whole, 1,
      [&](int64_t begin, int64_t end, int64_t next, int32_t thread) {
        f(begin, end, next, RowPart{}, thread);
      },
      (count - whole) * parts,
      [&](int64_t index, int32_t thread) {
        const int64_t at = whole + index / parts;
        f(at, at + 1, count, RowPart{.index = index % parts, .count = parts}, thread);
      });
}

}  // namespace hasten::cpu
