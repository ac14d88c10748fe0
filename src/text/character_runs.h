// SPDX-License-Identifier: Apache-2.0
// For tests and benchmarks: what runs of one class of characters are made of, and runs in which two
// alternate. What a careless tokenizer takes quadratic time for.
#pragma once

#include <string>
#include <string_view>

namespace hasten::text::testing {

struct CharacterRun {
  std::string_view name;
  std::string_view unit;  // UTF-8, but for `malformed` ones
};

inline constexpr CharacterRun kCharacterRuns[] = {
    {"letter", "a"},
    {"capital", "A"},
    {"digit", "7"},
    {"space", " "},
    {"tab", "\t"},
    {"newline", "\n"},
    {"crlf", "\r\n"},
    {"wide_space", "\u3000"},
    {"symbol", "!"},
    {"dollar", "$"},
    {"bracket", "<"},
    {"line", "_"},
    {"apostrophe", "'"},
    {"han", "\u4E2D"},
    {"kana", "\u30AB"},
    {"hangul", "\uAC00"},
    {"mark", "\u0301"},
    {"emoji", "\U0001F600"},
    {"joined_emoji", "\U0001F468\u200D"},
    {"malformed", "\x80"},
    {"cased", "aA"},
    {"digit_letter", "1a"},
    {"letter_symbol", "a!"},
    {"letter_space", "a "},
    {"digit_space", "1 "},
    {"space_newline", " \n"},
    {"letter_han", "a\u4E2D"},
    {"letter_mark", "a\u0301"},
    {"letter_malformed", "a\xFF"},
    {"contraction", "'s"},
};

/// At least `bytes` long, by less than one unit.
inline std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

}  // namespace hasten::text::testing
