// SPDX-License-Identifier: Apache-2.0
// How the 16 lanes of a finished sum become 16 outputs of one row.
#pragma once

#include "backends/cpu/kernels/unroll.inl"
#include "backends/cpu/packed_format.h"

namespace hasten::cpu {
namespace {

/// Of a line that will be written. Inlined by force: as a call, GCC 12 takes it for one without
/// effect and drops it.
HASTEN_INLINE inline void prefetch_output(const float* out) { __builtin_prefetch(out, 1); }

/// The lanes of outputs that are rows of the matrix; the others are zero.
inline F32x16 load_output(const float* out_row, int64_t first_feature, int64_t out_features) {
  const int64_t left = out_features - first_feature;
  if (left >= kGroupRows) return load(out_row + first_feature);
  return left > 0 ? load_first(out_row + first_feature, left) : zero();
}

/// Writes the lanes of a total that are rows of the matrix.
inline void store_output(F32x16 total, const float* bias, float* out_row, int64_t first_feature,
                         int64_t out_features) {
  const int64_t left = out_features - first_feature;
  if (left >= kGroupRows) {
    if (bias != nullptr) total = add(total, load(bias + first_feature));
    store(out_row + first_feature, total);
  } else if (left > 0) {
    if (bias != nullptr) total = add(total, load_first(bias + first_feature, left));
    store_first(out_row + first_feature, total, left);
  }
}

}  // namespace
}  // namespace hasten::cpu
