// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face tokenizer.json files whose model is BPE.
#include <algorithm>
#include <charconv>
#include <string>

#include "base/printable.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_json_pipeline.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {
namespace {

// Gemma 3's, the largest published, has 33 MB.
constexpr json::Limits kLimits{.max_bytes = int64_t{128} << 20, .max_depth = 32};

// Fills tokens, types, rules and merges. Ids may leave gaps, but not more than the file's size
// justifies.
class VocabularyReader {
 public:
  VocabularyReader(TokenizerSpec& spec, int64_t file_bytes)
      : spec_(spec), max_id_(file_bytes / kMinEntryBytes) {}

  void read_model(const json::Object& model) {
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json::Value& value = field(model, name);
      if (!value.is_null() && !as_string(value, name).empty()) {
        fail(ErrorCode::unsupported, "tokenizer.json: a model with \"{}\" is not supported", name);
      }
    }
    for (const auto& [text, id] : as_object(field(model, "vocab"), "model.vocab")) {
      const std::string_view piece(text.data(), text.size());
      put(as_id(id, piece, max_id_), piece, TokenType::normal);
    }
    byte_fallback_ = as_bool(field(model, "byte_fallback"), "byte_fallback", false);
    spec_.ignore_merges = as_bool(field(model, "ignore_merges"), "ignore_merges", false);
    for (const json::Value& merge : as_array(field(model, "merges"), "model.merges")) {
      spec_.merges.push_back(read_merge(merge));
    }
  }

  void read_added_token(const json::Object& token, int32_t id) {
    const std::string_view text = as_string(field(token, "content"), "content");
    put(id, text,
        as_bool(field(token, "special"), "special", false) ? TokenType::control
                                                           : TokenType::user_defined);
    const AddedTokenRule rule{
        .id = id,
        .lstrip = as_bool(field(token, "lstrip"), "lstrip", false),
        .rstrip = as_bool(field(token, "rstrip"), "rstrip", false),
        .single_word = as_bool(field(token, "single_word"), "single_word", false)};
    if (rule.lstrip || rule.rstrip || rule.single_word) spec_.added_token_rules.push_back(rule);
  }

  void read_added_tokens(const json::Value& list) {
    if (list.is_null()) return;
    for (const json::Value& item : as_array(list, "added_tokens")) {
      const json::Object& token = as_object(item, "added_tokens");
      read_added_token(token, as_id(field(token, "id"), "added_tokens", max_id_));
    }
  }

  // {"32000": {"content": …}}: those that tokenizer.json does not have.
  void read_added_tokens_decoder(const json::Value& value) {
    if (value.is_null()) return;
    for (const auto& [key, token] : as_object(value, "added_tokens_decoder")) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= max_id_) {
        fail(ErrorCode::invalid_data, "tokenizer_config.json: added token {} is no id",
             printable({key.data(), key.size()}));
      }
      if (!is_present(id)) read_added_token(as_object(token, "added_tokens_decoder"), id);
    }
  }

  void type_byte_tokens() {
    if (!byte_fallback_) return;
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      const std::string_view text = spec_.tokens[i];
      if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
          spec_.types[i] == static_cast<int32_t>(TokenType::normal)) {
        spec_.types[i] = static_cast<int32_t>(TokenType::byte);
      }
    }
  }

 private:
  bool is_present(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return i < present_.size() && present_[i];
  }

  void put(int32_t id, std::string_view text, TokenType type) {
    const auto i = static_cast<size_t>(id);
    if (i >= spec_.tokens.size()) {
      spec_.tokens.resize(i + 1);
      spec_.types.resize(i + 1, static_cast<int32_t>(TokenType::unused));
      present_.resize(i + 1);
    }
    if (present_[i] && spec_.tokens[i] != text) {
      fail(ErrorCode::invalid_data, "tokenizer.json: id {} is {} and also {}", id,
           printable(spec_.tokens[i]), printable(text));
    }
    present_[i] = true;
    spec_.tokens[i] = text;
    spec_.types[i] = static_cast<int32_t>(type);
  }

  // "left right", or since 2024 ["left", "right"].
  static std::string read_merge(const json::Value& merge) {
    if (merge.is_string()) return std::string(as_string(merge, "model.merges"));
    const json::Array& pair = as_array(merge, "model.merges");
    if (pair.size() != 2) fail_field("model.merges", "a list of pairs");
    return std::string(as_string(pair[0], "model.merges")) + ' ' +
           std::string(as_string(pair[1], "model.merges"));
  }

  static constexpr int64_t kMinEntryBytes = 4;  // of a vocabulary entry

  TokenizerSpec& spec_;
  int64_t max_id_;
  std::vector<bool> present_;  // by id
  bool byte_fallback_ = false;
};

// The id of a token that is given by its text, as a string or as {"content": …}; -1 without one.
int32_t id_of_role(const TokenizerSpec& spec, const json::Value& value, std::string_view role) {
  if (value.is_null()) return -1;
  const std::string_view text =
      as_string(value.is_object() ? field(value.get_object(), "content") : value, role);
  // Added tokens stand at the end, and hide an ordinary one of the same text.
  const auto found = std::find(spec.tokens.rbegin(), spec.tokens.rend(), text);
  return found == spec.tokens.rend() ? -1 : static_cast<int32_t>(spec.tokens.rend() - found) - 1;
}

void read_config(const json::Object& config, TokenizerSpec& spec) {
  const auto take_role = [&](const char* name, int32_t& id) {
    const int32_t given = id_of_role(spec, field(config, name), name);
    if (given >= 0) id = given;
  };
  take_role("bos_token", spec.bos);
  take_role("eos_token", spec.eos);
  take_role("unk_token", spec.unk);
  take_role("pad_token", spec.pad);
  const json::Value& add_bos = field(config, "add_bos_token");
  const json::Value& add_eos = field(config, "add_eos_token");
  if (!add_bos.is_null()) spec.add_bos = as_bool(add_bos, "add_bos_token", false);
  if (!add_eos.is_null()) spec.add_eos = as_bool(add_eos, "add_eos_token", false);
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view tokenizer_json,
                                   std::string_view tokenizer_config_json) {
  const json::Value file = json::parse(tokenizer_json, "tokenizer.json", kLimits);
  const json::Object& root = as_object(file, "tokenizer.json");
  const json::Object& model = as_object(field(root, "model"), "model");
  const json::Value& type = field(model, "type");
  if (!type.is_null() && as_string(type, "model.type") != "BPE") {
    fail(ErrorCode::unsupported, "tokenizer.json: models of type {} are not supported",
         printable(as_string(type, "model.type")));
  }
  json::Value config_file = json::Object();
  if (!tokenizer_config_json.empty()) {
    config_file = json::parse(tokenizer_config_json, "tokenizer_config.json", kLimits);
  }
  const json::Object& config = as_object(config_file, "tokenizer_config.json");

  TokenizerSpec spec;
  read_segmentation(root, spec);
  VocabularyReader reader(spec, static_cast<int64_t>(tokenizer_json.size()));
  reader.read_model(model);
  reader.read_added_tokens(field(root, "added_tokens"));
  reader.read_added_tokens_decoder(field(config, "added_tokens_decoder"));
  reader.type_byte_tokens();
  read_post_processor(root, spec);
  spec.unk = id_of_role(spec, field(model, "unk_token"), "model.unk_token");
  read_config(config, spec);
  spec.add_bos = spec.add_bos.value_or(false);
  spec.add_eos = spec.add_eos.value_or(false);
  if (spec.unk >= 0) {
    int32_t& unk_type = spec.types[static_cast<size_t>(spec.unk)];
    if (unk_type == static_cast<int32_t>(TokenType::normal)) {
      unk_type = static_cast<int32_t>(TokenType::unknown);
    }
  }
  return spec;
}

}  // namespace hasten::text
