// SPDX-License-Identifier: Apache-2.0
// Opens models, and reads chat templates out of GGUF metadata and Hugging Face folders.
#include "api/model_files.h"

#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/fetched_file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "models/model.h"
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

constexpr std::string_view kDefault = "default";

/// The template in a field that holds either the default's source or a list of {"name",
/// "template"}.
std::string template_of(const json::Value& field, std::string_view wanted) {
  if (const auto* source = field.if_string()) {
    return wanted == kDefault ? std::string(*source) : std::string();
  }
  const auto* choices = field.if_array();
  if (choices == nullptr) return {};
  for (const json::Value& choice : *choices) {
    const auto* object = choice.if_object();
    if (object == nullptr) continue;
    const auto* name = object->if_contains("name");
    const auto* source = object->if_contains("template");
    if (name != nullptr && name->is_string() && name->as_string() == wanted && source != nullptr &&
        source->is_string()) {
      return std::string(source->as_string());
    }
  }
  return {};
}

/// Tells of a field that should hold a default template and does not.
void warn_of_no_template(const json::Value& field, const std::string& file) {
  if (field.is_null() || !template_of(field, kDefault).empty() ||
      (field.is_string() && field.get_string().empty())) {
    return;
  }
  log::warn("chat_template in {} {}: chats are written as ChatML", cleaned(file),
            field.is_array() ? "is a list without one that is called default"
                             : "is neither a string nor a list of templates");
}

/// A GGUF file's template. Some carry the name of one instead, which would be the same prompt
/// whatever anyone asks.
std::string source_of(std::string_view given, const std::string& file) {
  const bool is_template =
      given.find("{{") != std::string_view::npos || given.find("{%") != std::string_view::npos;
  if (is_template || given.empty()) return std::string(given);
  const std::string_view known = text::named_template(given);
  if (known.empty()) {
    log::warn(
        "{}: tokenizer.chat_template is {}, which is no template: chats are written as ChatML",
        cleaned(file), printable(given));
  } else {
    log::info("{}: tokenizer.chat_template is {}: chats are written as that model's", cleaned(file),
              printable(given));
  }
  return std::string(known);
}

/// Throws Error{invalid_data} for bytes that no text has.
void check_is_utf8_text(std::string_view file, std::string_view path) {
  if (const size_t zero = file.find('\0'); zero != std::string_view::npos) {
    fail(ErrorCode::invalid_data,
         "{} has a NUL byte at {}: it is damaged, or no text but a binary file; fetch it again",
         path, zero);
  }
  for (size_t at = 0; at < file.size();) {
    const text::Utf8Char next = text::decode_utf8(file.substr(at));
    if (!next.valid) {
      fail(ErrorCode::invalid_data, "{} is not UTF-8: byte 0x{:02X} at {}; save it as UTF-8", path,
           static_cast<uint8_t>(file[at]), at);
    }
    at += next.length;
  }
}

}  // namespace

std::string cleaned(std::string_view given) {
  std::string result;
  while (!given.empty()) {
    const text::Utf8Char next = text::decode_utf8(given);
    const bool is_control = text::char_properties(next.code_point).category == text::Category::cc;
    text::append_utf8(result, is_control ? text::kReplacementChar : next.code_point);
    given.remove_prefix(next.length);
  }
  return result;
}

std::unique_ptr<const weights::Checkpoint> open_model(const std::filesystem::path& path,
                                                      weights::Contents contents) {
  if (!path.empty()) {
    std::error_code ignored;
    if (contents == weights::Contents::everything && std::filesystem::is_directory(path, ignored)) {
      // A model that cannot run is told of before its files are missed.
      const auto described = weights::open_checkpoint(path, weights::Contents::no_weights);
      if (described->config() != nullptr) models::check_supported(*described);
    }
    auto model = weights::open_checkpoint(path, contents);
    if (contents == weights::Contents::everything && model->tensors().empty()) {
      const bool has_tokenizer = model->metadata().contains("tokenizer.ggml.model");
      fail(ErrorCode::invalid_data,
           "{} holds {}no weights: it is no model to run; {}fetch a whole one", path.string(),
           has_tokenizer ? "a tokenizer and " : "",
           has_tokenizer ? "tokenize, detokenize and inspect take it as it is; " : "");
    }
    return model;
  }
  return weights::open_gguf(std::as_bytes(std::span(hasten_tiny_gguf, hasten_tiny_gguf_end)),
                            "hasten-tiny");
}

std::string template_text(std::string_view file, std::string_view path) {
  check_is_no_utf16(file, path);
  check_is_utf8_text(file, path);
  return std::string(without_byte_order_mark(file));
}

bool is_blank(std::string_view source) {
  return source.find_first_not_of(" \n\r\t") == std::string_view::npos;
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

ChatTemplateSource read_chat_template(const weights::Checkpoint& checkpoint,
                                      std::string_view name) {
  if (checkpoint.format() == weights::Checkpoint::Format::gguf) {
    std::string key = "tokenizer.chat_template";
    if (name != kDefault) key.append(".").append(name);
    const std::string_view given = checkpoint.metadata().get_string(key, "");
    return {name == kDefault ? source_of(given, checkpoint.path().string()) : std::string(given),
            key};
  }
  if (const auto file = checkpoint.file("chat_template.jinja")) {
    ChatTemplateSource source{.text = {}, .place = "chat_template.jinja"};
    try {
      source.text = template_text(*file, (checkpoint.path() / "chat_template.jinja").string());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      source.fault = error.what();
    }
    if (!is_blank(source.text) || !source.fault.empty())
      return name == kDefault ? source : ChatTemplateSource();
    if (name == kDefault) {
      log::warn("{} is empty, and not used: fetch it again, or remove it",
                cleaned((checkpoint.path() / "chat_template.jinja").string()));
    }
  }
  for (const char* file : {"chat_template.json", "tokenizer_config.json"}) {
    const auto content = checkpoint.file(file);
    if (!content) continue;
    const std::string path = (checkpoint.path() / file).string();
    const json::Value parsed = json::parse(*content, path, kTokenizerJsonLimits);
    if (const auto* object = parsed.if_object()) {
      if (const auto* field = object->if_contains("chat_template")) {
        if (name == kDefault) warn_of_no_template(*field, path);
        return {template_of(*field, name), file};
      }
    }
  }
  return {};
}

}  // namespace hasten::api
