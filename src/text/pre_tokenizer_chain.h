// SPDX-License-Identifier: Apache-2.0
// Cuts text into words by any sequence of steps.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/pre_tokenizer_steps.h"
#include "text/regex/linear_search.h"
#include "text/whole_pieces.h"

namespace hasten::text {

/// Compiled steps. Const after construction: any thread.
class PreTokenizerChain {
 public:
  /// Throws Error{unsupported, invalid_data} for an expression that cannot be compiled, and
  /// Error{unsupported} for more steps, or a longer literal, than a published chain could have.
  explicit PreTokenizerChain(const PreTokenizerSteps& steps);
  PreTokenizerChain(PreTokenizerChain&&) noexcept;
  PreTokenizerChain& operator=(PreTokenizerChain&&) noexcept;
  ~PreTokenizerChain();

  /// The hand-written scanner that cuts just so, where there is one: faster than cut.
  std::optional<WordScanner> scanner() const { return scanner_; }

  /// What one step works in.
  struct Work {
    std::vector<regex::Match> matches;
    std::vector<regex::Match> pieces;
    regex::Scratch scratch;
    WholePieces whole;     // that this step and those behind it leave as they are
    size_t candidate = 0;  // before it, no match begins
  };
  struct Words {
    std::string_view text;            // what the words are ranges of: the text, or `rewritten`
    std::vector<regex::Match> words;  // in order; none is empty
    std::string rewritten;            // where a step changed the text

    std::string_view word(size_t i) const {
      return text.substr(words[i].begin, words[i].end - words[i].begin);
    }

    // What the chain works in.
    std::vector<regex::Match> whole;  // before steps that split
    std::vector<Work> works;          // by step
  };
  /// Fills `words`, which can be used again for the next text, but not for another chain. Time is
  /// linear in the text.
  void cut(std::string_view text, bool starts_text, Words& words) const;

  using TakeWords = std::function<void(const Words&)>;
  /// The same words in order, some at a time: faster where each is looked at once. Those before
  /// `take` are gone with its return.
  void cut_in_batches(std::string_view text, bool starts_text, const TakeWords& take) const;

 private:
  struct Step;
  class Descent;

  void cut(std::string_view text, bool starts_text, size_t max_words, Words& words,
           const TakeWords& take) const;

  std::optional<WordScanner> scanner_;
  std::vector<Step> steps_;
  bool in_alphabet_ = false;  // the last step sees bytes in GPT-2's alphabet
};

}  // namespace hasten::text
