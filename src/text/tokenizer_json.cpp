// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face tokenizer.json files.
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
    const auto text_of = [&](const char* name) {
      const json::Value& value = field(model, name);
      return value.is_null() ? std::string() : std::string(as_string(value, name));
    };
    const json::Value& fuse_unk = field(model, "fuse_unk");
    if (!fuse_unk.is_null()) spec_.fuse_unk = as_bool(fuse_unk, "fuse_unk", false);
    spec_.continuing_subword_prefix = text_of("continuing_subword_prefix");
    spec_.byte_fallback = as_bool(field(model, "byte_fallback"), "byte_fallback", false);
    if (spec_.kind == TokenizerKind::unigram) return read_pieces(model);
    read_vocab(as_object(field(model, "vocab"), "model.vocab"));
    if (spec_.kind == TokenizerKind::word_piece) return read_word_piece(model);
    spec_.end_of_word_suffix = text_of("end_of_word_suffix");
    spec_.ignore_merges = as_bool(field(model, "ignore_merges"), "ignore_merges", false);
    for (const json::Value& merge : as_array(field(model, "merges"), "model.merges")) {
      spec_.merges.push_back(read_merge(merge));
    }
  }

  // {"piece": id, …}
  void read_vocab(const json::Object& vocab) {
    for (const auto& [text, id] : vocab) {
      const std::string_view piece(text.data(), text.size());
      put(as_id(id, piece, max_id_), piece, TokenType::normal);
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
    if (!spec_.byte_fallback) return;
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

  // [["piece", score], …]
  void read_pieces(const json::Object& model) {
    const json::Array& pieces = as_array(field(model, "vocab"), "model.vocab");
    for (size_t i = 0; i < pieces.size(); ++i) {
      const json::Array& pair = as_array(pieces[i], "model.vocab");
      if (pair.size() != 2 || !pair[1].is_number()) fail_field("model.vocab", "a list of scores");
      put(static_cast<int32_t>(i), as_string(pair[0], "model.vocab"), TokenType::normal);
      spec_.scores.push_back(pair[1].to_number<float>());
    }
    const json::Value& unk = field(model, "unk_id");
    if (!unk.is_null()) spec_.unk = as_id(unk, "unk_id", static_cast<int64_t>(pieces.size()));
  }

  void read_word_piece(const json::Object& model) {
    if (spec_.continuing_subword_prefix.empty()) {
      fail(ErrorCode::unsupported,
           "tokenizer.json: a WordPiece model without \"continuing_subword_prefix\" is not "
           "supported");
    }
    const json::Value& longest = field(model, "max_input_chars_per_word");
    spec_.max_input_chars_per_word =
        longest.is_null() ? 100 : as_id(longest, "max_input_chars_per_word", INT32_MAX);
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

void type_unknown_token(TokenizerSpec& spec) {
  if (spec.unk >= 0) {
    int32_t& unk_type = spec.types[static_cast<size_t>(spec.unk)];
    if (unk_type == static_cast<int32_t>(TokenType::normal)) {
      unk_type = static_cast<int32_t>(TokenType::unknown);
    }
  }
}

json::Value parse_config(std::string_view tokenizer_config_json) {
  if (tokenizer_config_json.empty()) return json::Object();
  return json::parse(tokenizer_config_json, "tokenizer_config.json", kLimits);
}

// The lines of a merges.txt, without "#version: 0.2".
std::vector<std::string> read_merge_lines(std::string_view lines) {
  std::vector<std::string> merges;
  bool first = true;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(first && line.starts_with("#version"))) merges.emplace_back(line);
    first = false;
  }
  return merges;
}

// Old files do not name the type.
TokenizerKind kind_of(const json::Object& model) {
  const json::Value& given = field(model, "type");
  const std::string_view type = !given.is_null()                   ? as_string(given, "model.type")
                                : model.contains("merges")         ? "BPE"
                                : field(model, "vocab").is_array() ? "Unigram"
                                                                   : "WordPiece";
  if (type == "BPE") return TokenizerKind::character_bpe;
  if (type == "Unigram") return TokenizerKind::unigram;
  if (type == "WordPiece") return TokenizerKind::word_piece;
  fail(ErrorCode::unsupported, "tokenizer.json: models of type {} are not supported",
       printable(type));
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view tokenizer_json,
                                   std::string_view tokenizer_config_json) {
  const json::Value file = json::parse(tokenizer_json, "tokenizer.json", kLimits);
  const json::Object& root = as_object(file, "tokenizer.json");
  const json::Object& model = as_object(field(root, "model"), "model");
  const json::Value config_file = parse_config(tokenizer_config_json);
  const json::Object& config = as_object(config_file, "tokenizer_config.json");

  TokenizerSpec spec;
  spec.kind = kind_of(model);
  VocabularyReader reader(spec, static_cast<int64_t>(tokenizer_json.size()));
  reader.read_model(model);
  read_segmentation(root, spec);
  reader.read_added_tokens(field(root, "added_tokens"));
  reader.read_added_tokens_decoder(field(config, "added_tokens_decoder"));
  reader.type_byte_tokens();
  read_post_processor(root, spec);
  // Added tokens have no score: none is an ordinary piece.
  if (spec.kind == TokenizerKind::unigram) spec.scores.resize(spec.tokens.size());
  if (spec.unk < 0) spec.unk = id_of_role(spec, field(model, "unk_token"), "model.unk_token");
  read_config(config, spec);
  spec.add_bos = spec.add_bos.value_or(false);
  spec.add_eos = spec.add_eos.value_or(false);
  type_unknown_token(spec);
  return spec;
}

TokenizerSpec parse_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                     std::string_view tokenizer_config_json) {
  const json::Value file = json::parse(vocab_json, "vocab.json", kLimits);
  const json::Value config_file = parse_config(tokenizer_config_json);
  const json::Object& config = as_object(config_file, "tokenizer_config.json");

  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  const json::Value& given = field(config, "tokenizer_class");
  const std::string_view name =
      given.is_null() ? std::string_view() : as_string(given, "tokenizer_class");
  const auto is_of = [&](std::string_view family) { return name.starts_with(family); };
  spec.pre = is_of("Qwen2") ? "qwen2" : "gpt-2";
  const auto file_bytes = static_cast<int64_t>(vocab_json.size() + tokenizer_config_json.size());
  VocabularyReader reader(spec, file_bytes);
  reader.read_vocab(as_object(file, "vocab.json"));
  const bool marks_ends = std::any_of(spec.tokens.begin(), spec.tokens.end(),
                                      [](const auto& token) { return token.ends_with("</w>"); });
  if (marks_ends) {
    fail(ErrorCode::unsupported,
         "vocab.json marks the ends of words with </w>: such a tokenizer needs its tokenizer.json");
  }
  spec.merges = read_merge_lines(merges_txt);
  reader.read_added_tokens_decoder(field(config, "added_tokens_decoder"));
  read_config(config, spec);
  const bool around = is_of("Roberta") || is_of("Bart") || is_of("Longformer");
  spec.add_bos = spec.add_bos.value_or(around);
  spec.add_eos = spec.add_eos.value_or(around);
  // GPT-2's file has only this one special token, and no config with it.
  const auto end = std::find(spec.tokens.begin(), spec.tokens.end(), "<|endoftext|>");
  if (spec.eos < 0 && end != spec.tokens.end()) {
    spec.eos = static_cast<int32_t>(end - spec.tokens.begin());
  }
  type_unknown_token(spec);
  return spec;
}

}  // namespace hasten::text
