// SPDX-License-Identifier: Apache-2.0
// Puts a tokenizer into words.
#include "api/tokenizer_info.h"

#include <algorithm>
#include <string>

#include "base/printable.h"

namespace hasten::api {
namespace {

std::string kind_name(const text::TokenizerSpec& spec) {
  switch (spec.kind) {
    case text::TokenizerKind::bpe:
      return spec.merges_by_rank ? "byte-level BPE, merged by rank" : "byte-level BPE";
    case text::TokenizerKind::spm:
      return "SentencePiece BPE";
    case text::TokenizerKind::unigram:
      return "SentencePiece Unigram";
    case text::TokenizerKind::word_piece:
      return "WordPiece";
    case text::TokenizerKind::rwkv:
      return "RWKV, the longest token first";
    case text::TokenizerKind::character_bpe:
      return "BPE of characters";
    case text::TokenizerKind::word_level:
      return "WordLevel";
  }
  return {};
}

std::string step_name(const text::PreTokenizerStep& step) {
  switch (step.kind) {
    case text::PreTokenizerStep::Kind::split:
      return (step.literal ? "split at the text " : "split by ") + printable(step.pattern);
    case text::PreTokenizerStep::Kind::add_prefix_space:
      return "a space before";
    case text::PreTokenizerStep::Kind::metaspace:
      return "spaces as " + step.pattern;
    case text::PreTokenizerStep::Kind::byte_alphabet:
      return "bytes";
  }
  return {};
}

std::string pre_tokenizer_name(const text::TokenizerSpec& spec) {
  if (!spec.pre_steps) {
    if (spec.kind == text::TokenizerKind::bpe) return spec.pre;
    return spec.kind == text::TokenizerKind::word_piece ? "BERT's words" : "";
  }
  std::string names;
  for (const text::PreTokenizerStep& step : *spec.pre_steps) {
    if (!names.empty()) names += "; ";
    names += step_name(step);
  }
  return names;
}

}  // namespace

TokenizerInfo describe(const text::TokenizerSpec& spec) {
  TokenizerInfo info;
  info.kind = kind_name(spec);
  info.pre_tokenizer = pre_tokenizer_name(spec);
  info.file = spec.file;
  info.eot = spec.eot;
  info.unk = spec.unk;
  info.pad = spec.pad;
  if (info.unk < 0) {
    const auto unknown = std::find(spec.types.begin(), spec.types.end(),
                                   static_cast<int32_t>(text::TokenType::unknown));
    if (unknown != spec.types.end()) info.unk = static_cast<int32_t>(unknown - spec.types.begin());
  }
  return info;
}

void describe(const text::Tokenizer& tokenizer, TokenizerInfo& info) {
  info.bos = tokenizer.bos();
  info.eos = tokenizer.eos();
  // Of what stands around a text, nothing but the encoder has the whole truth.
  const std::vector<int32_t> alone = tokenizer.encode("a", {.add_special = false});
  const std::vector<int32_t> whole = tokenizer.encode("a");
  const auto text = std::search(whole.begin(), whole.end(), alone.begin(), alone.end());
  info.before.assign(whole.begin(), text);
  if (text != whole.end()) info.after.assign(text + std::ssize(alone), whole.end());
}

}  // namespace hasten::api
