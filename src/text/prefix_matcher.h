// SPDX-License-Identifier: Apache-2.0
// The longest of a set of names that stands at each place of a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/name_automaton.h"

namespace hasten::text {

/// Names with their ids. Borrows the names. Const after construction: any thread.
class PrefixMatcher {
 public:
  struct Name {
    std::string_view text;
    int32_t id;
  };
  struct Match {
    size_t length = 0;  // bytes; 0: no name is there
    int32_t id = -1;
  };
  class Search;

  // Gemma 3 has 77 kB, Emu3.5's 131,072 tokens of pictures have 3 MB. An automaton of so many takes
  // about 45 times as much memory and a second, for each text that asks for one.
  static constexpr size_t kMaxNameBytes = size_t{4} << 20;

  /// Empty names match nothing; of equal ones the first serves. Throws Error{unsupported} for more
  /// than kMaxNameBytes of all.
  explicit PrefixMatcher(std::vector<Name> names);

  bool empty() const { return names_.empty(); }

  /// The id of exactly this name, or -1.
  int32_t find(std::string_view name) const;

 private:
  struct Range {
    size_t begin = 0;  // into names_
    size_t end = 0;
  };
  Range narrow(Range range, size_t depth, char next) const;
  NameAutomaton make_automaton() const;

  std::vector<Name> names_;                   // sorted, unique, none empty
  std::array<Range, 256> with_first_byte_{};  // by the first byte of the text
  std::array<bool, 256> is_first_byte_{};
  std::array<bool, 256> is_second_byte_{};  // any may follow a name of one byte
  int only_first_byte_ = -1;                // of all names, if they share one
  size_t num_bytes_ = 0;                    // of all names
};

/// Looks for names in one text, from its front to its end. Borrows both. Time is linear in the text
/// and the names, however often the text begins like a name that does not come, as long as names
/// are accepted. Each one refused costs a step more: where all are, as many per place as names
/// stand there, each the beginning of the next, which for N bytes of names are at most sqrt(2N).
/// One thread.
class PrefixMatcher::Search {
 public:
  Search(const PrefixMatcher& matcher, std::string_view text) : matcher_(matcher), text_(text) {}

  /// The longest name at `at` that `accept(match)` takes.
  template <class Accept>
  Match longest(size_t at, const Accept& accept);
  Match longest(size_t at) {
    return longest(at, [](const Match&) { return true; });
  }

  /// The first place from `at` on where a name may begin, or the end of the text.
  size_t find_beginning(size_t at) const;

  /// How many bytes were compared, some of them again and again.
  size_t num_compared() const { return num_compared_; }

 private:
  template <class Accept>
  Match compare(size_t at, const Accept& accept);

  const PrefixMatcher& matcher_;
  std::string_view text_;
  size_t num_compared_ = 0;
  // Where comparing at each place has become too much: all places of a stretch at once.
  std::optional<NameAutomaton> automaton_;
  std::optional<NameAutomaton::Stretch> stretch_;
};

inline size_t PrefixMatcher::Search::find_beginning(size_t at) const {
  for (;; ++at) {
    if (matcher_.only_first_byte_ >= 0) {
      at = std::min(text_.find(static_cast<char>(matcher_.only_first_byte_), at), text_.size());
    } else {
      while (at < text_.size() && !matcher_.is_first_byte_[static_cast<uint8_t>(text_[at])]) ++at;
    }
    if (at + 1 >= text_.size()) return std::min(at, text_.size());
    if (matcher_.is_second_byte_[static_cast<uint8_t>(text_[at + 1])]) return at;
  }
}

template <class Accept>
PrefixMatcher::Match PrefixMatcher::Search::longest(size_t at, const Accept& accept) {
  if (at >= text_.size()) return {};
  // The automaton is not made before its names could have been read several times.
  constexpr size_t kComparesPerByte = 8;
  if (!automaton_) {
    if (num_compared_ <= kComparesPerByte * (at + matcher_.num_bytes_) + 4096) {
      return compare(at, accept);
    }
    automaton_ = matcher_.make_automaton();
  }
  if (!stretch_ || !stretch_->holds(at)) stretch_ = automaton_->read(text_, at);
  for (int32_t name = stretch_->longest(at); name >= 0; name = automaton_->shorter(name)) {
    const Name& found = matcher_.names_[static_cast<size_t>(name)];
    const Match match{.length = found.text.size(), .id = found.id};
    if (accept(match)) return match;
  }
  return {};
}

template <class Accept>
PrefixMatcher::Match PrefixMatcher::Search::compare(size_t at, const Accept& accept) {
  Match best;
  // The names in `range` begin with the first `depth` bytes here; the shortest comes first.
  Range range = matcher_.with_first_byte_[static_cast<uint8_t>(text_[at])];
  size_t depth = 1;
  for (; range.begin < range.end; ++depth) {
    if (matcher_.names_[range.begin].text.size() == depth) {
      const Match match{.length = depth, .id = matcher_.names_[range.begin].id};
      if (accept(match)) best = match;
      ++range.begin;
    }
    if (at + depth == text_.size()) break;
    range = matcher_.narrow(range, depth, text_[at + depth]);
  }
  num_compared_ += depth;
  return best;
}

}  // namespace hasten::text
