// SPDX-License-Identifier: Apache-2.0
// Puts a tokenizer into words.
#include "api/tokenizer_info.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
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

/// Fills in what stands around a text, of which nothing but the encoder has the whole truth. False:
/// this text does not tell, as it has no tokens or the same ones as what may stand around it.
bool find_around(std::string_view text, const text::Tokenizer& tokenizer, TokenizerInfo& info) try {
  const std::vector<int32_t> alone = tokenizer.encode(text, {.add_special = false});
  const std::vector<int32_t> whole = tokenizer.encode(text);
  const auto first = std::search(whole.begin(), whole.end(), alone.begin(), alone.end());
  const auto last = std::find_end(whole.begin(), whole.end(), alone.begin(), alone.end());
  if (alone.empty() || first == whole.end() || first != last) return false;
  info.before.assign(whole.begin(), first);
  info.after.assign(first + std::ssize(alone), whole.end());
  return true;
} catch (const Error& error) {
  if (error.code() == ErrorCode::internal) throw;
  return false;  // this text is none that it takes
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
  info.doubts = tokenizer.doubts();
  if (find_around("a", tokenizer, info)) return;
  // A vocabulary of words need not have that one.
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (find_around(tokenizer.decode(std::span(&id, 1)), tokenizer, info)) return;
  }
}

}  // namespace hasten::api
