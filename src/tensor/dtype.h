// SPDX-License-Identifier: Apache-2.0
// Element types: plain numbers, and the block formats of quantised weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hasten {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  f8_e4m3,  // of keys and values; no file that is read has it
};

/// How a type is stored: `block_size` consecutive elements of a row take `block_bytes` bytes.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as users write it: "f32", "q4_k"
  int32_t block_size;     // elements
  int32_t block_bytes;    // bytes
  bool quantized;
};

/// All types.
[[nodiscard]] std::span<const DTypeInfo> dtypes();
/// The table row of `dtype`.
[[nodiscard]] const DTypeInfo& info(DType dtype);
/// The type of that name (any case), or nullopt.
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// Bytes of a row of `num_elements`; a multiple of the block size, else Error{internal}.
[[nodiscard]] int64_t row_bytes(DType dtype, int64_t num_elements);

}  // namespace hasten
