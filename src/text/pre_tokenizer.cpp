// SPDX-License-Identifier: Apache-2.0
// Linear scanners that match what the regular expressions of byte-level BPE match.
#include "text/pre_tokenizer.h"

#include <array>
#include <cstdint>

#include "base/error.h"
#include "text/regex/decode.h"
#include "text/unicode.h"

namespace hasten::text {
namespace {

// The classes that the expressions tell apart.
enum class CharClass : uint8_t {
  letter,   // \p{L}
  number,   // \p{N}
  newline,  // [\r\n]
  space,    // the rest of \s
  symbol,   // everything else
  end,      // no character: the end of the text
};

struct ClassifiedChar {
  CharClass char_class;
  uint8_t length;  // bytes
};

CharClass classify_code_point(uint32_t code_point) {
  if (code_point == '\r' || code_point == '\n') return CharClass::newline;
  const CharProperties properties = char_properties(code_point);
  if (properties.white_space) return CharClass::space;
  if (is_letter(properties.category)) return CharClass::letter;
  if (is_number(properties.category)) return CharClass::number;
  return CharClass::symbol;
}

constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || c == '\t' || c == '\v' || c == '\f';
    classes[c] = letter                   ? CharClass::letter
                 : c >= '0' && c <= '9'   ? CharClass::number
                 : c == '\r' || c == '\n' ? CharClass::newline
                 : space                  ? CharClass::space
                                          : CharClass::symbol;
  }
  return classes;
}();

ClassifiedChar classify_beyond_ascii(std::string_view text, size_t at) {
  const Utf8Char next = decode_character(text, at);
  return {classify_code_point(next.code_point), next.length};
}

inline ClassifiedChar classify(std::string_view text, size_t at) {
  if (at >= text.size()) return {CharClass::end, 0};
  const auto byte = static_cast<uint8_t>(text[at]);
  return byte < 0x80 ? ClassifiedChar{kAsciiClasses[byte], 1} : classify_beyond_ascii(text, at);
}

bool is_white(CharClass c) { return c == CharClass::space || c == CharClass::newline; }

// Past the run of `wanted` that begins at `at`.
size_t skip_run(std::string_view text, size_t at, CharClass wanted) {
  for (;;) {
    // The loop that most text goes through: one load and one look-up a byte.
    while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80 &&
           kAsciiClasses[static_cast<uint8_t>(text[at])] == wanted) {
      ++at;
    }
    const ClassifiedChar c = classify(text, at);
    if (c.char_class != wanted) return at;
    at += c.length;
  }
}

// The length of 's 't 're 've 'm 'll 'd at the front, or 0. Without case, U+017F is an s too.
size_t contraction_length(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto lower = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char second = lower(1);
  const char third = lower(2);
  switch (second) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return third == 'e' ? 3 : 0;
    case 'l':
      return third == 'l' ? 3 : 0;
    default:
      return any_case && text.substr(1).starts_with("\xC5\xBF") ? 3 : 0;
  }
}

// \s+(?!\S)|\s+ at the front, which is white space: the run, less its last character if a word
// follows and the run has more than one. `isolated` is a class that counts as the end of the text.
size_t white_space_length(std::string_view text, CharClass isolated) {
  size_t at = 0;
  size_t last = 0;  // where the last white character begins
  ClassifiedChar c = classify(text, 0);
  for (; is_white(c.char_class); c = classify(text, at)) {
    last = at;
    at += c.length;
  }
  const bool word_follows = c.char_class != CharClass::end && c.char_class != isolated;
  return word_follows && last > 0 ? last : at;
}

size_t gpt2_word(std::string_view text, bool digits_alone) {
  const ClassifiedChar first = classify(text, 0);
  if (digits_alone && first.char_class == CharClass::number) return first.length;
  if (const size_t length = contraction_length(text, /*any_case=*/false)) return length;

  const CharClass isolated = digits_alone ? CharClass::number : CharClass::end;
  const size_t start = text[0] == ' ' ? 1 : 0;
  const CharClass kind = classify(text, start).char_class;
  if (!is_white(kind) && kind != CharClass::end && kind != isolated) {
    return skip_run(text, start, kind);
  }
  return white_space_length(text, isolated);
}

// The alternatives after the letters, which llama3 and its descendants share: up to `max_digits`
// digits, symbols with the newlines (and slashes) behind them, white space.
size_t length_without_letters(std::string_view text, int max_digits, bool slashes) {
  const ClassifiedChar first = classify(text, 0);
  if (first.char_class == CharClass::number) {
    size_t at = 0;
    ClassifiedChar c = first;
    for (int i = 0; i < max_digits && c.char_class == CharClass::number; ++i) {
      at += c.length;
      c = classify(text, at);
    }
    return at;
  }

  const size_t symbols = text[0] == ' ' ? 1 : 0;
  size_t at = skip_run(text, symbols, CharClass::symbol);
  if (at > symbols) {
    while (at < text.size() &&
           (text[at] == '\r' || text[at] == '\n' || (slashes && text[at] == '/'))) {
      ++at;
    }
    return at;
  }

  // \s*[\r\n]+ ends with the last newline of the run.
  size_t newline_end = 0;
  at = 0;
  for (ClassifiedChar c = first; is_white(c.char_class); c = classify(text, at)) {
    at += c.length;
    if (c.char_class == CharClass::newline) newline_end = at;
  }
  return newline_end > 0 ? newline_end : white_space_length(text, CharClass::end);
}

// The length of [^\r\n\p{L}\p{N}] at the front, or 0.
size_t lead_length(std::string_view text) {
  const ClassifiedChar first = classify(text, 0);
  const bool leads = first.char_class == CharClass::space || first.char_class == CharClass::symbol;
  return leads ? first.length : 0;
}

size_t llama3_word(std::string_view text, int max_digits) {
  if (const size_t length = contraction_length(text, /*any_case=*/true)) return length;
  const size_t lead = lead_length(text);
  const size_t letters_end = skip_run(text, lead, CharClass::letter);
  if (letters_end > lead) return letters_end;
  return length_without_letters(text, max_digits, /*slashes=*/false);
}

// What a character can be within a word that is cut by case.
struct CasedChar {
  bool upper = false;  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  bool lower = false;  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  uint8_t length = 0;
};

CasedChar classify_case(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) {
    return {.upper = byte >= 'A' && byte <= 'Z', .lower = byte >= 'a' && byte <= 'z', .length = 1};
  }
  const Utf8Char next = decode_character(text, at);
  const Category category = char_properties(next.code_point).category;
  const bool both = category == Category::lm || category == Category::lo || is_mark(category);
  return {.upper = both || category == Category::lu || category == Category::lt,
          .lower = both || category == Category::ll,
          .length = next.length};
}

// Where U*W+ and U+W* end that begin at `start`; 0: no match. U* takes all it can and gives back
// what W+ needs: the last character that can be either.
struct CasedWord {
  size_t upper_then_lower = 0;  // U*W+
  size_t upper = 0;             // U+W*, given that U*W+ does not match
};

CasedWord cased_word(std::string_view text, size_t start) {
  size_t at = start;
  size_t either_end = 0;
  CasedChar c = classify_case(text, at);
  for (; c.upper; c = classify_case(text, at)) {
    at += c.length;
    if (c.lower) either_end = at;
  }
  if (!c.lower) return {.upper_then_lower = either_end, .upper = at > start ? at : 0};
  for (; c.lower; c = classify_case(text, at)) at += c.length;
  return {.upper_then_lower = at};
}

size_t o200k_word(std::string_view text, int max_digits, bool contractions) {
  const size_t lead = lead_length(text);
  const CasedWord led = cased_word(text, lead);
  size_t length = led.upper_then_lower;
  // A mark can be the lead or part of the word.
  if (length == 0 && lead > 0) length = cased_word(text, 0).upper_then_lower;
  if (length == 0) length = led.upper;
  if (length == 0) return length_without_letters(text, max_digits, /*slashes=*/true);
  return contractions ? length + contraction_length(text.substr(length), /*any_case=*/true)
                      : length;
}

}  // namespace

size_t first_word_length(WordScanner scanner, std::string_view text) {
  switch (scanner) {
    case WordScanner::gpt2:
      return gpt2_word(text, /*digits_alone=*/false);
    case WordScanner::gpt2_digits:
      return gpt2_word(text, /*digits_alone=*/true);
    case WordScanner::llama3:
      return llama3_word(text, 3);
    case WordScanner::qwen2:
      return llama3_word(text, 1);
    case WordScanner::o200k:
      return o200k_word(text, 3, /*contractions=*/true);
    case WordScanner::tekken:
      return o200k_word(text, 1, /*contractions=*/false);
  }
  HASTEN_CHECK(false);
}

}  // namespace hasten::text
