// SPDX-License-Identifier: Apache-2.0
// The longest of a set of names that stands at the front of a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

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

  /// Empty names match nothing; of equal ones the first serves.
  explicit PrefixMatcher(std::vector<Name> names);

  bool empty() const { return names_.empty(); }

  /// The longest name at the front of `text` that `accept(match)` takes. Time is linear in the
  /// longest name.
  template <class Accept>
  Match longest(std::string_view text, const Accept& accept) const;
  Match longest(std::string_view text) const {
    return longest(text, [](const Match&) { return true; });
  }

  /// The first place from `at` on where a name may begin, or the end of `text`.
  size_t find_beginning(std::string_view text, size_t at) const {
    for (;; ++at) {
      if (only_first_byte_ >= 0) {
        at = std::min(text.find(static_cast<char>(only_first_byte_), at), text.size());
      } else {
        while (at < text.size() && !is_first_byte_[static_cast<uint8_t>(text[at])]) ++at;
      }
      if (at + 1 >= text.size()) return std::min(at, text.size());
      if (is_second_byte_[static_cast<uint8_t>(text[at + 1])]) return at;
    }
  }

  /// The id of exactly this name, or -1.
  int32_t find(std::string_view name) const;

 private:
  struct Range {
    size_t begin = 0;  // into names_
    size_t end = 0;
  };
  Range narrow(Range range, size_t depth, char next) const;

  std::vector<Name> names_;                   // sorted, unique, none empty
  std::array<Range, 256> with_first_byte_{};  // by the first byte of the text
  std::array<bool, 256> is_first_byte_{};
  std::array<bool, 256> is_second_byte_{};  // any may follow a name of one byte
  int only_first_byte_ = -1;                // of all names, if they share one
};

template <class Accept>
PrefixMatcher::Match PrefixMatcher::longest(std::string_view text, const Accept& accept) const {
  Match best;
  if (text.empty()) return best;
  // The names in `range` begin with the first `depth` bytes of the text; the shortest comes first.
  Range range = with_first_byte_[static_cast<uint8_t>(text[0])];
  for (size_t depth = 1; range.begin < range.end; ++depth) {
    if (names_[range.begin].text.size() == depth) {
      const Match match{.length = depth, .id = names_[range.begin].id};
      if (accept(match)) best = match;
      ++range.begin;
    }
    if (depth == text.size()) break;
    range = narrow(range, depth, text[depth]);
  }
  return best;
}

}  // namespace hasten::text
