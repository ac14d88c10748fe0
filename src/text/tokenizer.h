// SPDX-License-Identifier: Apache-2.0
// Text to tokens and back: one immutable object for every kind of tokenizer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

struct EncodeOptions {
  bool add_special = true;     // bos and eos, where the model wants them
  bool parse_special = false;  // control tokens written in the text become those tokens
  // Where control tokens are never recognised, not even in part: what a user wrote. Any order. Has
  // no influence on how ordinary text is cut.
  std::span<const TextRange> literal = {};
};

class AddedTokens;
class PartedText;
class SegmentEncoder;
struct Segment;
class TextNormalizer;
class TokenTexts;
class Vocabulary;

/// The vocabulary and how text is cut into it. Const after construction: any thread.
class Tokenizer {
 public:
  /// As make_tokenizer.
  explicit Tokenizer(TokenizerSpec spec);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  /// The tokens of `text`. Malformed UTF-8 goes through byte tokens and comes back from
  /// token_bytes as it was. Time is near-linear in the text. Throws Error{invalid_argument} for a
  /// literal range outside the text, and where normalizers make too much of it (a character map:
  /// Error{invalid_data}).
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            const EncodeOptions& options = {}) const;

  /// The text of `tokens`: invalid UTF-8 becomes U+FFFD, the space that encode puts before a text
  /// is taken away, and a last one where the file says so, control tokens are left out unless
  /// `keep_special`. Throws Error{invalid_argument} for an id outside the vocabulary.
  [[nodiscard]] std::string decode(std::span<const int32_t> tokens,
                                   bool keep_special = false) const;

  /// The bytes that a token stands for (not always whole characters); a control token's name.
  /// Lives as long as the tokenizer. Throws Error{invalid_argument} for an id outside.
  [[nodiscard]] std::string_view token_bytes(int32_t id) const;
  /// Control and unknown tokens: not text that a model says.
  [[nodiscard]] bool is_special(int32_t id) const;
  /// Tokens that end an answer: eos, eot and the known names (<|im_end|>, <|eot_id|>, …).
  [[nodiscard]] bool is_end_of_generation(int32_t id) const;
  /// The id of a token written as in the vocabulary file ("Ġthe", "▁the", "<0x0A>", "<|im_end|>").
  [[nodiscard]] std::optional<int32_t> find(std::string_view piece) const;

  [[nodiscard]] int32_t vocab_size() const;
  /// Those of the spec, and that it has no tokens for some text, or does not say how it cuts words.
  [[nodiscard]] const std::vector<std::string>& doubts() const { return doubts_; }
  /// -1: the model has none.
  [[nodiscard]] int32_t bos() const { return bos_; }
  [[nodiscard]] int32_t eos() const { return eos_; }
  /// Whether encode begins with bos when add_special is set.
  [[nodiscard]] bool adds_bos() const { return add_bos_; }
  /// Whether encode puts a space before a text, which decode takes away.
  [[nodiscard]] bool adds_space_prefix() const { return adds_space_prefix_; }
  /// Whether a space behind the last token is not part of the text.
  [[nodiscard]] bool strips_last_space() const;
  /// Whether a token says nothing right behind itself (CTC).
  [[nodiscard]] bool drops_repeats() const;

 private:
  friend class PartedText;

  /// Calls one of the two for each piece of a text, in order: a stretch to encode, or a token that
  /// the text names. Normalized stretches are put into `keep`; null: they live as long as the call
  /// of on_segment.
  void for_each_piece(std::string_view text, const EncodeOptions& options,
                      std::deque<std::string>* keep,
                      const std::function<void(const Segment&)>& on_segment,
                      const std::function<void(int32_t)>& on_token) const;

  int32_t bos_;
  int32_t eos_;
  bool add_bos_;
  bool add_eos_;
  bool adds_space_prefix_;
  std::vector<int32_t> tokens_before_;  // around every text
  std::vector<int32_t> tokens_after_;
  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const TokenTexts> texts_;  // none: tokens say what the vocabulary spells
  std::unique_ptr<const TextNormalizer> normalizer_;
  std::unique_ptr<const AddedTokens> added_tokens_;
  std::unique_ptr<const AddedTokens> normalized_tokens_;  // none: all are matched as written
  std::unique_ptr<const SegmentEncoder> encoder_;
  std::vector<bool> end_of_generation_;  // [vocab_size]
  std::vector<std::string> doubts_;
};

/// Checks `spec` and builds its tokenizer. Throws Error{invalid_data} for a vocabulary that
/// contradicts itself, Error{unsupported} for an unknown pre-tokenizer, naming the known ones.
[[nodiscard]] std::unique_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec);

}  // namespace hasten::text
