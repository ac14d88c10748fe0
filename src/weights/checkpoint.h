// SPDX-License-Identifier: Apache-2.0
// A model on disk, whatever its format: named tensors over mapped files, and what describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/mapped_file.h"
#include "tensor/tensor.h"
#include "weights/metadata.h"

namespace hasten::weights {

/// A tensor under the name that its file gives it.
struct NamedTensor {
  std::string name;
  Tensor tensor;  // a view over the mapped file; a weight is [out_features, in_features]
};

/// How much of a model to open.
enum class Contents {
  everything,
  no_weights,  // of a folder the text files alone, which may have neither config.json nor tensors
};

/// An open model. Const after open; any thread. Tensors, metadata and their strings live as long
/// as it does.
///
/// Invariant: every tensor lies wholly inside its file and no two overlap, so that a view can be
/// read to its last byte without another check. Block formats have whole blocks in every row.
class Checkpoint {
 public:
  enum class Format { gguf, safetensors };

  virtual ~Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  [[nodiscard]] virtual Format format() const = 0;
  /// The tensor of that name, or null.
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  /// In file order.
  [[nodiscard]] const std::vector<NamedTensor>& tensors() const { return tensors_; }
  /// Key-values of a GGUF file; empty for a Hugging Face folder.
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  /// config.json of a Hugging Face folder; null for GGUF, and without weights where it is absent.
  [[nodiscard]] virtual const json::Object* config() const { return nullptr; }
  /// The text of a file that lies beside the weights of a Hugging Face folder (tokenizer.json,
  /// tokenizer_config.json, generation_config.json, chat_template.jinja, tokenizer.model, …), read
  /// now. nullopt: there is none, or this is a GGUF file. Throws Error{invalid_argument} for a name
  /// with a folder in it, Error{invalid_data} for a file over its limit or one that Git LFS has not
  /// fetched yet, Error{io}.
  [[nodiscard]] virtual std::optional<std::string> file(std::string_view name) const;
  /// The names that `file` may be asked for which begin and end so ("", ".tiktoken"), in
  /// alphabetical order; none for GGUF. Throws Error{io}.
  [[nodiscard]] virtual std::vector<std::string> file_names(std::string_view begin,
                                                            std::string_view end) const;

  /// Bytes of all tensors.
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }
  /// Of every file that has tensors, when it was opened; none for a model in memory.
  [[nodiscard]] const std::vector<FileStamp>& weight_files() const { return weight_files_; }
  /// What was opened: a file (the first shard), a folder, or the name of a model in memory.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 protected:
  explicit Checkpoint(std::filesystem::path path) : path_(std::move(path)) {}
  /// Adds a tensor; false, and nothing changes, when the name is there already.
  bool add(std::string name, Tensor tensor);
  /// Maps one more file of weights. Its bytes are there as long as the checkpoint. Throws as
  /// MappedFile.
  std::span<const std::byte> map_weights(const std::filesystem::path& file);
  Metadata metadata_;

 private:
  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::vector<FileStamp> weight_files_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> position in tensors_
  int64_t total_bytes_ = 0;
};

/// Opens a .gguf file, the first shard of a split one (`…-00001-of-0000N.gguf`; the others are
/// found beside it), or a Hugging Face folder with safetensors. Throws Error{not_found, io,
/// invalid_data, unsupported}.
[[nodiscard]] std::unique_ptr<const Checkpoint> open_checkpoint(
    const std::filesystem::path& path, Contents contents = Contents::everything);

/// Opens a GGUF image in memory, such as the model that is built into the program. The bytes are
/// borrowed and begin at a multiple of 16; `name` stands for the file in errors. Throws as
/// open_checkpoint.
[[nodiscard]] std::unique_ptr<const Checkpoint> open_gguf(std::span<const std::byte> image,
                                                          const std::string& name);

}  // namespace hasten::weights
