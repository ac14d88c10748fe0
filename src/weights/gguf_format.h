// SPDX-License-Identifier: Apache-2.0
// Numbers of the GGUF format that reader and writer share.
//
// Source: the GGUF specification (ggml/docs/gguf.md). A file is: magic, version, number of tensors,
// number of key-values; the key-values; per tensor name, extents (innermost first), type and
// offset; padding to the alignment; the tensors, each padded to the alignment. All little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace hasten::weights {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;            // written; 2 differs only in name
inline constexpr int64_t kGgufDefaultAlignment = 32;   // bytes
inline constexpr int64_t kGgufMinAlignment = 8;        // the specification: a multiple of 8
inline constexpr int64_t kGgufMaxAlignment = 1 << 20;  // more is nothing but padding
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

/// The number of a type in a GGUF file.
[[nodiscard]] uint32_t ggml_type(DType dtype);
/// The type of that number, or nullopt.
[[nodiscard]] std::optional<DType> dtype_of_ggml_type(uint32_t number);
/// "21 (iq3_s)", or the number alone: a type that is not read, for errors.
[[nodiscard]] std::string unread_ggml_type(uint32_t number);
/// "f32 (0), f16 (1), …": every type that is read, for errors.
[[nodiscard]] std::string known_ggml_types();

}  // namespace hasten::weights
