// SPDX-License-Identifier: Apache-2.0
// Tokens to text as they are generated: whole characters only, one object per sequence.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace hasten::text {

struct DetokenizerOptions {
  bool show_special = false;  // the names of control tokens, instead of nothing
  // The first token begins a text rather than continuing a prompt: the space that the tokenizer
  // puts before a text is not part of it.
  bool at_text_start = false;
};

/// Turns one sequence's tokens into text. One thread at a time; borrows the tokenizer.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options = {});

  /// The text that token `id` completes: whole UTF-8 characters, perhaps none. Bytes that can be
  /// no character come as U+FFFD, one per maximal subpart (WHATWG Encoding Standard).
  /// Throws Error{invalid_argument} for an id outside the vocabulary.
  [[nodiscard]] std::string append(int32_t id);
  /// The same, appended to `out`.
  void append(int32_t id, std::string& out);

  /// What is held back before a control token: U+FFFD for a character cut short, and before one
  /// that is shown a space; or nothing.
  [[nodiscard]] std::string end_character();
  /// What is held back at the end of the sequence: U+FFFD for a character cut short, or nothing.
  /// A space that the tokenizer leaves out there goes.
  [[nodiscard]] std::string flush();

 private:
  const Tokenizer& tokenizer_;
  DetokenizerOptions options_;
  bool strip_space_;          // the next byte is the first of the text
  bool holds_space_ = false;  // which is not part of the text if nothing follows
  int32_t last_ = -1;         // token
  Utf8Assembler assembler_;
};

}  // namespace hasten::text
