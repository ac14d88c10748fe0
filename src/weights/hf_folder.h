// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder: config.json, safetensors in one file or in shards, tokenizer files.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/checkpoint.h"

namespace hasten::weights {

/// Opens config.json and either model.safetensors or the shards that model.safetensors.index.json
/// names; without weights neither, and a folder of tokenizer files will do. Other files are read
/// when asked for. Throws Error{not_found, io, invalid_data,
/// unsupported}.
[[nodiscard]] std::unique_ptr<const Checkpoint> open_hf_folder(const std::filesystem::path& folder,
                                                               Contents contents);

}  // namespace hasten::weights
