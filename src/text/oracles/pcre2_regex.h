// SPDX-License-Identifier: Apache-2.0
// For tests: expressions as PCRE2 understands them.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/match.h"

namespace hasten::text::regex {
inline void PrintTo(const Match& match, std::ostream* out) {
  *out << match.begin << "-" << match.end;
}
}  // namespace hasten::text::regex

namespace hasten::text::testing {

/// `pattern`, in the syntax of tokenizer.json, for PCRE2, whose own \s also takes U+180E, whose \w
/// lacks marks, whose \p{Han} asks for script extensions and which has no nested classes. Not for
/// patterns with && or a class in a class.
inline std::string for_pcre2(std::string_view pattern, bool lines) {
  static constexpr std::string_view kSpace =
      R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  static constexpr std::string_view kWord =
      R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escape = pattern[++i];
      const bool named = escape == 'p' && pattern.substr(i + 1).starts_with("{Han}");
      const auto set = [&](std::string_view members, bool negated) {
        if (in_class && negated) throw std::runtime_error("a negated escape in a class");
        out +=
            in_class ? std::string(members) : (negated ? "[^" : "[") + std::string(members) + "]";
      };
      if (escape == 's' || escape == 'S') {
        set(kSpace, escape == 'S');
      } else if (escape == 'w' || escape == 'W') {
        set(kWord, escape == 'W');
      } else if (escape == 'b') {
        const std::string word = "[" + std::string(kWord) + "]";
        out += "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
      } else if (named) {
        out += R"(\p{sc:Han})";
        i += 5;
      } else if (escape == 'u') {
        out += R"(\x{)" + std::string(pattern.substr(i + 1, 4)) + "}";
        i += 4;
      } else {
        out.append(1, '\\').push_back(escape);
      }
      continue;
    }
    if (c == '[') {
      out += in_class ? "\\[" : "[";
      in_class = true;
    } else if (c == ']') {
      out += ']';
      in_class = false;
    } else if (c == '$' && !in_class) {
      out += lines ? "(?m:$)" : "\\z";
    } else {
      out += c;
    }
  }
  return out;
}

class Pcre2Regex {
 public:
  explicit Pcre2Regex(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    // Without two optimisations of 10.42 that lose matches: it does not find (?=a)a?a in "ac", for
    // it looks for a second a, nor \p{N}*(?i:A)?+[a-c1] in "1", for it does not give the digit
    // back.
    constexpr uint32_t kOptions =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE | PCRE2_NO_AUTO_POSSESS;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              kOptions, &error, &offset, nullptr));
    if (!code_) {
      throw std::runtime_error("PCRE2 refuses " + std::string(pattern) + " at " +
                               std::to_string(offset));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  /// The matches in `text`, which is valid UTF-8: no empty one where another ends. nullopt where
  /// PCRE2 gives up, which goes back and forth a number of times that grows with each quantifier.
  std::optional<std::vector<regex::Match>> find_all(std::string_view text) const {
    std::vector<regex::Match> matches;
    size_t at = 0;
    bool any = false;
    size_t last_end = 0;
    const auto advance = [&] {
      ++at;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    };
    while (at <= text.size()) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                    text.size(), at, PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found == PCRE2_ERROR_MATCHLIMIT) return std::nullopt;
      if (found < 0) throw std::runtime_error("PCRE2 fails: " + std::to_string(found));
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_.get());
      const regex::Match match{range[0], range[1]};
      const bool empty = match.begin == match.end;
      if (!empty || !any || last_end != match.end) matches.push_back(match);
      any = true;
      last_end = match.end;
      at = match.end;
      if (empty) advance();
    }
    return matches;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

}  // namespace hasten::text::testing
