// SPDX-License-Identifier: Apache-2.0
// From a weight as the file has it to the groups of 16 rows that the kernels read.
#pragma once

#include <optional>

#include "backends/cpu/kernel_table.h"
#include "tensor/tensor.h"

namespace hasten::cpu {

/// How kernels see the matrix: quantised groups, or groups of floats.
struct WeightLayout {
  std::optional<PackedKind> packed;  // else floats of this kind:
  FloatKind floats = FloatKind::f32;
  int64_t columns = 0;
  bool divided = false;     // see StackLayout
  int64_t group_bytes = 0;  // a share of its stack where rows are divided, not one piece
  int64_t num_groups = 0;
  int64_t num_bytes() const { return num_groups * group_bytes; }
  /// Of quantised groups.
  StackLayout stacks() const {
    return {.num_blocks = columns / kBlockColumns, .num_groups = num_groups, .divided = divided};
  }
};

/// The layout of a matrix [n, k] where few rows of activations read it so. Throws
/// Error{unsupported} for a type that is no weight's.
[[nodiscard]] WeightLayout weight_layout(const Tensor& source,
                                         WeightStreams streams = WeightStreams::one);

/// Where what is stored goes.
enum class PackInto : uint8_t {
  caches,
  memory,  // codes and floats, but for f16, past the caches; other threads see them behind
           // KernelTable::order_stores
};

/// Writes group `index` of `source` to its places in `packed`[layout.num_bytes()], for memory a
/// multiple of a cache line; rows behind the last are what blocks of zero bytes make, elements that
/// are zero. Returns how many rows lose more of their scales than of anything else
/// (KernelTable::make_integer_scales). Any thread.
int32_t pack_group(const KernelTable& kernels, const WeightLayout& layout, const Tensor& source,
                   int64_t index, uint8_t* packed, PackInto into = PackInto::caches);

}  // namespace hasten::cpu
