// SPDX-License-Identifier: Apache-2.0
// Rows of any weight format to and from float: one table over the scalar codecs of this folder.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace hasten::quant {

/// Whether decode_row and encode_row know the type: every block format, f32, f16 and bf16.
[[nodiscard]] bool has_codec(DType dtype);

/// Decodes one row of `num_elements` (a multiple of the block size) to float. `row` has
/// row_bytes(dtype, num_elements) bytes and needs no alignment. Any thread. Error{internal} for a
/// type without a codec.
void decode_row(DType dtype, const void* row, float* out, int64_t num_elements);

/// Encodes one row, rounding to nearest. Finite input never encodes to NaN or infinity, except that
/// f16 and bf16 overflow as IEEE 754 says. Any thread. Errors as decode_row.
void encode_row(DType dtype, const float* in, void* row, int64_t num_elements);

}  // namespace hasten::quant
