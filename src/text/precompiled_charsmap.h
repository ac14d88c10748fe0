// SPDX-License-Identifier: Apache-2.0
// The character map of a SentencePiece normaliser: what each sequence of characters becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hasten::text {

/// A precompiled_charsmap (normalizer.cc of SentencePiece): the bytes of a trie, a double array of
/// Darts, whose values are places in a list of zero-terminated strings. Not trusted: nothing
/// outside it is read, and what it can make of a text is bounded. Const after construction: any
/// thread.
class PrecompiledCharsMap {
 public:
  /// Throws Error{invalid_data} for a map that is cut short or whose strings are too long.
  explicit PrecompiledCharsMap(std::string_view blob);

  // Published maps stay below 20 and 40; together they bound the time.
  static constexpr size_t kMaxKeyBytes = 64;
  static constexpr size_t kMaxValueBytes = 256;
  // U+FDFA becomes 11 times its bytes, the most of NFKC and of published maps. Whatever a text
  // holds, no more than that many times its bytes come of it.
  static constexpr size_t kMaxGrowth = 32;

  struct Mapping {
    size_t length = 0;    // bytes of the text; 0: nothing is mapped here
    std::string_view to;  // lives as long as the map
  };
  /// The longest mapped sequence at the front of `text`. Throws Error{invalid_data} if it becomes
  /// more than kMaxGrowth times its bytes, as in no honest map.
  [[nodiscard]] Mapping find(std::string_view text) const { return find(text, false); }
  /// The shortest one.
  [[nodiscard]] Mapping find_shortest(std::string_view text) const { return find(text, true); }

 private:
  Mapping find(std::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string values_;
};

}  // namespace hasten::text
