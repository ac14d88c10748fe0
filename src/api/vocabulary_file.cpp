// SPDX-License-Identifier: Apache-2.0
// Shows a vocabulary's file as a folder that has no other one.
#include "api/vocabulary_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "api/model_files.h"
#include "api/vocabulary_names.h"
#include "base/error.h"
#include "base/fetched_file.h"
#include "base/mapped_file.h"
#include "hasten/tokenizer.h"

namespace hasten {
namespace {

// What else lies beside vocabularies, and what else a model's folder has.
constexpr std::array<std::string_view, 2> kTemplates = {"chat_template.jinja",
                                                        "chat_template.json"};
constexpr std::array<std::string_view, 4> kOthers = {
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"};

bool is_one_of(std::string_view name, auto& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool lies_beside(std::string_view name) {
  return is_one_of(name, api::kSideFiles) || is_one_of(name, kTemplates);
}

bool is_vocabulary_name(std::string_view file) {
  return std::any_of(api::kVocabularyNames.begin(), api::kVocabularyNames.end(),
                     [&](const api::VocabularyName& name) { return matches(name, file); });
}

/// Whether `name` goes on behind ".model" with a version: ".v3", ".v7m1" of a model that sees.
bool has_version(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kMark = ".model.v";
  const size_t mark = name.rfind(kMark);
  if (mark == name.npos) return false;
  name.remove_prefix(mark + kMark.size());
  const auto take_number = [&] {
    const size_t length = std::min(name.find_first_not_of(kDigits), name.size());
    name.remove_prefix(length);
    return length > 0;
  };
  if (!take_number()) return false;
  if (!name.starts_with('m')) return name.empty();
  name.remove_prefix(1);
  return take_number() && name.empty();
}

/// The name under which a file is looked for in a folder; empty: it is no vocabulary.
std::string_view role_of(std::string_view name) {
  const auto has = [name](std::string_view word) { return name.find(word) != name.npos; };
  if (lies_beside(name) || is_one_of(name, kOthers)) return {};
  if (is_vocabulary_name(name)) return name;
  if (name == api::kMerges) return "vocab.json";
  if (name.ends_with(".json") && has("tekken")) return "tekken.json";
  if (name.ends_with(".json") && has("tokenizer")) return "tokenizer.json";
  if (name.ends_with(".model") || has_version(name)) return "tokenizer.model";
  return {};
}

// Neither the folder's config.json nor other vocabularies are looked at: they may be another
// model's, or not be fetched.
class LoneVocabulary final : public weights::Checkpoint {
 public:
  LoneVocabulary(const std::filesystem::path& folder, std::string name)
      : Checkpoint(folder), name_(std::move(name)), role_(role_of(name_)) {}

  [[nodiscard]] Format format() const override { return Format::safetensors; }

  [[nodiscard]] std::optional<std::string> file(std::string_view name) const override {
    const bool is_half = role_ == "vocab.json" && name == api::kMerges;
    if (is_half || lies_beside(name)) return read(name);
    if (name != role_) return std::nullopt;
    return read(role_ == "vocab.json" ? role_ : name_);
  }

  [[nodiscard]] std::vector<std::string> file_names(std::string_view begin,
                                                    std::string_view end) const override {
    const bool is_meant = name_ == role_ && name_.size() >= begin.size() + end.size() &&
                          name_.starts_with(begin) && name_.ends_with(end);
    return is_meant ? std::vector{name_} : std::vector<std::string>();
  }

  [[nodiscard]] api::LoneFile names() const {
    const bool has_own = name_ != role_ && role_ != "vocab.json";
    return has_own ? api::LoneFile{.role = role_, .name = name_} : api::LoneFile();
  }

 private:
  [[nodiscard]] std::optional<std::string> read(std::string_view name) const {
    constexpr size_t kMaxBytes = size_t{64} << 20;  // as in a folder
    const std::filesystem::path file = path() / name;
    std::error_code code;
    if (!std::filesystem::is_regular_file(file, code)) return std::nullopt;
    if (std::filesystem::file_size(file, code) == 0 && !code) return std::string();
    const MappedFile mapped(file);
    if (mapped.bytes().size() > kMaxBytes) {
      fail(ErrorCode::invalid_data, "{} has {} bytes; the limit is {}", file.string(),
           mapped.bytes().size(), kMaxBytes);
    }
    check_is_fetched(mapped.bytes(), file.string());
    return std::string(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  }

  std::string name_;
  std::string role_;
};

}  // namespace

bool has_vocabulary_file(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (is_vocabulary_name(entry.path().filename().string())) return true;
  return false;
}

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

api::OpenVocabulary api::open_vocabulary(const std::filesystem::path& path) {
  if (!is_vocabulary_file(path)) {
    auto model = open_model(path, weights::Contents::no_weights);
    text::TokenizerSpec spec = read_tokenizer_spec(*model);
    // Here and not where engines read it, too: those refuse what this doubts.
    std::string doubt = doubt_of_model(std::ssize(spec.tokens), *model);
    if (!doubt.empty()) spec.doubts.push_back(std::move(doubt));
    return {std::move(model), std::move(spec)};
  }
  const auto folder = path.parent_path();
  auto lone =
      std::make_unique<LoneVocabulary>(folder.empty() ? "." : folder, path.filename().string());
  text::TokenizerSpec spec = read_tokenizer_spec(*lone, lone->names());
  return {std::move(lone), std::move(spec)};
}

}  // namespace hasten
