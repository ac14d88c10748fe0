// SPDX-License-Identifier: Apache-2.0
// How vocabulary files write the bytes that a token stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace hasten::text {

/// The byte that a character of GPT-2's printable alphabet stands for ("Ġ" is the space), and back.
[[nodiscard]] std::optional<std::string> from_gpt2_alphabet(std::string_view piece);
/// The same, appended; false, and nothing is, for what is not in the alphabet.
[[nodiscard]] bool append_from_gpt2_alphabet(std::string_view piece, std::string& out);
[[nodiscard]] std::string to_gpt2_alphabet(std::string_view bytes);

inline constexpr std::string_view kSpaceSymbol = "\u2581";  // SentencePiece's space

/// `text` with kSpaceSymbol as a space.
[[nodiscard]] std::string replace_space_symbol(std::string_view text);

/// The bytes of a Python literal between its quotes, and how RWKV's GGUF files write them. Nothing
/// for an escape that Python does not have.
[[nodiscard]] std::optional<std::string> from_python_bytes(std::string_view literal);
[[nodiscard]] std::string to_python_bytes(std::string_view bytes);

/// The rule of one vocabulary. Const after construction: any thread.
class TokenSpelling {
 public:
  explicit TokenSpelling(const TokenizerSpec& spec)
      : kind_(spec.kind), continuing_prefix_(spec.continuing_subword_prefix) {}

  /// Nothing for what does not follow the rule, which stands for itself then.
  [[nodiscard]] std::optional<std::string> bytes_of(std::string_view piece) const;
  /// The same, appended; false, and nothing is, for what does not follow the rule.
  [[nodiscard]] bool append_bytes(std::string_view piece, std::string& out) const;

 private:
  TokenizerKind kind_;
  std::string continuing_prefix_;
};

}  // namespace hasten::text
