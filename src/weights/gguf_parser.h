// SPDX-License-Identifier: Apache-2.0
// Parser of one GGUF file: metadata, then tensors, then their bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/metadata.h"

namespace hasten::weights {

/// What one file holds; all of it borrows the file's bytes.
struct GgufFile {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // in file order
};

/// Parses a file, or one shard. `name` stands for it in errors. Throws Error{invalid_data};
/// Error{unsupported} for a version, byte order, type or nesting of arrays that is not read.
[[nodiscard]] GgufFile parse_gguf(std::span<const std::byte> bytes, std::string_view name);

}  // namespace hasten::weights
