// SPDX-License-Identifier: Apache-2.0
// Reads tokenizers and chat templates out of GGUF metadata and Hugging Face folders.
#include "api/model_files.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/unicode.h"
#include "text/utf8.h"

extern "C" {
// The linker's names for the bytes of a file. NOLINTBEGIN(readability-identifier-naming)
extern const unsigned char hasten_tiny_gguf[];
extern const unsigned char hasten_tiny_gguf_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace hasten::api {
namespace {

// tokenizer.json of the largest published vocabularies is about 35 MB.
constexpr json::Limits kTokenizerJsonLimits{.max_bytes = int64_t{64} << 20, .max_depth = 64};

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

text::TokenizerSpec spec_from_gguf(const weights::Metadata& metadata) {
  text::TokenizerSpec spec;
  const std::string_view model = metadata.get_string("tokenizer.ggml.model");
  if (model == "gpt2") {
    spec.kind = text::TokenizerKind::bpe;
  } else if (model == "llama") {
    spec.kind = text::TokenizerKind::spm;
  } else {
    fail(ErrorCode::unsupported,
         "tokenizer.ggml.model is {}; this hasten knows \"gpt2\" (byte-level BPE) and \"llama\" "
         "(SentencePiece BPE)",
         printable(model));
  }
  spec.pre = metadata.get_string("tokenizer.ggml.pre", "default");
  for (const std::string_view token : metadata.get_strings("tokenizer.ggml.tokens")) {
    spec.tokens.emplace_back(token);
  }
  const auto num_tokens = std::ssize(spec.tokens);
  if (metadata.contains("tokenizer.ggml.scores")) {
    spec.scores = metadata.get_f32s("tokenizer.ggml.scores", num_tokens);
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
  spec.bos = token_id(metadata, "tokenizer.ggml.bos_token_id");
  spec.eos = token_id(metadata, "tokenizer.ggml.eos_token_id");
  spec.eot = token_id(metadata, "tokenizer.ggml.eot_token_id");
  spec.unk = token_id(metadata, "tokenizer.ggml.unknown_token_id");
  spec.pad = token_id(metadata, "tokenizer.ggml.padding_token_id");
  spec.add_bos = flag(metadata, "tokenizer.ggml.add_bos_token");
  spec.add_eos = flag(metadata, "tokenizer.ggml.add_eos_token");
  if (const auto prefix = flag(metadata, "tokenizer.ggml.add_space_prefix")) {
    spec.space_prefix = *prefix ? text::SpacePrefix::every : text::SpacePrefix::none;
  }
  spec.remove_extra_whitespaces =
      metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  if (metadata.get_string("general.architecture", "") == "phi3") add_phi3_rules(spec);
  return spec;
}

text::TokenizerSpec spec_from_folder(const weights::Checkpoint& checkpoint) {
  if (const auto tokenizer = checkpoint.file("tokenizer.json")) {
    return text::parse_tokenizer_json(*tokenizer,
                                      checkpoint.file("tokenizer_config.json").value_or(""));
  }
  if (const auto model = checkpoint.file("tokenizer.model")) {
    return text::parse_sentencepiece_model(*model);
  }
  fail(ErrorCode::not_found, "{} has neither tokenizer.json nor tokenizer.model",
       checkpoint.path().string());
}

/// The template in a field that holds either its source or a list of {"name", "template"}.
std::string template_of(const json::Value& field) {
  if (const auto* source = field.if_string()) return std::string(*source);
  const auto* choices = field.if_array();
  if (choices == nullptr) return {};
  for (const json::Value& choice : *choices) {
    const auto* object = choice.if_object();
    if (object == nullptr) continue;
    const auto* name = object->if_contains("name");
    const auto* source = object->if_contains("template");
    if (name != nullptr && name->is_string() && name->as_string() == "default" &&
        source != nullptr && source->is_string()) {
      return std::string(source->as_string());
    }
  }
  return {};
}

/// The name as JSON answers and metrics can carry it: U+FFFD for control characters and for bytes
/// that are no UTF-8.
std::string cleaned(std::string_view name) {
  std::string result;
  while (!name.empty()) {
    const text::Utf8Char next = text::decode_utf8(name);
    const bool is_control = text::char_properties(next.code_point).category == text::Category::cc;
    text::append_utf8(result, is_control ? text::kReplacementChar : next.code_point);
    name.remove_prefix(next.length);
  }
  return result;
}

}  // namespace

std::unique_ptr<const weights::Checkpoint> open_model(const std::filesystem::path& path) {
  if (!path.empty()) return weights::open_checkpoint(path);
  return weights::open_gguf(std::as_bytes(std::span(hasten_tiny_gguf, hasten_tiny_gguf_end)),
                            "hasten-tiny");
}

std::string display_name(const weights::Checkpoint& checkpoint) {
  const std::string_view named = checkpoint.metadata().get_string("general.name", "");
  if (!named.empty()) return cleaned(named);
  const auto path = std::filesystem::absolute(checkpoint.path()).lexically_normal();
  const auto leaf = path.has_filename() ? path : path.parent_path();
  return cleaned(checkpoint.format() == weights::Checkpoint::Format::gguf
                     ? leaf.stem().string()
                     : leaf.filename().string());
}

text::TokenizerSpec read_tokenizer_spec(const weights::Checkpoint& checkpoint) {
  return checkpoint.format() == weights::Checkpoint::Format::gguf
             ? spec_from_gguf(checkpoint.metadata())
             : spec_from_folder(checkpoint);
}

std::string read_chat_template(const weights::Checkpoint& checkpoint) {
  if (checkpoint.format() == weights::Checkpoint::Format::gguf) {
    return std::string(checkpoint.metadata().get_string("tokenizer.chat_template", ""));
  }
  if (auto source = checkpoint.file("chat_template.jinja")) return *std::move(source);
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    const auto content = checkpoint.file(name);
    if (!content) continue;
    const json::Value parsed = json::parse(*content, name, kTokenizerJsonLimits);
    if (const auto* object = parsed.if_object()) {
      if (const auto* field = object->if_contains("chat_template")) return template_of(*field);
    }
  }
  return {};
}

}  // namespace hasten::api
