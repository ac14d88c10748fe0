// SPDX-License-Identifier: Apache-2.0
// Shows a vocabulary's file as a folder that has no other one.
#include "api/vocabulary_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "api/model_files.h"
#include "hasten/tokenizer.h"

namespace hasten {
namespace {

// What lies beside vocabularies, and what else a model's folder has.
constexpr std::array<std::string_view, 5> kBeside = {"tokenizer_config.json",
                                                     "special_tokens_map.json", "added_tokens.json",
                                                     "chat_template.jinja", "chat_template.json"};
constexpr std::array<std::string_view, 4> kOthers = {
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"};

bool is_one_of(std::string_view name, auto& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The name under which a file is looked for in a folder; empty: it is no vocabulary.
std::string_view role_of(std::string_view name) {
  const auto has = [name](std::string_view word) { return name.find(word) != name.npos; };
  if (is_one_of(name, kBeside) || is_one_of(name, kOthers)) return {};
  // Their names say more than what kind they are.
  if (name.ends_with(".tiktoken") || name == "tiktoken.model") return name;
  if (name.starts_with("rwkv_vocab_") && name.ends_with(".txt")) return name;
  if (name == "vocab.json" || name == "merges.txt") return "vocab.json";
  if (name == "vocab.txt") return name;
  if (name.ends_with(".json") && has("tekken")) return "tekken.json";
  if (name.ends_with(".json") && has("tokenizer")) return "tokenizer.json";
  if (name.ends_with(".model") || has(".model.v")) return "tokenizer.model";
  return {};
}

class LoneVocabulary final : public weights::Checkpoint {
 public:
  LoneVocabulary(const std::filesystem::path& folder, std::string name)
      : Checkpoint(folder),
        folder_(weights::open_checkpoint(folder, weights::Contents::no_weights)),
        name_(std::move(name)),
        role_(role_of(name_)) {}

  [[nodiscard]] Format format() const override { return Format::safetensors; }

  [[nodiscard]] std::optional<std::string> file(std::string_view name) const override {
    const bool is_half = role_ == "vocab.json" && name == "merges.txt";
    if (is_half || is_one_of(name, kBeside)) return folder_->file(name);
    if (name != role_) return std::nullopt;
    return folder_->file(role_ == "vocab.json" ? role_ : name_);
  }

  [[nodiscard]] std::vector<std::string> file_names(std::string_view begin,
                                                    std::string_view end) const override {
    const bool is_meant = name_ == role_ && name_.size() >= begin.size() + end.size() &&
                          name_.starts_with(begin) && name_.ends_with(end);
    return is_meant ? std::vector{name_} : std::vector<std::string>();
  }

 private:
  std::unique_ptr<const weights::Checkpoint> folder_;
  std::string name_;
  std::string role_;
};

}  // namespace

bool is_vocabulary_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (role_of(path.filename().string()).empty() ||
      !std::filesystem::is_regular_file(path, ignored)) {
    return false;
  }
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) != "GGUF";
}

std::unique_ptr<const weights::Checkpoint> api::open_vocabulary(const std::filesystem::path& path) {
  if (!is_vocabulary_file(path)) return open_model(path, weights::Contents::no_weights);
  const auto folder = path.parent_path();
  return std::make_unique<LoneVocabulary>(folder.empty() ? "." : folder, path.filename().string());
}

}  // namespace hasten
