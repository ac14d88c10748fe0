// SPDX-License-Identifier: Apache-2.0
// GGUF models: one mapped file, the shards of a split one, or an image in memory.
#include "weights/gguf.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "weights/gguf_parser.h"

namespace hasten::weights {
namespace {

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(const std::filesystem::path& path) : Checkpoint(path) {
    load_shard(map_weights(path), path);
    const int64_t num_shards = metadata_.get_i64("split.count", 1);
    if (num_shards <= 1) return;
    const std::string first = shard_suffix(0, num_shards);
    const std::string name = path.string();
    if (metadata_.get_i64("split.no", 0) != 0 || !name.ends_with(first)) {
      fail(ErrorCode::invalid_data, "{} is shard {} of {}; give the first, whose name ends with {}",
           name, metadata_.get_i64("split.no", 0), num_shards, first);
    }
    for (int64_t i = 1; i < num_shards; ++i)
      load_further_shard(name.substr(0, name.size() - first.size()), i, num_shards);
    const int64_t wanted = metadata_.get_i64("split.tensors.count", std::ssize(tensors()));
    if (wanted != std::ssize(tensors())) {
      fail(ErrorCode::invalid_data, "{}: the {} shards hold {} tensors; split.tensors.count is {}",
           name, num_shards, tensors().size(), wanted);
    }
  }

  GgufCheckpoint(std::span<const std::byte> image, const std::string& name) : Checkpoint(name) {
    HASTEN_CHECK(reinterpret_cast<uintptr_t>(image.data()) % alignof(std::max_align_t) == 0);
    load_shard(image, path());
    if (metadata_.get_i64("split.count", 1) > 1)
      fail(ErrorCode::unsupported, "{} is one shard of several; a model in memory is whole", name);
  }

  [[nodiscard]] Format format() const override { return Format::gguf; }

 private:
  static std::string shard_suffix(int64_t index, int64_t num_shards) {
    return fmt::format("-{:05}-of-{:05}.gguf", index + 1, num_shards);
  }

  // Returns the metadata of a further shard, which counts for nothing but checks.
  Metadata load_tensors(std::span<const std::byte> bytes, const std::filesystem::path& path) {
    const std::string name = path.string();
    GgufFile file = parse_gguf(bytes, name);
    for (NamedTensor& named : file.tensors) {
      if (find(named.name) != nullptr) {
        fail(ErrorCode::invalid_data, "{}: tensor {} lies in an earlier shard too", name,
             printable(named.name));
      }
      add(std::move(named.name), named.tensor);
    }
    return std::move(file.metadata);
  }

  void load_shard(std::span<const std::byte> bytes, const std::filesystem::path& path) {
    metadata_ = load_tensors(bytes, path);
  }

  void load_further_shard(const std::string& stem, int64_t index, int64_t num_shards) {
    const std::filesystem::path path = stem + shard_suffix(index, num_shards);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      fail(ErrorCode::not_found, "shard {} of {} is missing: {}", index + 1, num_shards,
           path.string());
    }
    const Metadata metadata = load_tensors(map_weights(path), path);
    const int64_t number = metadata.get_i64("split.no");
    const int64_t count = metadata.get_i64("split.count");
    if (number != index || count != num_shards) {
      fail(ErrorCode::invalid_data, "{} says it is shard {} of {}; wanted {} of {}", path.string(),
           number, count, index, num_shards);
    }
  }
};

}  // namespace

std::unique_ptr<const Checkpoint> open_gguf_file(const std::filesystem::path& path) {
  return std::make_unique<GgufCheckpoint>(path);
}

std::unique_ptr<const Checkpoint> open_gguf(std::span<const std::byte> image,
                                            const std::string& name) {
  return std::make_unique<GgufCheckpoint>(image, name);
}

}  // namespace hasten::weights
