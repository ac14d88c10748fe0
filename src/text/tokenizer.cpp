// SPDX-License-Identifier: Apache-2.0
// Puts vocabulary, added tokens and the encoder of its kind together.
#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/added_tokens.h"
#include "text/nfc.h"
#include "text/pre_tokenizer.h"
#include "text/segment_encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace hasten::text {
namespace {

// Names under which published models end a turn or an answer; files often declare only one of them.
constexpr std::string_view kEndNames[] = {
    "<|endoftext|>",   "<|end_of_text|>", "<|im_end|>",
    "<|eot_id|>",      "<|eom_id|>",      "<|end|>",
    "<|end_of_turn|>", "<end_of_turn>",   "<end_of_utterance>",
    "<|return|>",      "<|call|>",        "<EOT>",
    "[EOT]",           "[EOS]",           "<|eot|>",
    "<|eom|>",         "<turn|>",         "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};
// Names that open a turn. With kEndNames, what would let a user forge a role: control tokens
// whatever type their file gives them.
constexpr std::string_view kTurnNames[] = {
    "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
    "<|user|>",     "<|assistant|>",       "<|system|>",        "<|turn>",
};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_id(const char* role, int32_t id, size_t vocab_size) {
  if (id < -1 || (id >= 0 && static_cast<size_t>(id) >= vocab_size)) {
    fail(ErrorCode::invalid_data, "the {} token {} is outside the vocabulary of {} tokens", role,
         id, vocab_size);
  }
}

// Checks the ids of `spec` and gives the tokens that steer a conversation the type that they need.
void check_and_type_roles(TokenizerSpec& spec) {
  const size_t size = spec.tokens.size();
  check_id("bos", spec.bos, size);
  check_id("eos", spec.eos, size);
  check_id("eot", spec.eot, size);
  check_id("unk", spec.unk, size);
  check_id("pad", spec.pad, size);
  if (spec.types.empty()) spec.types.assign(size, static_cast<int32_t>(TokenType::normal));
  if (spec.types.size() != size) return;  // Vocabulary says so
  for (size_t i = 0; i < size; ++i) {
    if (is_one_of(kEndNames, spec.tokens[i]) || is_one_of(kTurnNames, spec.tokens[i])) {
      spec.types[i] = static_cast<int32_t>(TokenType::control);
    }
  }
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec) : bos_(spec.bos), eos_(spec.eos) {
  check_and_type_roles(spec);
  vocabulary_ = std::make_unique<Vocabulary>(spec);
  added_tokens_ = std::make_unique<AddedTokens>(spec, *vocabulary_);
  if (spec.kind == TokenizerKind::bpe) {
    encoder_ = make_byte_level_bpe(spec, *vocabulary_);
    const PreTokenizer* implied = spec.pre_steps ? nullptr : &find_pre_tokenizer(spec.pre);
    add_bos_ = spec.add_bos.value_or(implied != nullptr && implied->add_bos);
    normalize_nfc_ = spec.normalize_nfc.value_or(implied != nullptr && implied->normalize_nfc);
    adds_space_prefix_ = false;
  } else {
    encoder_ = spec.kind == TokenizerKind::spm ? make_sentencepiece_bpe(spec, *vocabulary_)
                                               : make_sentencepiece_unigram(spec, *vocabulary_);
    add_bos_ = spec.add_bos.value_or(true);
    normalize_nfc_ = spec.normalize_nfc.value_or(false);
    adds_space_prefix_ = spec.space_prefix.value_or(SpacePrefix::every) != SpacePrefix::none;
  }
  add_bos_ = add_bos_ && bos_ >= 0;
  add_eos_ = spec.add_eos.value_or(false) && eos_ >= 0;

  end_of_generation_.resize(static_cast<size_t>(vocab_size()));
  for (const int32_t id : {spec.eos, spec.eot}) {
    if (id >= 0) end_of_generation_[static_cast<size_t>(id)] = true;
  }
  for (const std::string_view name : kEndNames) {
    const std::optional<int32_t> id = added_tokens_->find(name);
    if (id) end_of_generation_[static_cast<size_t>(*id)] = true;
  }
}

Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long to tokenize; the limit is {}",
         text.size(), std::numeric_limits<int32_t>::max() - 1);
  }
  const ControlFilter filter(options.parse_special, options.literal, text.size());
  std::vector<int32_t> tokens;
  if (options.add_special && add_bos_) tokens.push_back(bos_);
  for (size_t at = 0; at < text.size();) {
    const std::optional<AddedTokens::Match> added = added_tokens_->next(text, at, filter);
    const size_t segment_end = added ? added->begin : text.size();
    if (segment_end > at) {
      encode_segment(text.substr(at, segment_end - at), /*starts_text=*/at == 0, tokens);
    }
    if (added) tokens.push_back(added->id);
    at = added ? added->end : text.size();
  }
  if (options.add_special && add_eos_) tokens.push_back(eos_);
  return tokens;
}

void Tokenizer::encode_segment(std::string_view segment, bool starts_text,
                               std::vector<int32_t>& tokens) const {
  std::string normalized;
  if (normalize_nfc_ && !is_nfc_stable(segment)) {
    normalized = to_nfc(segment);
    segment = normalized;
  }
  encoder_->encode({.text = segment, .starts_text = starts_text}, tokens);
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, bool keep_special) const {
  // What a Detokenizer does token by token, with one look at the UTF-8 of the whole.
  std::string bytes;
  bytes.reserve(8 * tokens.size());
  bool strip_space = adds_space_prefix_;
  for (const int32_t token : tokens) {
    vocabulary_->check(token);
    if (!keep_special && vocabulary_->is_special(token)) continue;
    std::string_view piece = vocabulary_->bytes(token);
    if (strip_space && !piece.empty()) {
      if (piece.front() == ' ') piece.remove_prefix(1);
      strip_space = false;
    }
    bytes.append(piece);
  }
  Utf8Assembler assembler;
  std::string text;
  text.reserve(bytes.size());
  assembler.append(bytes, text);
  assembler.flush(text);
  return text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  vocabulary_->check(id);
  return vocabulary_->bytes(id);
}

bool Tokenizer::is_special(int32_t id) const {
  vocabulary_->check(id);
  return vocabulary_->is_special(id);
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  vocabulary_->check(id);
  return end_of_generation_[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::find(std::string_view piece) const {
  const std::optional<int32_t> added = added_tokens_->find(piece);
  return added ? added : vocabulary_->find_spelling(piece);
}

int32_t Tokenizer::vocab_size() const { return vocabulary_->size(); }

std::unique_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec) {
  return std::make_unique<const Tokenizer>(std::move(spec));
}

}  // namespace hasten::text
