// SPDX-License-Identifier: Apache-2.0
// Finds the files of a Hugging Face folder and loads its safetensors.
#include "weights/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fetched_file.h"
#include "base/json.h"
#include "base/printable.h"
#include "weights/safetensors.h"

namespace hasten::weights {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// The largest published tokenizer.json has about 35 MB.
constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

// What the system cannot look at counts as absent.
bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

// Whether a name from outside stays in its folder, and may be printed in errors as it is.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '/' && c != '\\'; });
}

class HfCheckpoint final : public Checkpoint {
 public:
  HfCheckpoint(const std::filesystem::path& folder, Contents contents) : Checkpoint(folder) {
    if (contents == Contents::everything || is_there(folder / kConfigFile)) {
      config_ = parse_object(kConfigFile);
    }
    if (contents == Contents::no_weights) return;
    if (is_there(folder / kSingleFile)) {
      load(kSingleFile);
    } else if (is_there(folder / kIndexFile)) {
      load_shards();
    } else {
      fail(ErrorCode::not_found, "{} has neither {} nor {}", folder.string(), kSingleFile,
           kIndexFile);
    }
  }

  [[nodiscard]] Format format() const override { return Format::safetensors; }
  [[nodiscard]] const json::Object* config() const override {
    return config_ ? &*config_ : nullptr;
  }

  [[nodiscard]] std::optional<std::string> file(std::string_view name) const override {
    if (!is_plain_name(name)) {
      fail(ErrorCode::invalid_argument, "{} is not the name of a file in {}", printable(name),
           path().string());
    }
    const std::filesystem::path file = path() / name;
    // Also keeps away from pipes and devices, where a read would wait.
    std::error_code code;
    if (!std::filesystem::is_regular_file(file, code)) return std::nullopt;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(file, code));
    if (!code && size > kMaxTextBytes) {
      fail(ErrorCode::invalid_data, "{} has {} bytes; the limit is {}", file.string(), size,
           kMaxTextBytes);
    }
    std::ifstream in(file, std::ios::binary);
    std::string text(static_cast<size_t>(code ? 0 : size), '\0');
    if (code || !in.read(text.data(), size)) fail(ErrorCode::io, "cannot read {}", file.string());
    check_is_fetched(text, file.string());
    return text;
  }

  [[nodiscard]] std::vector<std::string> file_names(std::string_view begin,
                                                    std::string_view end) const override {
    std::vector<std::string> names;
    std::error_code code;
    for (std::filesystem::directory_iterator entry(path(), code), none; !code && entry != none;
         entry.increment(code)) {
      std::string name = entry->path().filename().string();
      const bool wanted = name.size() >= begin.size() + end.size() && name.starts_with(begin) &&
                          name.ends_with(end) && is_plain_name(name);
      if (wanted) names.push_back(std::move(name));
    }
    if (code) fail(ErrorCode::io, "cannot list {}: {}", path().string(), code.message());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  json::Object parse_object(const char* name) const {
    const std::string shown = (path() / name).string();
    const auto text = file(name);
    if (!text) fail(ErrorCode::not_found, "{} is missing", shown);
    json::Value value = json::parse(*text, shown, {.max_bytes = kMaxTextBytes});
    if (!value.is_object()) fail(ErrorCode::invalid_data, "{} is not a JSON object", shown);
    return std::move(value.get_object());
  }

  // Adds the tensors of one file.
  void load(const std::string& name) {
    const std::filesystem::path file = path() / name;
    if (!is_there(file)) fail(ErrorCode::not_found, "shard {} is missing", file.string());
    SafetensorsFile parsed = parse_safetensors(map_weights(file), file.string());
    for (NamedTensor& named : parsed.tensors) {
      if (find(named.name) != nullptr) {
        fail(ErrorCode::invalid_data, "{}: tensor {} lies in an earlier shard too", file.string(),
             printable(named.name));
      }
      add(std::move(named.name), named.tensor);
    }
    for (Buffer& copy : parsed.copies) copies_.push_back(std::move(copy));
  }

  // Loads every shard that the index names, and checks that it holds what the index says.
  void load_shards() {
    const std::string shown = (path() / kIndexFile).string();
    const json::Object index = parse_object(kIndexFile);
    const json::Value* map = index.if_contains("weight_map");
    if (map == nullptr || !map->is_object())
      fail(ErrorCode::invalid_data, "{} has no object weight_map", shown);
    std::map<std::string, std::vector<std::string_view>> shards;  // file -> tensors
    for (const auto& [tensor, file] : map->get_object()) {
      if (!file.is_string() || !is_plain_name(file.get_string())) {
        fail(ErrorCode::invalid_data, "{}: tensor {} lies in {}, which is no file of this folder",
             shown, printable(tensor), printable(json::serialize(file)));
      }
      shards[std::string(file.get_string())].push_back(tensor);
    }
    for (const auto& [file, names] : shards) {
      const size_t before = tensors().size();
      load(file);
      std::set<std::string_view> loaded;
      for (size_t i = before; i < tensors().size(); ++i) loaded.insert(tensors()[i].name);
      for (const std::string_view name : names) {
        if (!loaded.contains(name)) {
          fail(ErrorCode::invalid_data, "{}: tensor {} is not in {}", shown, printable(name), file);
        }
      }
    }
  }

  std::optional<json::Object> config_;
  std::vector<Buffer> copies_;
};

}  // namespace

std::unique_ptr<const Checkpoint> open_hf_folder(const std::filesystem::path& folder,
                                                 Contents contents) {
  return std::make_unique<HfCheckpoint>(folder, contents);
}

}  // namespace hasten::weights
