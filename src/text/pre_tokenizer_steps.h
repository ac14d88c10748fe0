// SPDX-License-Identifier: Apache-2.0
// How text is cut into words before anything is merged, as plain data: tokenizer.json's
// pre-tokenizers in their common terms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/dialect.h"

namespace hasten::text {

/// What becomes of the matches of a split.
enum class SplitBehavior : uint8_t {
  removed,
  isolated,              // a piece each
  merged_with_previous,  // with the piece before
  merged_with_next,      // with the piece behind
  contiguous,            // neighbours together
};

/// Which pieces get a space symbol put before them.
enum class PrependScheme : uint8_t { never, first, always };

/// What is done to every piece of the text, of which there is one at first.
struct PreTokenizerStep {
  enum class Kind : uint8_t {
    split,             // cuts at the matches of `pattern`
    add_prefix_space,  // puts a space before a piece that does not begin with one
    metaspace,         // writes spaces as `pattern`, and puts one before
    byte_alphabet,     // what ByteLevel ends with: later steps see bytes in GPT-2's alphabet
  };
  Kind kind = Kind::split;
  std::string pattern = {};
  bool literal = false;  // split: `pattern` is text, not an expression
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // split: at what lies between the matches
  regex::Dialect dialect = regex::Dialect::ruby;
  PrependScheme prepend = PrependScheme::always;  // metaspace
  bool operator==(const PreTokenizerStep&) const = default;
};

using PreTokenizerSteps = std::vector<PreTokenizerStep>;

/// The steps that tokenizer.json's other pre-tokenizers amount to. Whatever steps saw, words are
/// given back as the bytes of the text.
PreTokenizerSteps byte_level_steps(bool add_prefix_space, bool use_regex);
PreTokenizerSteps digits_steps(bool individual_digits);
PreTokenizerSteps punctuation_steps(SplitBehavior behavior);
PreTokenizerSteps whitespace_steps();
PreTokenizerSteps whitespace_split_steps();
PreTokenizerSteps bert_steps();
PreTokenizerSteps fixed_length_steps(int32_t num_characters);
PreTokenizerSteps char_delimiter_steps(std::string_view delimiter);
PreTokenizerSteps metaspace_steps(std::string_view replacement, PrependScheme prepend, bool split);

}  // namespace hasten::text
