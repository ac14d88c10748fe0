// SPDX-License-Identifier: Apache-2.0
// Reads tokenizers out of GGUF metadata and out of the files of a folder.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/model_files.h"
#include "api/vocabulary_names.h"
#include "base/error.h"
#include "base/fetched_file.h"
#include "base/in_file.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/tokenizer_spec.h"

namespace hasten::api {
namespace {

int32_t token_id(const weights::Metadata& metadata, std::string_view key) {
  const int64_t id = metadata.get_i64(key, -1);
  if (id == UINT32_MAX) return -1;  // converters write "none" as -1 in an unsigned field
  if (id < -1 || id > INT32_MAX) {
    fail(ErrorCode::invalid_data, "{} is {}, which is no token id", key, id);
  }
  return static_cast<int32_t>(id);
}

std::optional<bool> flag(const weights::Metadata& metadata, std::string_view key) {
  if (!metadata.contains(key)) return std::nullopt;
  return metadata.get_bool(key);
}

/// Phi-3's special tokens swallow the white space behind them, which its tokenizer.json says and a
/// GGUF file does not.
void add_phi3_rules(text::TokenizerSpec& spec) {
  for (size_t id = 0; id < std::min(spec.tokens.size(), spec.types.size()); ++id) {
    const std::string& token = spec.tokens[id];
    const bool control = spec.types[id] == static_cast<int32_t>(text::TokenType::control);
    if (token == "</s>" ||
        (control && token != "<unk>" && token != "<s>" && token != "<|endoftext|>")) {
      spec.added_token_rules.push_back({.id = static_cast<int32_t>(id), .rstrip = true});
    }
  }
}

// What a GGUF file's name for a tokenizer means, with the flags that its converter leaves out.
struct GgufKind {
  std::string_view model;
  text::TokenizerKind kind;
  bool add_eos = false;
};
constexpr std::array kGgufKinds = {
    GgufKind{"gpt2", text::TokenizerKind::bpe},
    GgufKind{"llama", text::TokenizerKind::spm},
    GgufKind{"gemma4", text::TokenizerKind::spm},  // with merges
    GgufKind{"t5", text::TokenizerKind::unigram, true},
    GgufKind{"bert", text::TokenizerKind::word_piece, true},
    GgufKind{"rwkv", text::TokenizerKind::rwkv},
};

const GgufKind& gguf_kind(std::string_view model) {
  const auto found = std::find_if(kGgufKinds.begin(), kGgufKinds.end(),
                                  [&](const GgufKind& kind) { return kind.model == model; });
  if (found != kGgufKinds.end()) return *found;
  std::string known;
  for (const GgufKind& kind : kGgufKinds) {
    known.append(known.empty() ? "" : ", ").append(kind.model);
  }
  fail(ErrorCode::unsupported, "tokenizer.ggml.model is {}; this hasten knows {}", printable(model),
       known);
}

void read_tokens(const weights::Metadata& metadata, text::TokenizerSpec& spec) {
  for (const std::string_view token : metadata.get_strings("tokenizer.ggml.tokens")) {
    spec.tokens.emplace_back(token);
  }
  const auto num_tokens = std::ssize(spec.tokens);
  if (metadata.contains("tokenizer.ggml.scores")) {
    const auto scores = metadata.get_f32s("tokenizer.ggml.scores", num_tokens);
    spec.scores.assign(scores.begin(), scores.end());
  }
  if (metadata.contains("tokenizer.ggml.token_type")) {
    for (const int64_t type : metadata.get_i64s("tokenizer.ggml.token_type", num_tokens)) {
      if (type < 0 || type > INT32_MAX) {
        fail(ErrorCode::invalid_data, "tokenizer.ggml.token_type holds {}, which is no type", type);
      }
      spec.types.push_back(static_cast<int32_t>(type));
    }
  }
  if (metadata.contains("tokenizer.ggml.merges")) {
    for (const std::string_view merge : metadata.get_strings("tokenizer.ggml.merges")) {
      spec.merges.emplace_back(merge);
    }
  }
}

void read_roles(const weights::Metadata& metadata, text::TokenizerSpec& spec) {
  spec.bos = token_id(metadata, "tokenizer.ggml.bos_token_id");
  spec.eos = token_id(metadata, "tokenizer.ggml.eos_token_id");
  spec.eot = token_id(metadata, "tokenizer.ggml.eot_token_id");
  spec.unk = token_id(metadata, "tokenizer.ggml.unknown_token_id");
  spec.pad = token_id(metadata, "tokenizer.ggml.padding_token_id");
  spec.add_bos = flag(metadata, "tokenizer.ggml.add_bos_token");
  spec.add_eos = flag(metadata, "tokenizer.ggml.add_eos_token");
}

// The bytes of SentencePiece's character map, which converters write as numbers with a sign or
// without.
std::string precompiled_charsmap(const weights::Metadata& metadata) {
  constexpr const char* kKey = "tokenizer.ggml.precompiled_charsmap";
  constexpr int64_t kMaxBytes = int64_t{16} << 20;  // published ones have 240 kB
  std::string bytes;
  if (!metadata.contains(kKey)) return bytes;
  for (const int64_t value : metadata.get_i64s(kKey, kMaxBytes)) {
    if (value < -128 || value > 255) {
      fail(ErrorCode::invalid_data, "{} holds {}, which is no byte", kKey, value);
    }
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

int32_t find_token(const text::TokenizerSpec& spec, std::string_view text) {
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return found == spec.tokens.end() ? -1 : static_cast<int32_t>(found - spec.tokens.begin());
}

// BERT calls what stands around a text [CLS] and [SEP]. Pieces that begin a word begin with U+2581.
void read_bert(const weights::Metadata& metadata, text::TokenizerSpec& spec) {
  const auto fill = [&](int32_t& role, int32_t given, std::string_view name) {
    if (given >= 0) role = given;
    if (role < 0) role = find_token(spec, name);
  };
  fill(spec.bos, token_id(metadata, "tokenizer.ggml.cls_token_id"), "[CLS]");
  // So do converters spell it.
  fill(spec.eos, token_id(metadata, "tokenizer.ggml.seperator_token_id"), "[SEP]");
  fill(spec.unk, -1, "[UNK]");
  fill(spec.pad, -1, "[PAD]");
  spec.add_bos = spec.add_bos.value_or(true);
  if (const auto add_sep = flag(metadata, "tokenizer.ggml.add_sep_token")) spec.add_eos = add_sep;
  const bool lowercase = metadata.get_bool("tokenizer.ggml.normalizer.lowercase", true);
  spec.normalizers = {
      {.kind = text::NormalizerStep::Kind::bert,
       .strip_accents = metadata.get_bool("tokenizer.ggml.normalizer.strip_accents", lowercase),
       .lowercase = lowercase}};
  spec.max_input_chars_per_word = 100;
  if (spec.types.empty()) {
    spec.types.assign(spec.tokens.size(), static_cast<int32_t>(text::TokenType::normal));
  }
  for (const int32_t id : {spec.bos, spec.eos, spec.unk, spec.pad, find_token(spec, "[MASK]")}) {
    if (id < 0 || id >= std::ssize(spec.types)) continue;
    spec.types[static_cast<size_t>(id)] =
        static_cast<int32_t>(id == spec.unk ? text::TokenType::unknown : text::TokenType::control);
  }
}

text::TokenizerSpec spec_from_gguf(const weights::Metadata& metadata) {
  text::TokenizerSpec spec;
  const GgufKind& known = gguf_kind(metadata.get_string("tokenizer.ggml.model"));
  spec.kind = known.kind;
  spec.pre = metadata.get_string("tokenizer.ggml.pre", "default");
  read_tokens(metadata, spec);
  read_roles(metadata, spec);
  if (known.add_eos) spec.add_eos = spec.add_eos.value_or(true);
  if (known.kind == text::TokenizerKind::unigram) {
    spec.precompiled_charsmap = precompiled_charsmap(metadata);
  }
  if (known.kind == text::TokenizerKind::word_piece) read_bert(metadata, spec);
  if (known.model == "gemma4") {
    spec.space_prefix = text::SpacePrefix::none;
  } else if (const auto prefix = flag(metadata, "tokenizer.ggml.add_space_prefix")) {
    spec.space_prefix = *prefix ? text::SpacePrefix::every : text::SpacePrefix::none;
  }
  if (const auto nfc = flag(metadata, "tokenizer.ggml.normalizer.nfc")) spec.normalize_nfc = nfc;
  spec.remove_extra_whitespaces =
      metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  if (metadata.get_string("general.architecture", "") == "phi3") add_phi3_rules(spec);
  return spec;
}

/// Whether an error is of the last line of `content`.
bool names_last_line(std::string_view message, std::string_view content) {
  constexpr std::string_view kLine = "line ";
  const size_t place = message.find(kLine);
  if (place == std::string_view::npos) return false;
  const std::string_view number = message.substr(place + kLine.size());
  int64_t line = 0;
  (void)std::from_chars(number.data(), number.data() + number.size(), line);
  return line == std::count(content.begin(), content.end(), '\n') + 1;
}

/// The vocab_size of a config.json, or of the text model in it.
std::optional<int64_t> vocab_size_of(const json::Object& config) {
  const json::Object* holder = &config;
  if (const json::Value* inner = config.if_contains("text_config")) {
    if (!config.contains("vocab_size") && inner->is_object()) holder = &inner->get_object();
  }
  const json::Value* given = holder->if_contains("vocab_size");
  const int64_t* vocab_size = given == nullptr ? nullptr : given->if_int64();
  return vocab_size == nullptr ? std::nullopt : std::optional(*vocab_size);
}

// The files of a folder, and what lies beside each vocabulary.
class TokenizerFolder {
 public:
  TokenizerFolder(const weights::Checkpoint& folder, const LoneFile& lone)
      : folder_(folder),
        lone_(lone),
        config_(text("tokenizer_config.json")),
        special_tokens_map_(text("special_tokens_map.json")),
        added_tokens_(text("added_tokens.json")) {}

  text::TokenizerSpec read() const {
    for (const VocabularyName& name : kVocabularyNames) {
      if (const auto file = find(name)) return read(name.format, *file);
    }
    const bool has_pieces = vocabulary("vocab.json").has_value();
    if (has_pieces || vocabulary(kMerges)) {
      fail(ErrorCode::not_found,
           "{} has {} but no {}: the pieces and how they join make a tokenizer together; fetch the "
           "other, too",
           folder_.path().string(), has_pieces ? "vocab.json" : kMerges,
           has_pieces ? kMerges : "vocab.json");
    }
    fail(ErrorCode::not_found, "{} has no tokenizer: looked for {}", folder_.path().string(),
         list_of_vocabulary_names());
  }

 private:
  std::string text(std::string_view name) const { return folder_.file(name).value_or(""); }

  /// Where the file is that was asked for under this name.
  std::string path_of(std::string_view name) const {
    return (folder_.path() / (name == lone_.role ? lone_.name : name)).string();
  }

  // A file without which what it describes cannot be read.
  std::optional<std::string> vocabulary(std::string_view name) const {
    auto content = folder_.file(name);
    if (content && content->empty()) {
      fail(ErrorCode::invalid_data, "{} is empty: fetch it again", path_of(name));
    }
    if (content && !name.ends_with(".model")) {  // which are not text
      check_is_no_utf16(*content, path_of(name));
      content->erase(0, content->size() - without_byte_order_mark(*content).size());
    }
    return content;
  }

  struct File {
    std::string name;
    std::string content;
  };

  /// The file of this name; none: there is none, or it is but half of a vocabulary.
  std::optional<File> find(const VocabularyName& name) const {
    const auto file =
        name.is_pattern ? only_file(name.begin, name.end) : std::optional(std::string(name.begin));
    if (!file) return std::nullopt;
    auto content = vocabulary(*file);
    const bool is_half = name.format == VocabularyFormat::byte_level && !vocabulary(kMerges);
    if (!content || is_half) return std::nullopt;
    return File{*file, *std::move(content)};
  }

  text::TokenizerSpec read(VocabularyFormat format, const File& file) const {
    try {
      text::TokenizerSpec spec = parse(format, file);
      spec.file = path_of(file.name);
      if (format == VocabularyFormat::byte_level) spec.file.append(" with ").append(kMerges);
      return spec;
    } catch (const Error& error) {
      throw Error(error.code(),
                  with_path(error.what(), file.name) + doubt_of_end(error, format, file),
                  error.param());
    }
  }

  text::TokenizerSpec parse(VocabularyFormat format, const File& file) const {
    const auto& [name, content] = file;
    switch (format) {
      case VocabularyFormat::tokenizer_json:
        return text::parse_tokenizer_json(content, config_);
      case VocabularyFormat::tekken_json:
        return text::parse_tekken_json(content);
      case VocabularyFormat::model:
        if (!text::is_tiktoken_ranks(content)) {
          text::TokenizerSpec spec = text::parse_sentencepiece_model(content);
          text::apply_side_files(beside(), spec);
          return spec;
        }
        [[fallthrough]];
      case VocabularyFormat::ranks:
        return text::parse_tiktoken_file(name, content, beside());
      case VocabularyFormat::byte_level:
        return text::parse_vocab_and_merges(content, vocabulary(kMerges).value_or(""), beside());
      case VocabularyFormat::word_piece:
        return text::parse_word_piece_vocabulary(content, beside());
      case VocabularyFormat::rwkv:
        return text::parse_rwkv_vocabulary(content);
    }
    return {};
  }

  /// What is to be added to an error of a file whose end looks as if it was cut there.
  static const char* doubt_of_end(const Error& error, VocabularyFormat format, const File& file) {
    const bool is_lines = format == VocabularyFormat::rwkv || format == VocabularyFormat::ranks ||
                          format == VocabularyFormat::model;
    // Published ones end with a line's end.
    const bool ends_in_line =
        is_lines && !file.content.ends_with('\n') && names_last_line(error.what(), file.content);
    if (ends_in_line) return "; it ends within a line and looks cut: fetch it again";
    const bool ends_in_json = std::string_view(error.what()).ends_with("incomplete JSON");
    return ends_in_json ? "; it looks cut: fetch it again" : "";
  }

  /// The message of a reader, which knows no folder, with the path of the file that it begins with;
  /// of `name` where it begins with none.
  std::string with_path(std::string_view message, std::string_view name) const {
    const auto begins_with = [&](std::string_view file) {
      return message.starts_with(file) && message.size() > file.size() &&
             (message[file.size()] == ':' || message[file.size()] == ' ');
    };
    for (const std::string_view file : {name, kMerges, kSideFiles[0], kSideFiles[1], kSideFiles[2]})
      if (begins_with(file)) return path_of(file).append(message.substr(file.size()));
    return path_of(name).append(": ").append(message);
  }

  text::TokenizerSideFiles beside() const {
    return {.config = config_,
            .special_tokens_map = special_tokens_map_,
            .added_tokens = added_tokens_};
  }

  // The one file whose name begins and ends so, if there is any.
  std::optional<std::string> only_file(std::string_view begin, std::string_view end) const {
    const std::vector<std::string> names = folder_.file_names(begin, end);
    if (names.size() > 1) {
      fail(ErrorCode::invalid_data, "{} has {} and {}; one of them alone is a tokenizer",
           folder_.path().string(), names[0], names[1]);
    }
    return names.empty() ? std::nullopt : std::optional(names.front());
  }

  const weights::Checkpoint& folder_;
  const LoneFile& lone_;
  std::string config_;
  std::string special_tokens_map_;
  std::string added_tokens_;
};

}  // namespace

std::string doubt_of_size(int64_t num_tokens, const json::Object& config) {
  const std::optional<int64_t> vocab_size = vocab_size_of(config);
  // Tables of embeddings are padded, by some hundredths of their rows.
  if (!vocab_size || num_tokens >= *vocab_size - *vocab_size / 10) return {};
  return fmt::format(
      "it has {} tokens, and config.json's vocab_size is {}: its file may be cut, or of another "
      "model; if answers are broken, fetch it again",
      num_tokens, *vocab_size);
}

std::string doubt_of_model(int64_t num_tokens, const weights::Checkpoint& checkpoint) {
  if (const Tensor* table = checkpoint.find("token_embd.weight")) {
    if (table->shape().rank() != 2 || num_tokens - kMaxTokensWithoutEmbedding <= table->dim(0))
      return {};
    return fmt::format(
        "it has {} tokens and the model only {}: they do not belong together, and run and serve "
        "refuse them; fetch both from one place",
        num_tokens, table->dim(0));
  }
  if (checkpoint.config() == nullptr) return {};
  const std::optional<int64_t> vocab_size = vocab_size_of(*checkpoint.config());
  if (vocab_size.value_or(0) <= 0 || num_tokens - kMaxTokensWithoutEmbedding <= *vocab_size)
    return {};
  return fmt::format(
      "it has {} tokens, and config.json's vocab_size is {}: run and serve refuse a model "
      "with so many tokens beyond its embeddings; if its files are of two models, fetch both from "
      "one place",
      num_tokens, *vocab_size);
}

text::TokenizerSpec read_tokenizer_spec(const weights::Checkpoint& checkpoint,
                                        const LoneFile& lone) {
  if (checkpoint.format() != weights::Checkpoint::Format::gguf) {
    text::TokenizerSpec spec = TokenizerFolder(checkpoint, lone).read();
    if (checkpoint.config() == nullptr) return spec;
    std::string doubt = doubt_of_size(std::ssize(spec.tokens), *checkpoint.config());
    if (!doubt.empty()) spec.doubts.push_back(std::move(doubt));
    return spec;
  }
  const std::string file = checkpoint.path().string();
  text::TokenizerSpec spec = in_file(file, [&] { return spec_from_gguf(checkpoint.metadata()); });
  spec.file = file;
  return spec;
}

}  // namespace hasten::api
