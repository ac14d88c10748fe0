// SPDX-License-Identifier: Apache-2.0
// Applies the files that lie beside a vocabulary, as transformers does where it has no
// tokenizer.json.
#include "text/tokenizer_side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/in_file.h"
#include "base/printable.h"
#include "text/tokenizer_json_fields.h"
#include "text/vocabulary_reader.h"

namespace hasten::text {
namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                  "cls_token", "sep_token", "mask_token"};

json::Value parse_object(std::string_view text, const char* name) {
  if (text.empty()) return json::Object();
  json::Value value = json::parse(text, name, kTokenizerFileLimits);
  if (!value.is_object()) fail(ErrorCode::invalid_data, "{} is not a JSON object", name);
  return value;
}

void read_roles(const json::Object& file, TokenizerSpec& spec) {
  const auto take = [&](const char* name, int32_t& id) {
    const int32_t given = id_of_role(spec, field(file, name), name);
    if (given >= 0) id = given;
  };
  take("bos_token", spec.bos);
  take("eos_token", spec.eos);
  take("unk_token", spec.unk);
  take("pad_token", spec.pad);
}

// The id under which added_tokens_decoder has a token, or -1.
int32_t id_in_decoder(const json::Object& config, std::string_view text) {
  const json::Object* decoder = field(config, "added_tokens_decoder").if_object();
  if (decoder == nullptr) return -1;
  for (const auto& [key, value] : *decoder) {
    const json::Object* token = value.if_object();
    if (token == nullptr) continue;
    const json::String* content = field(*token, "content").if_string();
    if (content == nullptr || *content != text) continue;
    int32_t id = -1;
    const char* const end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, id);
    if (read.ec == std::errc() && read.ptr == end) return id;
  }
  return -1;
}

std::string doubt_of_role(const json::Object& config, const char* role, int32_t taken,
                          const TokenizerSpec& spec) {
  const json::Value& given = field(config, role);
  if (given.is_null()) return {};
  const std::string_view text =
      as_string(given.is_object() ? field(given.get_object(), "content") : given, role);
  if (text.empty()) return {};
  const bool is_there =
      std::find(spec.tokens.begin(), spec.tokens.end(), text) != spec.tokens.end();
  const int32_t listed = id_in_decoder(config, text);
  const auto spelled = [&](int32_t id) {
    const bool has_token = id >= 0 && id < std::ssize(spec.tokens);
    if (!has_token) return std::string("no token");
    return fmt::format("token {}, {}", id, printable(spec.tokens[static_cast<size_t>(id)]));
  };
  const std::string says = fmt::format("the {} of {} is {}", role, kConfig, printable(text));
  if (is_there && (listed < 0 || listed == taken)) return {};
  const std::string also =
      listed < 0 ? "" : fmt::format(", and which added_tokens_decoder has as {}", listed);
  return fmt::format("{}, which the vocabulary {}{}; {} is taken for it", says,
                     is_there ? "has" : "does not have", also, spelled(taken));
}

}  // namespace

void doubt_roles(const json::Object& config, TokenizerSpec& spec) {
  for (const auto& [role, taken] : {std::pair("bos_token", spec.bos), {"eos_token", spec.eos}}) {
    std::string doubt = doubt_of_role(config, role, taken, spec);
    if (!doubt.empty()) spec.doubts.push_back(std::move(doubt));
  }
}

void read_tokenizer_config(const json::Object& config, TokenizerSpec& spec) {
  read_roles(config, spec);
  const json::Value& add_bos = field(config, "add_bos_token");
  const json::Value& add_eos = field(config, "add_eos_token");
  if (!add_bos.is_null()) spec.add_bos = as_bool(add_bos, "add_bos_token", false);
  if (!add_eos.is_null()) spec.add_eos = as_bool(add_eos, "add_eos_token", false);
}

SideFiles::SideFiles(const TokenizerSideFiles& files)
    : num_bytes_(static_cast<int64_t>(files.config.size() + files.added_tokens.size())),
      config_(parse_object(files.config, kConfig)),
      special_tokens_map_(parse_object(files.special_tokens_map, kMap)),
      added_tokens_(parse_object(files.added_tokens, kAdded)) {
  collect_specials(config());
  collect_specials(special_tokens_map_.get_object());
}

void SideFiles::collect_specials(const json::Object& file) {
  const auto add = [&](const json::Value& token) {
    const json::Value& given = token.is_object() ? field(token.get_object(), "content") : token;
    if (const json::String* text = given.if_string()) specials_.emplace(text->data(), text->size());
  };
  for (const char* role : kRoles) add(field(file, role));
  if (const json::Array* list = field(file, "additional_special_tokens").if_array()) {
    std::for_each(list->begin(), list->end(), add);
  }
}

std::string_view SideFiles::tokenizer_class() const {
  const json::Value& given = field(config(), "tokenizer_class");
  if (given.is_null()) return {};
  return in_file(kConfig, [&] { return as_string(given, "tokenizer_class"); });
}

bool SideFiles::flag(const char* name, bool when_absent) const {
  return in_file(kConfig, [&] { return as_bool(field(config(), name), name, when_absent); });
}

void SideFiles::read_added_tokens(VocabularyReader& reader, TokenizerSpec& spec) const {
  in_file(kConfig,
          [&] { reader.read_added_tokens_decoder(field(config(), "added_tokens_decoder")); });
  in_file(kAdded, [&] {
    for (const auto& [key, value] : added_tokens_.get_object()) {
      const std::string_view text(key.data(), key.size());
      const int32_t id = as_id(value, text, reader.max_id(), kOfFileSize);
      const auto i = static_cast<size_t>(id);
      const bool is_known = reader.has(id) && spec.tokens[i] == text;
      const bool is_piece = is_known && spec.types[i] == static_cast<int32_t>(TokenType::normal);
      if (is_known && !is_piece && !std::ranges::binary_search(spec.never_found, id)) continue;
      const bool special = specials_.contains(text);
      reader.put(id, text, special ? TokenType::control : TokenType::user_defined);
      if (!special) spec.added_token_rules.push_back({.id = id});
    }
  });
}

void SideFiles::type_special_tokens(TokenizerSpec& spec) const {
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.types[i] == static_cast<int32_t>(TokenType::normal) &&
        specials_.contains(spec.tokens[i])) {
      spec.types[i] = static_cast<int32_t>(TokenType::control);
    }
  }
}

void SideFiles::apply(TokenizerSpec& spec) const {
  VocabularyReader reader(spec, num_bytes_);
  read_added_tokens(reader, spec);
  // Without a tokenizer.json, whatever is added is matched before anything is normalized.
  for (AddedTokenRule& rule : spec.added_token_rules) rule.normalized = false;
  // What files beside the model list is looked for as it is written, spaces too.
  std::vector<int32_t> listed;
  listed.reserve(spec.added_token_rules.size());
  for (const AddedTokenRule& rule : spec.added_token_rules) listed.push_back(rule.id);
  std::ranges::sort(listed);
  std::erase_if(spec.never_found,
                [&](int32_t id) { return std::ranges::binary_search(listed, id); });
  if (!spec.scores.empty()) spec.scores.resize(spec.tokens.size());
  in_file(kMap, [&] { read_roles(special_tokens_map_.get_object(), spec); });
  in_file(kConfig, [&] { read_tokenizer_config(config(), spec); });
  type_unknown_token(spec);
  type_special_tokens(spec);
  // A tokenizer that is not "legacy" puts a space before the text only.
  if (spec.space_prefix == SpacePrefix::every) {
    if (!flag("legacy", true)) spec.space_prefix = SpacePrefix::first;
    if (!flag("add_prefix_space", true)) spec.space_prefix = SpacePrefix::none;
  }
}

void apply_side_files(const TokenizerSideFiles& files, TokenizerSpec& spec) {
  const SideFiles beside(files);
  beside.apply(spec);
  doubt_roles(beside.config(), spec);
}

}  // namespace hasten::text
