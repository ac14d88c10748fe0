// SPDX-License-Identifier: Apache-2.0
// What all checkpoints share, and the choice of reader.
#include "weights/checkpoint.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "weights/gguf.h"
#include "weights/hf_folder.h"

namespace hasten::weights {

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second].tensor;
}

std::optional<std::string> Checkpoint::file(std::string_view) const { return std::nullopt; }

std::vector<std::string> Checkpoint::file_names(std::string_view, std::string_view) const {
  return {};
}

bool Checkpoint::add(std::string name, Tensor tensor) {
  if (!index_.emplace(name, tensors_.size()).second) return false;
  total_bytes_ += tensor.num_bytes();
  tensors_.push_back({std::move(name), tensor});
  return true;
}

std::span<const std::byte> Checkpoint::map_weights(const std::filesystem::path& file) {
  const MappedFile& mapped = files_.emplace_back(file);
  weight_files_.push_back(mapped.stamp());
  return mapped.bytes();
}

std::unique_ptr<const Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                                  Contents contents) {
  std::error_code ignored;  // opening the file will say what is wrong
  if (std::filesystem::is_directory(path, ignored)) return open_hf_folder(path, contents);
  const std::string name = path.filename().string();
  if (path.extension() == ".safetensors" || path.extension() == ".tiktoken" ||
      name == "tokenizer.json" || name == "tokenizer.model") {
    fail(ErrorCode::invalid_argument, "{} is part of a model; give its folder", path.string());
  }
  return open_gguf_file(path);
}

}  // namespace hasten::weights
