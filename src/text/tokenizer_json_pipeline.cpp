// SPDX-License-Identifier: Apache-2.0
// Recognises the component chains of published tokenizer.json files.
#include "text/tokenizer_json_pipeline.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "text/token_spelling.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_json_steps.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

[[noreturn]] void fail_unsupported(std::string_view what, std::string_view value) {
  constexpr size_t kLongest = 400;  // an expression whole
  fail(ErrorCode::unsupported, "{} {} is not supported", what, printable(value, kLongest));
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
  bool replaces_spaces = false;  // by U+2581, before the pre-tokenizer
  bool byte_level = false;
  std::optional<PrependScheme> metaspace;
  bool metaspace_only = false;  // and it writes U+2581 and cuts nothing
  PreTokenizerSteps steps;
};

bool is_space_symbol_step(const NormalizerStep& step) {
  return (step.kind == NormalizerStep::Kind::prepend && step.content == kSpaceSymbol) ||
         (step.kind == NormalizerStep::Kind::replace && step.literal && step.pattern == " " &&
          step.content == kSpaceSymbol);
}

void read_metaspace(const json::Object& component, Segmentation& found) {
  const std::string_view replacement = as_string(field(component, "replacement"), "replacement");
  if (replacement.empty() || decode_utf8(replacement).length != replacement.size()) {
    fail(ErrorCode::invalid_data, "Metaspace's replacement {} is not exactly one character",
         printable(replacement));
  }
  const json::Value& given = field(component, "prepend_scheme");
  const bool add_prefix = as_bool(field(component, "add_prefix_space"), "add_prefix_space", true);
  const std::string_view scheme =
      given.is_null() ? (add_prefix ? "always" : "never") : as_string(given, "prepend_scheme");
  const PrependScheme prepend = scheme == "always"  ? PrependScheme::always
                                : scheme == "first" ? PrependScheme::first
                                                    : PrependScheme::never;
  const bool split = as_bool(field(component, "split"), "split", true);
  found.metaspace_only =
      found.steps.empty() && !split && replacement == kSpaceSymbol && !found.metaspace;
  found.metaspace = prepend;
  for (PreTokenizerStep& step : metaspace_steps(replacement, prepend, split)) {
    found.steps.push_back(std::move(step));
  }
}

PreTokenizerStep read_split(const json::Object& split) {
  const json::Value& literal = field(as_object(field(split, "pattern"), "pattern"), "String");
  return {.pattern = std::string(pattern(split, literal.is_null() ? "Regex" : "String")),
          .literal = !literal.is_null(),
          .behavior = behavior_of(split),
          .invert = as_bool(field(split, "invert"), "invert", false)};
}

void read_pre_tokenizer(const json::Object& component, Segmentation& found) {
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
  } else if (type == "FixedLength") {
    constexpr int64_t kLongest = 1000;
    append(fixed_length_steps(as_number(field(component, "length"), "length", kLongest)));
  } else if (type == "Metaspace") {
    read_metaspace(component, found);
  } else {
    fail_unsupported("the pre-tokenizer", json::serialize(component));
  }
}

SpacePrefix space_prefix_of(PrependScheme scheme) {
  return scheme == PrependScheme::always  ? SpacePrefix::every
         : scheme == PrependScheme::first ? SpacePrefix::first
                                          : SpacePrefix::none;
}

// Where the steps are no more than SentencePiece's own, `spec` says so in its terms, which are
// faster: spaces as U+2581, one before the text, nothing cut.
bool is_sentencepiece(const Segmentation& found, TokenizerSpec& spec) {
  NormalizerSteps& steps = *spec.normalizers;
  const auto first = std::find_if(steps.begin(), steps.end(), is_space_symbol_step);
  if (!std::all_of(first, steps.end(), is_space_symbol_step)) return false;
  if (found.metaspace) {
    if (!found.metaspace_only || found.steps.size() != 1 || first != steps.end()) return false;
    spec.space_prefix = space_prefix_of(*found.metaspace);
    spec.single_space_prefix = true;
    return true;
  }
  if (!found.replaces_spaces || !found.steps.empty()) return false;
  const bool prefix = std::any_of(first, steps.end(), [](const NormalizerStep& step) {
    return step.kind == NormalizerStep::Kind::prepend;
  });
  spec.space_prefix = prefix ? SpacePrefix::every : SpacePrefix::none;
  // A token that is matched in normalized text sees the prefix there.
  const bool tokens_see_it =
      prefix && std::any_of(spec.added_token_rules.begin(), spec.added_token_rules.end(),
                            [](const AddedTokenRule& rule) { return rule.normalized; });
  if (tokens_see_it) {
    spec.space_prefix = SpacePrefix::none;
  } else {
    steps.erase(first, steps.end());
  }
  return true;
}

bool has_marks(const TokenizerSpec& spec) {
  return !spec.continuing_subword_prefix.empty() || !spec.end_of_word_suffix.empty();
}

}  // namespace

void read_segmentation(const json::Object& root, TokenizerSpec& spec) {
  Segmentation found;
  spec.space_prefix = SpacePrefix::none;
  spec.normalizers = read_normalizers(field(root, "normalizer"));
  for (const NormalizerStep& step : *spec.normalizers) {
    found.replaces_spaces =
        found.replaces_spaces || (is_space_symbol_step(step) && !step.pattern.empty());
  }
  for (const json::Object* component :
       json_components(field(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers")) {
    read_pre_tokenizer(*component, found);
  }
  if (spec.kind == TokenizerKind::character_bpe && !has_marks(spec)) {
    if (found.byte_level) {
      spec.kind = TokenizerKind::bpe;
    } else if (is_sentencepiece(found, spec)) {
      spec.kind = TokenizerKind::spm;
    }
  }
  spec.words_in_gpt2_alphabet = found.byte_level;
  if (spec.kind != TokenizerKind::spm) spec.pre_steps = std::move(found.steps);
  if (spec.kind != TokenizerKind::bpe && spec.kind != TokenizerKind::spm && found.byte_level &&
      spec.kind != TokenizerKind::character_bpe) {
    fail(ErrorCode::unsupported,
         "a byte-level pre-tokenizer is supported with models of type BPE only");
  }
  const json::Value& decoder = field(root, "decoder");
  if (spec.kind == TokenizerKind::bpe) {
    check_decoders(decoder);  // what those of byte-level vocabularies do is part of the vocabulary
  } else if (!decoder.is_null()) {
    spec.decoders = read_decoders(decoder);
  }
}

namespace {

// ["[CLS]", 101]
int32_t read_named_token(const json::Object& processor, const char* name, int64_t num_tokens) {
  const json::Array& pair = as_array(field(processor, name), name);
  if (pair.size() != 2) fail_field(name, "a token and its id");
  return as_id(pair[1], as_string(pair[0], name), num_tokens, kOfVocabulary);
}

void read_template(const json::Object& processor, TokenizerSpec& spec) {
  const auto num_tokens = static_cast<int64_t>(spec.tokens.size());
  const json::Object& specials = as_object(field(processor, "special_tokens"), "special_tokens");
  bool after_text = false;
  for (const json::Value& item : as_array(field(processor, "single"), "single")) {
    const json::Object& entry = as_object(item, "single");
    if (entry.contains("Sequence")) {
      after_text = true;
      continue;
    }
    const json::Object& special = as_object(field(entry, "SpecialToken"), "SpecialToken");
    const std::string_view name = as_string(field(special, "id"), "SpecialToken.id");
    const json::Value& described = field(specials, name);
    if (described.is_null()) {
      fail(ErrorCode::invalid_data,
           "the post-processor puts {} around texts, which its special_tokens do not have",
           printable(name));
    }
    for (const json::Value& id : as_array(field(as_object(described, name), "ids"), "ids")) {
      (after_text ? spec.tokens_after : spec.tokens_before)
          .push_back(as_id(id, name, num_tokens, kOfVocabulary));
    }
  }
}

// One token is bos or eos, which tokenizer_config.json may take away again.
void move_single(std::vector<int32_t>& tokens, int32_t& role, std::optional<bool>& add) {
  if (tokens.size() != 1) return;
  role = tokens.front();
  add = true;
  tokens.clear();
}

}  // namespace

void read_post_processor(const json::Object& root, TokenizerSpec& spec) {
  const auto num_tokens = static_cast<int64_t>(spec.tokens.size());
  for (const json::Object* component :
       json_components(field(root, "post_processor"), "post_processor", "processors")) {
    const std::string_view type = type_of(*component);
    if (type == "ByteLevel") continue;  // says what offsets are, which nothing here asks
    if (type == "TemplateProcessing") {
      read_template(*component, spec);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      spec.tokens_before.push_back(read_named_token(*component, "cls", num_tokens));
      spec.tokens_after.push_back(read_named_token(*component, "sep", num_tokens));
    } else {
      fail_unsupported("the post-processor", type);
    }
  }
  move_single(spec.tokens_before, spec.bos, spec.add_bos);
  move_single(spec.tokens_after, spec.eos, spec.add_eos);
}

}  // namespace hasten::text
