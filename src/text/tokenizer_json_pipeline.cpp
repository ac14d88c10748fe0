// SPDX-License-Identifier: Apache-2.0
// Recognises the component chains of published tokenizer.json files.
#include "text/tokenizer_json_pipeline.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "text/tokenizer_json_fields.h"

namespace hasten::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\u2581";

[[noreturn]] void fail_unsupported(std::string_view what, std::string_view value) {
  constexpr size_t kLongest = 400;  // an expression whole
  fail(ErrorCode::unsupported, "tokenizer.json: {} {} is not supported", what,
       printable(value, kLongest));
}

// The components of one that may be absent, single, or a Sequence, in order.
std::vector<const json::Object*> components(const json::Value& value, std::string_view name,
                                            std::string_view list_name) {
  std::vector<const json::Object*> list;
  if (value.is_null()) return list;
  const json::Object& object = as_object(value, name);
  if (type_of(object) != "Sequence") return {&object};
  for (const json::Value& item : as_array(field(object, list_name), list_name)) {
    list.push_back(&as_object(item, list_name));
  }
  return list;
}

// {"String": …} or {"Regex": …}; the one that is wanted, or empty.
std::string_view pattern(const json::Object& component, std::string_view kind) {
  const json::Value& value = field(as_object(field(component, "pattern"), "pattern"), kind);
  return value.is_null() ? std::string_view() : as_string(value, "pattern");
}

SplitBehavior behavior_of(const json::Object& component) {
  static constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  const json::Value& given = field(component, "behavior");
  const std::string_view name = given.is_null() ? "Isolated" : as_string(given, "behavior");
  for (const auto& [known, behavior] : kBehaviors) {
    if (known == name) return behavior;
  }
  fail_unsupported("the behavior", name);
}

// What the components found so far do.
struct Segmentation {
  bool replaces_spaces = false;  // by U+2581
  bool byte_level = false;
  PreTokenizerSteps steps;
};

void read_normalizer(const json::Object& component, Segmentation& found, TokenizerSpec& spec) {
  const std::string_view type = type_of(component);
  if (type == "NFC") {
    spec.normalize_nfc = true;
  } else if (type == "Prepend" &&
             as_string(field(component, "prepend"), "prepend") == kSpaceSymbol) {
    spec.space_prefix = SpacePrefix::every;
  } else if (type == "Replace" && pattern(component, "String") == " " &&
             as_string(field(component, "content"), "content") == kSpaceSymbol) {
    found.replaces_spaces = true;
  } else {
    fail_unsupported("the normalizer", json::serialize(component));
  }
}

void read_metaspace(const json::Object& component, TokenizerSpec& spec) {
  if (as_string(field(component, "replacement"), "replacement") != kSpaceSymbol ||
      as_bool(field(component, "split"), "split", true)) {
    fail_unsupported("the pre-tokenizer", json::serialize(component));
  }
  const json::Value& given = field(component, "prepend_scheme");
  const bool add_prefix = as_bool(field(component, "add_prefix_space"), "add_prefix_space", true);
  const std::string_view scheme =
      given.is_null() ? (add_prefix ? "always" : "never") : as_string(given, "prepend_scheme");
  spec.space_prefix = scheme == "always"  ? SpacePrefix::every
                      : scheme == "first" ? SpacePrefix::first
                                          : SpacePrefix::none;
  spec.single_space_prefix = true;
}

PreTokenizerStep read_split(const json::Object& split) {
  const json::Value& literal = field(as_object(field(split, "pattern"), "pattern"), "String");
  return {.pattern = std::string(pattern(split, literal.is_null() ? "Regex" : "String")),
          .literal = !literal.is_null(),
          .behavior = behavior_of(split),
          .invert = as_bool(field(split, "invert"), "invert", false)};
}

void read_pre_tokenizer(const json::Object& component, Segmentation& found, TokenizerSpec& spec) {
  const auto flag = [&](const char* name, bool when_absent) {
    return as_bool(field(component, name), name, when_absent);
  };
  const auto append = [&](const PreTokenizerSteps& steps) {
    found.steps.insert(found.steps.end(), steps.begin(), steps.end());
  };
  const std::string_view type = type_of(component);
  if (type == "ByteLevel") {
    found.byte_level = true;
    append(byte_level_steps(flag("add_prefix_space", true), flag("use_regex", true)));
  } else if (type == "Split") {
    // After the normaliser no space may be left to split at.
    if (found.replaces_spaces && pattern(component, "String") == " ") return;
    append({read_split(component)});
  } else if (type == "Digits") {
    append(digits_steps(flag("individual_digits", false)));
  } else if (type == "Punctuation") {
    append(punctuation_steps(behavior_of(component)));
  } else if (type == "Whitespace") {
    append(whitespace_steps());
  } else if (type == "WhitespaceSplit") {
    append(whitespace_split_steps());
  } else if (type == "BertPreTokenizer") {
    append(bert_steps());
  } else if (type == "CharDelimiterSplit") {
    append(char_delimiter_steps(as_string(field(component, "delimiter"), "delimiter")));
  } else if (type == "Metaspace") {
    read_metaspace(component, spec);
    found.replaces_spaces = true;
  } else {
    fail_unsupported("the pre-tokenizer", json::serialize(component));
  }
}

}  // namespace

void read_segmentation(const json::Object& root, TokenizerSpec& spec) {
  Segmentation found;
  spec.normalize_nfc = false;
  spec.space_prefix = SpacePrefix::none;
  for (const json::Object* component :
       components(field(root, "normalizer"), "normalizer", "normalizers")) {
    read_normalizer(*component, found, spec);
  }
  for (const json::Object* component :
       components(field(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers")) {
    read_pre_tokenizer(*component, found, spec);
  }
  if (found.byte_level == found.replaces_spaces || (!found.byte_level && !found.steps.empty())) {
    fail(ErrorCode::unsupported,
         "tokenizer.json: neither byte-level nor SentencePiece-style BPE (pre_tokenizer {})",
         printable(json::serialize(field(root, "pre_tokenizer")), 200));
  }
  spec.kind = found.byte_level ? TokenizerKind::bpe : TokenizerKind::spm;
  if (found.byte_level) spec.pre_steps = std::move(found.steps);
}

void read_post_processor(const json::Object& root, TokenizerSpec& spec) {
  for (const json::Object* component :
       components(field(root, "post_processor"), "post_processor", "processors")) {
    const std::string_view type = type_of(*component);
    if (type == "ByteLevel") continue;
    if (type != "TemplateProcessing") fail_unsupported("the post-processor", type);
    const json::Object& specials = as_object(field(*component, "special_tokens"), "special_tokens");
    bool after_text = false;
    for (const json::Value& item : as_array(field(*component, "single"), "single")) {
      const json::Object& entry = as_object(item, "single");
      if (entry.contains("Sequence")) {
        after_text = true;
        continue;
      }
      const json::Object& special = as_object(field(entry, "SpecialToken"), "SpecialToken");
      const std::string_view name = as_string(field(special, "id"), "SpecialToken.id");
      const json::Array& ids =
          as_array(field(as_object(field(specials, name), name), "ids"), "ids");
      std::optional<bool>& add = after_text ? spec.add_eos : spec.add_bos;
      if (ids.size() != 1 || add.has_value()) fail_unsupported("the post-processor token", name);
      int32_t& id = after_text ? spec.eos : spec.bos;
      id = as_id(ids[0], name, static_cast<int64_t>(spec.tokens.size()));
      add = true;
    }
  }
}

}  // namespace hasten::text
