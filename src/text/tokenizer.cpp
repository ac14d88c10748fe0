// SPDX-License-Identifier: Apache-2.0
// Puts vocabulary, added tokens and the encoder of its kind together.
#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/in_file.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/segment_encoder.h"
#include "text/text_normalizer.h"
#include "text/token_texts.h"
#include "text/utf8.h"
#include "text/vocabulary.h"
#include "text/vocabulary_doubts.h"

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
// whatever type their file gives them, unless it makes clear that they are ordinary pieces.
constexpr std::string_view kTurnNames[] = {
    "<|im_start|>",       "<|start_header_id|>",     "<|end_header_id|>", "<start_of_turn>",
    "<|user|>",           "<|assistant|>",           "<|system|>",        "<|turn>",
    "<\uFF5CUser\uFF5C>", "<\uFF5CAssistant\uFF5C>",
};

// All of them are in brackets, which few tokens of a vocabulary are.
bool is_role_name(std::string_view name) {
  if (!name.starts_with('<') && !name.starts_with('[')) return false;
  const auto is_in = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return is_in(kEndNames) || is_in(kTurnNames);
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
    const bool is_piece =
        spec.lists_added_tokens && spec.types[i] == static_cast<int32_t>(TokenType::normal);
    if (is_role_name(spec.tokens[i]) && !is_piece) {
      spec.types[i] = static_cast<int32_t>(TokenType::control);
    }
  }
}

std::unique_ptr<const SegmentEncoder> make_encoder(const TokenizerSpec& spec,
                                                   const Vocabulary& vocabulary) {
  switch (spec.kind) {
    case TokenizerKind::bpe:
      return make_byte_level_bpe(spec, vocabulary);
    case TokenizerKind::spm:
      return make_sentencepiece_bpe(spec, vocabulary);
    case TokenizerKind::unigram:
      return make_sentencepiece_unigram(spec, vocabulary);
    case TokenizerKind::word_piece:
      return make_word_piece(spec, vocabulary);
    case TokenizerKind::rwkv:
      return make_rwkv_world(spec, vocabulary);
    case TokenizerKind::character_bpe:
      return make_character_bpe(spec, vocabulary);
    case TokenizerKind::word_level:
      return make_word_level(spec, vocabulary);
  }
  fail(ErrorCode::internal, "tokenizer kind {} is not known", static_cast<int>(spec.kind));
}

NormalizerSteps normalizers_of(const TokenizerSpec& spec, const PreTokenizer* implied) {
  if (spec.normalizers) return *spec.normalizers;
  if (spec.kind == TokenizerKind::word_piece) return {{.kind = NormalizerStep::Kind::bert}};
  if (spec.normalize_nfc.value_or(implied != nullptr && implied->normalize_nfc)) {
    return {{.kind = NormalizerStep::Kind::nfc}};
  }
  return {};
}

std::vector<int32_t> around_text(const std::vector<int32_t>& given, bool add_one, int32_t one,
                                 const Vocabulary& vocabulary) {
  for (const int32_t id : given) {
    check_id("template's", id, static_cast<size_t>(vocabulary.size()));
    if (id < 0) fail(ErrorCode::invalid_data, "the template of the tokenizer names token {}", id);
  }
  if (!given.empty()) return given;
  return add_one ? std::vector<int32_t>{one} : std::vector<int32_t>{};
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec) : bos_(spec.bos), eos_(spec.eos) {
  check_and_type_roles(spec);
  vocabulary_ = std::make_unique<Vocabulary>(spec);
  check_has_tokens(spec, *vocabulary_);
  added_tokens_ = std::make_unique<AddedTokens>(spec, *vocabulary_);
  encoder_ = make_encoder(spec, *vocabulary_);
  const PreTokenizer* implied =
      spec.kind == TokenizerKind::bpe && !spec.pre_steps ? &find_pre_tokenizer(spec.pre) : nullptr;
  const bool sentencepiece = spec.kind == TokenizerKind::spm || spec.kind == TokenizerKind::unigram;
  add_bos_ = spec.add_bos.value_or(implied != nullptr ? implied->add_bos
                                                      : spec.kind == TokenizerKind::spm);
  adds_space_prefix_ = spec.kind == TokenizerKind::word_piece ||
                       spec.kind == TokenizerKind::word_level ||
                       (sentencepiece && spec.space_prefix != SpacePrefix::none);
  if (spec.decoders) {
    texts_ = std::make_unique<TokenTexts>(*spec.decoders, spec, *vocabulary_);
    adds_space_prefix_ = texts_->strips_first_space();
  }
  auto normalizer = std::make_unique<TextNormalizer>(normalizers_of(spec, implied));
  if (!normalizer->empty()) normalizer_ = std::move(normalizer);
  auto normalized_tokens = std::make_unique<AddedTokens>(spec, *vocabulary_, normalizer_.get());
  if (!normalized_tokens->empty()) normalized_tokens_ = std::move(normalized_tokens);
  add_bos_ = add_bos_ && bos_ >= 0;
  add_eos_ = spec.add_eos.value_or(false) && eos_ >= 0;
  tokens_before_ = around_text(spec.tokens_before, add_bos_, bos_, *vocabulary_);
  tokens_after_ = around_text(spec.tokens_after, add_eos_, eos_, *vocabulary_);

  end_of_generation_.resize(static_cast<size_t>(vocab_size()));
  for (const int32_t id : {spec.eos, spec.eot}) {
    if (id >= 0) end_of_generation_[static_cast<size_t>(id)] = true;
  }
  for (const std::string_view name : kEndNames) {
    const std::optional<int32_t> id = added_tokens_->find(name);
    if (id) end_of_generation_[static_cast<size_t>(*id)] = true;
  }

  std::string bytes = doubt_of_bytes(spec, *vocabulary_);
  doubts_ = std::move(spec.doubts);
  if (!bytes.empty()) doubts_.push_back(std::move(bytes));
  if (implied != nullptr && spec.pre == "default") {
    doubts_.emplace_back(
        "it does not name its pre-tokenizer: words are cut as the oldest files had it, which may "
        "not be how this model was trained");
  }
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::for_each_piece(std::string_view text, const EncodeOptions& options,
                               std::deque<std::string>* keep,
                               const std::function<void(const Segment&)>& on_segment,
                               const std::function<void(int32_t)>& on_token) const {
  if (text.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long to tokenize; the limit is {}",
         text.size(), std::numeric_limits<int32_t>::max() - 1);
  }
  // What lies between the tokens that `matcher` finds goes to between(begin, end).
  const auto part = [&](const AddedTokens& matcher, std::string_view whole,
                        const ControlFilter& filter, const auto& between) {
    AddedTokens::Search search(matcher, whole, filter);
    for (size_t at = 0; at < whole.size();) {
      const std::optional<AddedTokens::Match> added = search.next(at);
      const size_t end = added ? added->begin : whole.size();
      if (end > at) between(at, end);
      if (added) on_token(added->id);
      at = added ? added->end : whole.size();
    }
  };
  const ControlFilter filter(options.parse_special, options.literal, text.size());
  const ControlFilter none(false, {}, 0);
  TextNormalizer::Growth growth(text.size());
  part(*added_tokens_, text, filter, [&](size_t begin, size_t end) {
    std::string_view segment = text.substr(begin, end - begin);
    std::string normalized;
    if (normalizer_ && !normalizer_->leaves_alone(segment)) {
      normalized = normalizer_->apply(segment, growth);
      segment = keep != nullptr ? keep->emplace_back(std::move(normalized)) : normalized;
    }
    const bool starts_text = begin == 0;
    if (!normalized_tokens_) {
      on_segment({.text = segment, .starts_text = starts_text});
      return;
    }
    part(*normalized_tokens_, segment, none, [&](size_t from, size_t to) {
      on_segment(
          {.text = segment.substr(from, to - from), .starts_text = starts_text && from == 0});
    });
  });
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> tokens;
  if (options.add_special) tokens = tokens_before_;
  for_each_piece(
      text, options, nullptr, [&](const Segment& segment) { encoder_->encode(segment, tokens); },
      [&](int32_t token) { tokens.push_back(token); });
  if (options.add_special) {
    tokens.insert(tokens.end(), tokens_after_.begin(), tokens_after_.end());
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, bool keep_special) const {
  // What a Detokenizer does token by token, with one look at the UTF-8 of the whole.
  std::string bytes;
  bytes.reserve(8 * tokens.size());
  bool strip_space = adds_space_prefix_;
  int32_t last = -1;
  for (const int32_t token : tokens) {
    vocabulary_->check(token);
    const bool repeats = drops_repeats() && token == last;
    last = token;
    if (repeats || (!keep_special && vocabulary_->is_special(token))) continue;
    std::string_view piece = texts_ ? texts_->bytes(token) : vocabulary_->bytes(token);
    if (strip_space && !piece.empty()) {
      if (piece.front() == ' ') piece.remove_prefix(1);
      strip_space = false;
    }
    bytes.append(piece);
  }
  if (strips_last_space() && bytes.ends_with(' ')) bytes.pop_back();
  Utf8Assembler assembler;
  std::string text;
  text.reserve(bytes.size());
  assembler.append(bytes, text);
  assembler.flush(text);
  return text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  vocabulary_->check(id);
  return texts_ ? texts_->bytes(id) : vocabulary_->bytes(id);
}

bool Tokenizer::is_special(int32_t id) const {
  vocabulary_->check(id);
  return vocabulary_->is_special(id);
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  vocabulary_->check(id);
  return end_of_generation_[static_cast<size_t>(id)];
}

bool Tokenizer::strips_last_space() const { return texts_ && texts_->strips_last_space(); }

bool Tokenizer::drops_repeats() const { return texts_ && texts_->drops_repeats(); }

std::optional<int32_t> Tokenizer::find(std::string_view piece) const {
  std::optional<int32_t> added = added_tokens_->find(piece);
  if (!added && normalized_tokens_) added = normalized_tokens_->find(piece);
  return added ? added : vocabulary_->find_spelling(piece);
}

int32_t Tokenizer::vocab_size() const { return vocabulary_->size(); }

std::unique_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec) {
  const auto make = [&] { return std::make_unique<const Tokenizer>(std::move(spec)); };
  const std::string file = spec.file;
  return file.empty() ? make() : in_file(file, make);
}

}  // namespace hasten::text
