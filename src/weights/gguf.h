// SPDX-License-Identifier: Apache-2.0
// Reader of GGUF files, version 2 and 3, single or split.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "weights/checkpoint.h"

namespace hasten::weights {

/// Opens a GGUF file, with the other shards when it is the first of a split model. Throws
/// Error{not_found, io, invalid_data, unsupported}. `open_gguf` in checkpoint.h reads from memory.
[[nodiscard]] std::unique_ptr<const Checkpoint> open_gguf_file(const std::filesystem::path& path);

}  // namespace hasten::weights
