// SPDX-License-Identifier: Apache-2.0
// Reads each component by its type.
#include "text/tokenizer_json_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/printable.h"
#include "text/base64.h"
#include "text/tokenizer_json_fields.h"

namespace hasten::text {
namespace {

[[noreturn]] void fail_unsupported(std::string_view what, const json::Object& component) {
  constexpr size_t kLongest = 400;  // an expression whole
  fail(ErrorCode::unsupported, "the {} {} is not supported", what,
       printable(json::serialize(component), kLongest));
}

void append_components(const json::Value& value, std::string_view name, std::string_view list_name,
                       int depth, std::vector<const json::Object*>& list) {
  constexpr int kMaxDepth = 8;  // published files have one Sequence in another at most
  const json::Object& object = as_object(value, name);
  if (type_of(object) != "Sequence") {
    list.push_back(&object);
    return;
  }
  if (depth == kMaxDepth) fail_field(name, "a Sequence of that many levels");
  for (const json::Value& item : as_array(field(object, list_name), list_name)) {
    append_components(item, name, list_name, depth + 1, list);
  }
}

bool flag(const json::Object& component, const char* name, bool when_absent) {
  return as_bool(field(component, name), name, when_absent);
}

std::string text_of(const json::Object& component, const char* name) {
  return std::string(as_string(field(component, name), name));
}

std::string text_or(const json::Object& component, const char* name, const char* when_absent) {
  return field(component, name).is_null() ? when_absent : text_of(component, name);
}

std::string read_base64(std::string_view text, std::string_view name) {
  std::optional<std::string> bytes = decode_base64(text);
  if (!bytes) fail_field(name, "Base64");
  return *std::move(bytes);
}

// {"String": …} or {"Regex": …} into `pattern`; whether it is the former.
bool read_pattern(const json::Object& component, std::string& pattern) {
  const json::Object& given = as_object(field(component, "pattern"), "pattern");
  const json::Value& literal = field(given, "String");
  pattern = as_string(literal.is_null() ? field(given, "Regex") : literal, "pattern");
  return !literal.is_null();
}

NormalizerStep read_bert_normalizer(const json::Object& component) {
  using Kind = NormalizerStep::Kind;
  const bool lowercase = flag(component, "lowercase", true);
  return {.kind = Kind::bert,
          .clean_text = flag(component, "clean_text", true),
          .handle_chinese_chars = flag(component, "handle_chinese_chars", true),
          .strip_accents = flag(component, "strip_accents", lowercase),
          .lowercase = lowercase};
}

NormalizerStep read_normalizer(const json::Object& component) {
  using Kind = NormalizerStep::Kind;
  static constexpr std::pair<std::string_view, Kind> kPlain[] = {
      {"NFC", Kind::nfc},
      {"NFD", Kind::nfd},
      {"NFKC", Kind::nfkc},
      {"NFKD", Kind::nfkd},
      {"Nmt", Kind::nmt},
      {"Lowercase", Kind::lowercase},
      {"StripAccents", Kind::strip_accents},
      {"ByteLevel", Kind::byte_level}};
  const std::string_view type = type_of(component);
  for (const auto& [name, kind] : kPlain) {
    if (name == type) return {.kind = kind};
  }
  if (type == "BertNormalizer") return read_bert_normalizer(component);
  if (type == "Prepend") return {.kind = Kind::prepend, .content = text_of(component, "prepend")};
  if (type == "Strip") {
    return {.kind = Kind::strip,
            .left = flag(component, "strip_left", true),
            .right = flag(component, "strip_right", true)};
  }
  if (type == "Replace") {
    NormalizerStep step{.kind = Kind::replace, .content = text_of(component, "content")};
    step.literal = read_pattern(component, step.pattern);
    return step;
  }
  if (type == "Precompiled") {
    constexpr const char* kMap = "precompiled_charsmap";
    return {.kind = Kind::precompiled,
            .content = read_base64(as_string(field(component, kMap), kMap), kMap)};
  }
  fail_unsupported("normalizer", component);
}

DecoderStep read_strip_decoder(const json::Object& component) {
  constexpr int64_t kMaxCount = 1024;
  const auto count = [&](const char* name) {
    const json::Value& value = field(component, name);
    return value.is_null() ? 0 : as_number(value, name, kMaxCount);
  };
  const std::string content = text_of(component, "content");
  if (content.empty()) fail_field("content", "a character");
  return {.kind = DecoderStep::Kind::strip,
          .content = content,
          .start = count("start"),
          .stop = count("stop")};
}

DecoderStep read_decoder(const json::Object& component) {
  using Kind = DecoderStep::Kind;
  const std::string_view type = type_of(component);
  if (type == "ByteLevel") return {.kind = Kind::byte_level};
  if (type == "ByteFallback") return {.kind = Kind::byte_fallback};
  if (type == "Fuse") return {.kind = Kind::fuse};
  if (type == "Strip") return read_strip_decoder(component);
  if (type == "Metaspace") {
    const json::Value& scheme = field(component, "prepend_scheme");
    const bool prefixed = scheme.is_null() ? flag(component, "add_prefix_space", true)
                                           : as_string(scheme, "prepend_scheme") != "never";
    return {.kind = Kind::metaspace,
            .pattern = text_or(component, "replacement", "\u2581"),
            .prefixed = prefixed};
  }
  if (type == "WordPiece") {
    return {.kind = Kind::word_piece,
            .pattern = text_or(component, "prefix", "##"),
            .cleanup = flag(component, "cleanup", true)};
  }
  if (type == "BPEDecoder") {
    return {.kind = Kind::bpe, .pattern = text_or(component, "suffix", "</w>")};
  }
  if (type == "CTC") {
    return {.kind = Kind::ctc,
            .pattern = text_or(component, "word_delimiter_token", "|"),
            .content = text_or(component, "pad_token", "<pad>"),
            .cleanup = flag(component, "cleanup", true)};
  }
  if (type == "Replace") {
    DecoderStep step{.kind = Kind::replace, .content = text_of(component, "content")};
    if (read_pattern(component, step.pattern)) return step;
  }
  fail_unsupported("decoder", component);  // by a regular expression
}

}  // namespace

std::vector<const json::Object*> json_components(const json::Value& value, std::string_view name,
                                                 std::string_view list_name) {
  std::vector<const json::Object*> list;
  if (!value.is_null()) append_components(value, name, list_name, 0, list);
  return list;
}

NormalizerSteps read_normalizers(const json::Value& normalizer) {
  NormalizerSteps steps;
  for (const json::Object* component : json_components(normalizer, "normalizer", "normalizers")) {
    steps.push_back(read_normalizer(*component));
  }
  return steps;
}

void check_decoders(const json::Value& decoder) {
  constexpr std::array<std::string_view, 9> kKnown = {"BPEDecoder", "ByteFallback", "ByteLevel",
                                                      "CTC",        "Fuse",         "Metaspace",
                                                      "Replace",    "Strip",        "WordPiece"};
  for (const json::Object* component : json_components(decoder, "decoder", "decoders")) {
    const std::string_view type = type_of(*component);
    if (std::find(kKnown.begin(), kKnown.end(), type) != kKnown.end()) continue;
    fail(ErrorCode::unsupported, "the decoder {} is not supported; this hasten knows Sequence, {}",
         printable(type), fmt::join(kKnown, ", "));
  }
}

DecoderSteps read_decoders(const json::Value& decoder) {
  check_decoders(decoder);
  DecoderSteps steps;
  for (const json::Object* component : json_components(decoder, "decoder", "decoders")) {
    steps.push_back(read_decoder(*component));
  }
  return steps;
}

}  // namespace hasten::text
