// SPDX-License-Identifier: Apache-2.0
// Unicode regular expressions that match in linear time, for what cuts text into words.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/regex/dialect.h"
#include "text/regex/match.h"

namespace hasten::text::regex {

struct Scratch;

/// How far a search in one text has come.
struct Progress {
  size_t at = 0;                   // what comes before it is searched
  std::optional<size_t> last_end;  // of the match before
  size_t rereads = 0;              // bytes that were read in vain
  bool done = false;
};

/// A compiled expression: literals, escapes (\n \t \s \d \w \p{…} \x{…} \uXXXX …), nested classes
/// with && and ranges, groups, (?i: ), alternatives (the first that matches), greedy, lazy and (on
/// one character) possessive quantifiers, ^ $ \A \z \b \B, look-ahead, look-behind of one
/// character. Captures nothing. Const after construction: any thread.
///
/// Whoever wrote pattern and text: compiling takes tens of milliseconds at most, matching takes
/// time linear in the text.
class Regex {
 public:
  /// Throws Error{unsupported} naming what is not supported and its offset in the pattern, or a
  /// limit that it exceeds; Error{invalid_data} for what is no expression at all.
  explicit Regex(std::string_view pattern, Dialect dialect = Dialect::ruby);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Appends the matches in `text`, from left to right, each beginning where the one before ended
  /// or later, with none empty where another ends. Malformed bytes match as U+FFFD, one for each
  /// maximal subpart.
  void find_all(std::string_view text, std::vector<Match>& matches) const;
  /// The same, faster for many short texts. `scratch` serves one expression only.
  void find_all(std::string_view text, Scratch& scratch, std::vector<Match>& matches) const;
  /// Goes on from `progress`, which begins empty, until about `max_matches` are appended or none is
  /// left. Where the expression has no deterministic automaton, all come at once.
  void find_more(std::string_view text, size_t max_matches, Scratch& scratch, Progress& progress,
                 std::vector<Match>& matches) const;

  /// A place at or behind `at` before which no match begins in any piece of `text`: text.size() for
  /// none at all. Cheap: pieces that end before it need no search.
  size_t next_candidate(std::string_view text, size_t at) const;

  /// Bytes that its tables take; 0 states: the automaton is not deterministic.
  struct Size {
    size_t num_states = 0;
    size_t num_symbols = 0;
    size_t num_instructions = 0;
  };
  Size size() const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace hasten::text::regex
