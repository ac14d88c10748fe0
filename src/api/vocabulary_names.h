// SPDX-License-Identifier: Apache-2.0
// How the vocabularies of model folders are called: the one list of their names.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace hasten::api {

/// What a vocabulary is read as.
enum class VocabularyFormat {
  tokenizer_json,
  tekken_json,
  model,       // SentencePiece's, or ranks
  byte_level,  // vocab.json, which needs merges.txt beside it
  word_piece,
  ranks,
  rwkv,
};

struct VocabularyName {
  VocabularyFormat format;
  std::string_view begin;
  std::string_view end = {};
  bool is_pattern = false;  // anything, or nothing, stands between the two; else it is `begin`
};

/// In the order in which a folder is searched.
inline constexpr std::array kVocabularyNames = {
    VocabularyName{VocabularyFormat::tokenizer_json, "tokenizer.json"},
    VocabularyName{VocabularyFormat::tekken_json, "tekken.json"},
    VocabularyName{VocabularyFormat::model, "tokenizer.model"},
    VocabularyName{VocabularyFormat::byte_level, "vocab.json"},
    VocabularyName{VocabularyFormat::word_piece, "vocab.txt"},
    VocabularyName{VocabularyFormat::ranks, "", ".tiktoken", true},
    VocabularyName{VocabularyFormat::ranks, "tiktoken.model"},
    VocabularyName{VocabularyFormat::rwkv, "rwkv_vocab_", ".txt", true},
};
inline constexpr std::string_view kMerges = "merges.txt";

/// What may lie beside a vocabulary and belongs to it.
inline constexpr std::array<std::string_view, 3> kSideFiles = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};

/// Whether a file of this name, without its folder, is a whole vocabulary or the chief part of one.
constexpr bool matches(const VocabularyName& name, std::string_view file) {
  if (!name.is_pattern) return file == name.begin;
  return file.size() >= name.begin.size() + name.end.size() && file.starts_with(name.begin) &&
         file.ends_with(name.end);
}

/// "tokenizer.json, …, vocab.json with merges.txt, …, *.tiktoken, … and rwkv_vocab_*.txt"
inline std::string list_of_vocabulary_names() {
  std::string list;
  for (const VocabularyName& name : kVocabularyNames) {
    const bool is_last = &name == &kVocabularyNames.back();
    if (!list.empty()) list += is_last ? " and " : ", ";
    list.append(name.begin).append(name.is_pattern ? "*" : "").append(name.end);
    if (name.format == VocabularyFormat::byte_level) list.append(" with ").append(kMerges);
  }
  return list;
}

}  // namespace hasten::api
