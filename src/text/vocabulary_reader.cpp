// SPDX-License-Identifier: Apache-2.0
// Checks each id against the size of its file before anything is allocated for it.
#include "text/vocabulary_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "text/tokenizer_json_fields.h"

namespace hasten::text {
namespace {

constexpr int64_t kMinEntryBytes = 4;  // of a vocabulary entry
// Ids that no file has to list, such as those of a family's special tokens.
constexpr int64_t kUnlistedIds = 512;

}  // namespace

VocabularyReader::VocabularyReader(TokenizerSpec& spec, int64_t file_bytes)
    : spec_(spec), max_id_(std::ssize(spec.tokens) + kUnlistedIds + file_bytes / kMinEntryBytes) {
  spec.types.resize(spec.tokens.size(), static_cast<int32_t>(TokenType::normal));
  for (const int32_t type : spec.types) {
    present_.push_back(type != static_cast<int32_t>(TokenType::unused));
  }
}

bool VocabularyReader::has(int32_t id) const {
  const auto i = static_cast<size_t>(id);
  return i < present_.size() && present_[i];
}

void VocabularyReader::put(int32_t id, std::string_view text, TokenType type) {
  const auto i = static_cast<size_t>(id);
  if (i >= spec_.tokens.size()) {
    spec_.tokens.resize(i + 1);
    spec_.types.resize(i + 1, static_cast<int32_t>(TokenType::unused));
    present_.resize(i + 1);
  }
  if (present_[i] && spec_.tokens[i] != text) {
    fail(ErrorCode::invalid_data, "id {} is {} and also {}", id, printable(spec_.tokens[i]),
         printable(text));
  }
  present_[i] = true;
  spec_.tokens[i] = text;
  spec_.types[i] = static_cast<int32_t>(type);
}

void VocabularyReader::read_vocab(const json::Object& vocab) {
  for (const auto& [text, id] : vocab) {
    const std::string_view piece(text.data(), text.size());
    put(as_id(id, piece, max_id_, kOfFileSize), piece, TokenType::normal);
  }
}

void VocabularyReader::read_added_token(const json::Object& token, int32_t id) {
  const auto flag = [&](const char* name) { return as_bool(field(token, name), name, false); };
  const bool special = flag("special");
  const bool beside_model = !has(id);
  put(id, as_string(field(token, "content"), "content"),
      special ? TokenType::control : TokenType::user_defined);
  const AddedTokenRule rule{
      .id = id,
      .lstrip = flag("lstrip"),
      .rstrip = flag("rstrip"),
      .single_word = flag("single_word"),
      .normalized = as_bool(field(token, "normalized"), "normalized", !special),
      .beside_model = beside_model};
  if (!special || rule.lstrip || rule.rstrip || rule.single_word) {
    spec_.added_token_rules.push_back(rule);
  }
}

void VocabularyReader::read_added_tokens(const json::Value& list) {
  if (list.is_null()) return;
  size_t entry = 0;
  for (const json::Value& item : as_array(list, "added_tokens")) {
    const std::string subject = fmt::format("entry {} of added_tokens", entry++);
    const json::Object* token = item.if_object();
    if (token == nullptr) fail(ErrorCode::invalid_data, "{} is not an object", subject);
    read_added_token(*token,
                     as_number(field(*token, "id"), "the id of " + subject, max_id_, kOfFileSize));
  }
}

void VocabularyReader::read_added_tokens_decoder(const json::Value& value) {
  if (value.is_null()) return;
  for (const auto& [key, item] : as_object(value, "added_tokens_decoder")) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= max_id_) {
      fail(ErrorCode::invalid_data, "added token {} is no id", printable({key.data(), key.size()}));
    }
    const json::Object& token = as_object(item, "added_tokens_decoder");
    if (!has(id)) {
      read_added_token(token, id);
      continue;
    }
    const auto i = static_cast<size_t>(id);
    const bool is_same = as_string(field(token, "content"), "content") == spec_.tokens[i];
    const bool is_piece = spec_.types[i] == static_cast<int32_t>(TokenType::normal);
    const bool is_special = as_bool(field(token, "special"), "special", false);
    const bool is_new = is_piece || is_special || std::ranges::binary_search(spec_.never_found, id);
    if (is_same && is_new) read_added_token(token, id);
  }
}

int32_t id_of_role(const TokenizerSpec& spec, const json::Value& value, std::string_view role) {
  if (value.is_null()) return -1;
  const std::string_view text =
      as_string(value.is_object() ? field(value.get_object(), "content") : value, role);
  // Added tokens stand at the end, and hide an ordinary one of the same text.
  const auto found = std::find(spec.tokens.rbegin(), spec.tokens.rend(), text);
  return found == spec.tokens.rend() ? -1 : static_cast<int32_t>(spec.tokens.rend() - found) - 1;
}

void type_unknown_token(TokenizerSpec& spec) {
  if (spec.unk < 0) return;
  int32_t& type = spec.types[static_cast<size_t>(spec.unk)];
  if (type == static_cast<int32_t>(TokenType::normal)) {
    type = static_cast<int32_t>(TokenType::unknown);
  }
}

}  // namespace hasten::text
