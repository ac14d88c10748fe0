// SPDX-License-Identifier: Apache-2.0
// Parser of safetensors files: a JSON header that names tensors, then their bytes.
//
// Source: the safetensors format description. A file is: u64 length of the header, little-endian;
// the header, an object of name -> {dtype, shape, data_offsets}; the bytes, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "weights/checkpoint.h"

namespace hasten::weights {

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, the format's own limit

/// The tensors of one file, in order of their bytes.
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;
  /// Owns the tensors that lie in the file without the alignment of their element.
  std::vector<Buffer> copies;
};

/// Parses a file whose `bytes` outlive the result. `name` stands for it in errors. Reads F32, F16
/// and BF16. Throws Error{invalid_data}; Error{unsupported} for another dtype or more than four
/// dimensions.
[[nodiscard]] SafetensorsFile parse_safetensors(std::span<const std::byte> bytes,
                                                std::string_view name);

}  // namespace hasten::weights
