// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in a text that comes in pieces, and holds back what may begin one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hasten::engine {

/// The stop strings of a request, prepared for matching (Knuth, Morris and Pratt, 1977). Const
/// after construction.
struct StopStrings {
  /// `strings` are not empty and shorter than 65536 bytes.
  explicit StopStrings(std::vector<std::string> strings);

  struct Pattern {
    std::string text;
    // fallback[i]: the longest proper suffix of the first i bytes that the pattern begins with.
    std::vector<uint16_t> fallback;
  };
  std::vector<Pattern> patterns;
};

/// One text. The result does not depend on how it is cut into pieces: the stop string that is
/// complete first ends it, and of several complete at the same byte the longest. One thread.
class StopMatcher {
 public:
  /// `strings` must outlive the matcher.
  explicit StopMatcher(const StopStrings& strings);

  struct Piece {
    std::string text;                    // that is certain now
    const std::string* match = nullptr;  // the stop string that ended the text, if one did
  };
  /// Takes the next piece. Time linear in its length, whatever the strings. With `may_stop` false
  /// stop strings that are completed now pass as text. Not after a match.
  Piece append(std::string_view piece, bool may_stop);
  /// What is still held back, when the text has ended.
  std::string flush();

 private:
  const StopStrings& strings_;
  std::vector<uint16_t> matched_;  // by pattern: how much of it the text ends with
  std::string held_;               // the end of the text that may begin a stop string
};

}  // namespace hasten::engine
