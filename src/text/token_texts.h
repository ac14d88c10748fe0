// SPDX-License-Identifier: Apache-2.0
// What each token says, where a tokenizer.json's decoder has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Decoder steps applied once to every token; what they do to a whole text is kept as numbers.
/// Const after construction: any thread.
class TokenTexts {
 public:
  /// Throws Error{unsupported} for steps that a token alone cannot tell, and for more or longer
  /// ones than a published file has.
  TokenTexts(const DecoderSteps& steps, const TokenizerSpec& spec, const Vocabulary& vocabulary);

  std::string_view bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  /// A space before the first token is not part of the text.
  bool strips_first_space() const { return strips_first_space_; }
  /// Nor is one behind the last token.
  bool strips_last_space() const { return strips_last_space_; }
  /// A token says nothing right behind itself.
  bool drops_repeats() const { return drops_repeats_; }

 private:
  std::string bytes_;              // all texts, one after the other
  std::vector<uint32_t> offsets_;  // [vocab_size + 1]
  bool strips_first_space_ = false;
  bool strips_last_space_ = false;
  bool drops_repeats_ = false;
};

}  // namespace hasten::text
