// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face tokenizer.json files.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/in_file.h"
#include "base/printable.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_json_pipeline.h"
#include "text/tokenizer_side_files.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary_reader.h"

namespace hasten::text {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigName = "tokenizer_config.json";

// "left right", or since 2024 ["left", "right"].
std::string read_merge(const json::Value& merge, size_t entry) {
  if (const json::String* both = merge.if_string()) return {both->data(), both->size()};
  const json::Array* pair = merge.if_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_string()) {
    fail(ErrorCode::invalid_data,
         "entry {} of model.merges is not \"left right\" or a pair of strings", entry);
  }
  return std::string(as_string((*pair)[0], "model.merges")) + ' ' +
         std::string(as_string((*pair)[1], "model.merges"));
}

// [["piece", score], …]
void read_pieces(const json::Object& model, VocabularyReader& reader, TokenizerSpec& spec) {
  const json::Array& pieces = as_array(field(model, "vocab"), "model.vocab");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const json::Array* pair = pieces[i].if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string()) {
      fail(ErrorCode::invalid_data, "entry {} of model.vocab is not a piece and its score", i);
    }
    const std::string_view piece = as_string((*pair)[0], "model.vocab");
    const json::Value& score = (*pair)[1];
    if (!score.is_number()) {
      fail(ErrorCode::invalid_data, "the score of entry {} of model.vocab, {}, is not a number", i,
           printable(piece));
    }
    reader.put(static_cast<int32_t>(i), piece, TokenType::normal);
    spec.scores.push_back(score.to_number<double>());
  }
  const json::Value& unk = field(model, "unk_id");
  if (!unk.is_null())
    spec.unk = as_number(unk, "model.unk_id", static_cast<int64_t>(pieces.size()), kOfVocabulary);
}

void read_word_piece(const json::Object& model, TokenizerSpec& spec) {
  if (spec.continuing_subword_prefix.empty()) {
    fail(ErrorCode::unsupported,
         "a WordPiece model without \"continuing_subword_prefix\" is not supported");
  }
  const json::Value& longest = field(model, "max_input_chars_per_word");
  spec.max_input_chars_per_word =
      longest.is_null() ? 100 : as_number(longest, "max_input_chars_per_word", INT32_MAX);
}

void read_model(const json::Object& model, VocabularyReader& reader, TokenizerSpec& spec) {
  const auto text_of = [&](const char* name) {
    const json::Value& value = field(model, name);
    return value.is_null() ? std::string() : std::string(as_string(value, name));
  };
  const json::Value& fuse_unk = field(model, "fuse_unk");
  if (!fuse_unk.is_null()) spec.fuse_unk = as_bool(fuse_unk, "fuse_unk", false);
  spec.continuing_subword_prefix = text_of("continuing_subword_prefix");
  spec.byte_fallback = as_bool(field(model, "byte_fallback"), "byte_fallback", false);
  if (spec.kind == TokenizerKind::unigram) return read_pieces(model, reader, spec);
  reader.read_vocab(as_object(field(model, "vocab"), "model.vocab"));
  if (spec.kind == TokenizerKind::word_piece) return read_word_piece(model, spec);
  if (spec.kind == TokenizerKind::word_level) return;
  spec.end_of_word_suffix = text_of("end_of_word_suffix");
  spec.ignore_merges = as_bool(field(model, "ignore_merges"), "ignore_merges", false);
  const json::Value& merges = field(model, "merges");
  if (merges.is_null()) fail(ErrorCode::invalid_data, "\"model\" is of type BPE and has no merges");
  for (const json::Value& merge : as_array(merges, "model.merges")) {
    spec.merges.push_back(read_merge(merge, spec.merges.size()));
  }
}

void type_byte_tokens(TokenizerSpec& spec) {
  if (!spec.byte_fallback) return;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string_view text = spec.tokens[i];
    if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
        spec.types[i] == static_cast<int32_t>(TokenType::normal)) {
      spec.types[i] = static_cast<int32_t>(TokenType::byte);
    }
  }
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
  if (type == "WordLevel") return TokenizerKind::word_level;
  fail(ErrorCode::unsupported, "models of type {} are not supported", printable(type));
}

TokenizerSpec read_tokenizer(std::string_view tokenizer_json, const json::Object& config) {
  const json::Value file = json::parse(tokenizer_json, kTokenizerFile, kTokenizerFileLimits);
  TokenizerSpec spec;
  VocabularyReader reader(spec, static_cast<int64_t>(tokenizer_json.size()));
  in_file(kTokenizerFile, [&] {
    const json::Object& root = as_file(file);
    const json::Object& model = as_object(field(root, "model"), "model");
    spec.kind = kind_of(model);
    read_model(model, reader, spec);
    reader.read_added_tokens(field(root, "added_tokens"));
  });
  in_file(kConfigName,
          [&] { reader.read_added_tokens_decoder(field(config, "added_tokens_decoder")); });
  in_file(kTokenizerFile, [&] {
    const json::Object& root = file.get_object();
    const json::Value& unk = field(field(root, "model").get_object(), "unk_token");
    read_segmentation(root, spec);
    type_byte_tokens(spec);
    read_post_processor(root, spec);
    if (spec.unk < 0) spec.unk = id_of_role(spec, unk, "model.unk_token");
  });
  return spec;
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view tokenizer_json,
                                   std::string_view tokenizer_config_json) {
  const SideFiles beside({.config = tokenizer_config_json});
  TokenizerSpec spec = read_tokenizer(tokenizer_json, beside.config());
  // Added tokens have no score: none is an ordinary piece.
  if (spec.kind == TokenizerKind::unigram) spec.scores.resize(spec.tokens.size());
  const int32_t unk = spec.unk;
  in_file(kConfigName, [&] { read_tokenizer_config(beside.config(), spec); });
  spec.unk = unk;  // what the model says: without one, what is unknown goes
  spec.add_bos = spec.add_bos.value_or(false);
  spec.add_eos = spec.add_eos.value_or(false);
  beside.type_special_tokens(spec);
  type_unknown_token(spec);
  spec.lists_added_tokens = true;
  spec.merge_list = MergeList::known;
  doubt_roles(beside.config(), spec);
  return spec;
}

TokenizerSpec parse_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                     const TokenizerSideFiles& files) {
  constexpr const char* kVocabulary = "vocab.json";
  const json::Value file = json::parse(vocab_json, kVocabulary, kTokenizerFileLimits);
  const SideFiles beside(files);
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  const auto is_of = [&](std::string_view family) {
    return beside.tokenizer_class().starts_with(family);
  };
  spec.pre = is_of("Qwen2") ? "qwen2" : "gpt-2";
  if (spec.pre == "gpt-2" && beside.flag("add_prefix_space", false)) {
    spec.pre_steps = byte_level_steps(/*add_prefix_space=*/true, /*use_regex=*/true);
  }
  VocabularyReader reader(spec, static_cast<int64_t>(vocab_json.size()));
  in_file(kVocabulary, [&] { reader.read_vocab(as_file(file)); });
  spec.merges = read_merge_lines(merges_txt);
  // CTRL's vocabulary has "@@" behind what goes on instead, and its merges are followed by counts.
  const auto marks_ends = [](const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(), [](const auto& line) {
      return line.ends_with("</w>") || line.find("</w> ") != std::string::npos;
    });
  };
  for (const auto& [name, pieces] :
       {std::pair(kVocabulary, &spec.tokens), std::pair("merges.txt", &spec.merges)}) {
    if (!marks_ends(*pieces)) continue;
    fail(ErrorCode::unsupported,
         "{} marks the ends of words with </w>: such a tokenizer needs its tokenizer.json", name);
  }
  spec.merge_list = MergeList::whole;
  beside.apply(spec);
  const bool around = is_of("Roberta") || is_of("Bart") || is_of("Longformer");
  spec.add_bos = spec.add_bos.value_or(around);
  spec.add_eos = spec.add_eos.value_or(around);
  // GPT-2's file has only this one special token, and no config with it.
  const auto end = std::find(spec.tokens.begin(), spec.tokens.end(), "<|endoftext|>");
  if (spec.eos < 0 && end != spec.tokens.end()) {
    spec.eos = static_cast<int32_t>(end - spec.tokens.begin());
  }
  doubt_roles(beside.config(), spec);
  return spec;
}

}  // namespace hasten::text
