// SPDX-License-Identifier: Apache-2.0
// What is done to a text before it is cut into words, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hasten::text {

struct NormalizerStep {
  enum class Kind : uint8_t {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip_accents,  // takes marks away
    strip,          // takes white space away, at `left` and `right`
    replace,        // `pattern` by `content`
    prepend,        // `content`, to what is not empty
    nmt,            // odd white space to spaces, control characters away
    bert,           // the four rules of BERT
    precompiled,    // the character map `content`
    byte_level,     // bytes in the alphabet of GPT-2
  };
  Kind kind;
  std::string pattern = {};
  bool literal = true;  // replace: `pattern` is text, not an expression
  std::string content = {};
  bool left = true;
  bool right = true;
  bool clean_text = true;            // bert: control characters away, any white space to a space
  bool handle_chinese_chars = true;  // bert: spaces around ideographs
  bool strip_accents = true;         // bert: decomposed, marks away
  bool lowercase = true;             // bert
  bool operator==(const NormalizerStep&) const = default;
};

using NormalizerSteps = std::vector<NormalizerStep>;

}  // namespace hasten::text
