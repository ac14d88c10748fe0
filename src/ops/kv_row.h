// SPDX-License-Identifier: Apache-2.0
// How one head's key or value is kept in each of the types that a cache may have.
#pragma once

#include <cstdint>

#include "ops/backend.h"
#include "tensor/dtype.h"

namespace hasten::ops {

// f32, f16, bf16 and f8_e4m3 keep every element by itself; what is too large for f16 or f8_e4m3
// saturates. q8_0 and q4_0 keep blocks of 32 (quant/q8_0.h, quant/q4_0.h); a block with an
// infinity or a NaN decodes to NaN, so that a fault is not hidden. q4_0 keeps the row rotated:
// see rotate.

/// Error{unsupported} when the types are none for a cache, or their blocks do not divide the head:
/// says which types do.
void check_kv_types(const KvCacheSpec& spec);

/// Whether rows of the type are kept rotated. Then a query is rotated before it meets the keys,
/// and a weighted sum of values is rotated back; neither changes a result but for rounding.
[[nodiscard]] constexpr bool is_rotated(DType type) { return type == DType::q4_0; }

/// Multiplies by the orthonormal Hadamard matrix, which is its own inverse, in blocks of the
/// largest power of two that divides `size`. It spreads a few large elements over all, so that
/// they do not cost the others their four bits (Ashkboos et al., QuaRot, 2024, arXiv:2404.00456).
/// Any thread.
void rotate(float* x, int64_t size);

/// Writes x[size] as a row of row_bytes(type, size) bytes, rotated if the type asks for it. `size`
/// is a multiple of the type's block. Any thread.
void encode_kv_row(DType type, const float* x, int64_t size, void* row);

/// The row as it is kept, which is rotated if the type asks for it. Any thread.
void decode_kv_row(DType type, const void* row, int64_t size, float* out);

}  // namespace hasten::ops
