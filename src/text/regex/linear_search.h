// SPDX-License-Identifier: Apache-2.0
// Finds the matches of any expression in time linear in the text, whatever the expression.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/regex/match.h"
#include "text/regex/program.h"

namespace hasten::text::regex {

/// Two passes, after Frisch and Cardelli, "Greedy regular expression matching" (ICALP 2004): from
/// the end of the text to its front, which instructions lead to a match from each position; then
/// forward, always by the preferred one of those that do. Looking ahead is asking the first pass.
/// Const: any thread.
class LinearSearch {
 public:
  /// Borrows both.
  LinearSearch(const Program& program, const Alphabet& alphabet);

  /// Appends the matches of `text` from byte `at` on, before which the last match ended at
  /// `last_end`, if any. Nothing looks behind `at` unless it is 0.
  void find_all(std::string_view text, size_t at, std::optional<size_t> last_end,
                std::vector<Match>& matches) const;

 private:
  class Pass;

  const Program& program_;
  const Alphabet& alphabet_;
  std::vector<std::vector<int32_t>> predecessors_;  // by instruction: what leads to it for nothing
  // By symbol: no instruction takes it and no match begins at it, so that nothing before it depends
  // on what follows. Empty: some match is empty, or all symbols are taken.
  std::vector<uint8_t> separates_;
};

}  // namespace hasten::text::regex
