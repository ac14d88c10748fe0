// SPDX-License-Identifier: Apache-2.0
// How the 16 lanes of a finished sum become 16 outputs of one row.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Of a line that will be written. Without the empty statement GCC 12 takes it for a function
/// without effect, and drops calls of it that are not inlined yet.
HASTEN_INLINE inline void prefetch_output(const ProductRows& out, int64_t row, int64_t group) {
  __asm__ volatile("");
  __builtin_prefetch(out.data + row * out.stride + group * kGroupRows, 1);
}

/// The lanes of outputs that are rows of the matrix; the others are zero.
inline F32x16 load_output(const ProductRows& out, int64_t row, int64_t group) {
  const float* at = out.data + row * out.stride + group * kGroupRows;
  const int64_t left = out.columns - group * kGroupRows;
  if (left >= kGroupRows) return load(at);
  return left > 0 ? load_first(at, left) : zero();
}

/// Writes the lanes of a total that are rows of the matrix.
inline void store_output(F32x16 total, const ProductRows& out, int64_t row, int64_t group) {
  const int64_t first = group * kGroupRows;
  const int64_t left = out.columns - first;
  float* at = out.data + row * out.stride + first;
  if (left >= kGroupRows) {
    if (out.bias != nullptr) total = add(total, load(out.bias + first));
    store(at, total);
  } else if (left > 0) {
    if (out.bias != nullptr) total = add(total, load_first(out.bias + first, left));
    store_first(at, total, left);
  }
}

}  // namespace
}  // namespace hasten::cpu
