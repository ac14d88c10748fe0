// SPDX-License-Identifier: Apache-2.0
// Cuts text into the words within which byte-level BPE merges.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "text/pre_tokenizer_steps.h"

namespace hasten::text {

/// The regular expressions that models were trained with, as hand-written scanners.
enum class WordScanner {
  gpt2,         // '(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2_digits,  // each \p{N} alone, and gpt2 on what stands between
  llama3,       // (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
                // \s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,        // llama3 with \p{N} for \p{N}{1,3}
  o200k,        // with L? = [^\r\n\p{L}\p{N}]?, U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and
                // W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]: L?U*W+(?i:'s|…)?|L?U+W*(?i:'s|…)?|\p{N}{1,3}|
                //  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  tekken,       // o200k without (?i:'s|…)? and with \p{N} for \p{N}{1,3}
};

/// What a name in GGUF's tokenizer.ggml.pre implies.
struct PreTokenizer {
  std::string_view name;
  // Each cuts what the one before left: at its matches, which become pieces, and between them.
  std::span<const std::string_view> expressions;
  bool ignore_merges;
  bool add_bos;
  bool normalize_nfc;

  PreTokenizerSteps steps() const;
};

/// "default" is what files without a name were made for: by engines that took Falcon's words.
[[nodiscard]] std::span<const PreTokenizer> known_pre_tokenizers();

/// Throws Error{unsupported} for an unknown name, listing the known ones.
[[nodiscard]] const PreTokenizer& find_pre_tokenizer(std::string_view name);

/// The length in bytes of the first word of `text`, which is not empty: what the expression matches
/// at its front, at least 1. Malformed bytes count as symbols. The words of a text, in total, take
/// time linear in its length.
[[nodiscard]] size_t first_word_length(WordScanner scanner, std::string_view text);

}  // namespace hasten::text
