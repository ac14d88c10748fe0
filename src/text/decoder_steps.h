// SPDX-License-Identifier: Apache-2.0
// How tokens become text again, as plain data: tokenizer.json's decoders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hasten::text {

struct DecoderStep {
  enum class Kind : uint8_t {
    byte_level,     // the alphabet of GPT-2 to bytes
    byte_fallback,  // <0x0A> to its byte, which byte tokens are in any case
    fuse,           // the steps behind it see the text, not its tokens
    metaspace,      // `pattern` to a space; not that before the text, if `prefixed`
    word_piece,     // a space before what does not begin with `pattern`, which goes
    bpe,            // `pattern`, the end of a word, to a space
    replace,        // `pattern` by `content`
    strip,  // up to `start` of `content`, one character, from the front and `stop` at the end
    ctc,    // repeated tokens and `content` go; `pattern` to a space
  };
  Kind kind;
  std::string pattern = {};
  std::string content = {};
  bool prefixed = true;
  bool cleanup = false;  // word_piece, ctc: English punctuation closed up
  int32_t start = 0;
  int32_t stop = 0;
  bool operator==(const DecoderStep&) const = default;
};

using DecoderSteps = std::vector<DecoderStep>;

}  // namespace hasten::text
