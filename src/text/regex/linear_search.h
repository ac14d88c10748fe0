// SPDX-License-Identifier: Apache-2.0
// Finds the matches of any expression in time linear in the text, whatever the expression.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/regex/match.h"
#include "text/regex/program.h"

namespace hasten::text::regex {

/// What a search works in, so that many short texts need no allocation. One thread at a time.
struct Scratch {
  // The block that is loaded, by position.
  std::vector<uint32_t> symbols;
  std::vector<size_t> offsets;
  std::vector<uint32_t> viable;  // [positions + 1] numbers of sets
  // The sets of instructions seen, as bits, and what each symbol (and the one before, where an
  // expression looks behind) makes of them; kUnknown: not yet known.
  static constexpr uint32_t kUnknown = UINT32_MAX;
  std::vector<uint64_t> sets;   // [number of sets, words of a set]
  std::vector<uint32_t> steps;  // [number of sets, width of a row]
  // Where each instruction goes on where a set leads to a match, doubled, and 1 where to a match.
  std::vector<uint32_t> walks;  // [number of sets, number of instructions]
  std::unordered_map<uint64_t, std::vector<uint32_t>> numbers_by_hash;

  std::vector<int32_t> stack;
  std::vector<uint64_t> visited;  // by instruction: the walk that last came by
  uint64_t stamp = 0;
};

/// Two passes, after Frisch and Cardelli, "Greedy regular expression matching" (ICALP 2004): from
/// the end of the text to its front, which instructions lead to a match from each position; then
/// forward, always by the preferred one of those that do. Looking ahead is asking the first pass.
/// Const: any thread.
class LinearSearch {
 public:
  /// Borrows both.
  LinearSearch(const Program& program, const Alphabet& alphabet);

  /// Appends the matches of `text` from byte `at` on, before which the last match ended at
  /// `last_end`, if any. Nothing looks behind `at` unless it is 0. What `scratch` has learned with
  /// one expression serves the next text, but no other expression.
  void find_all(std::string_view text, size_t at, std::optional<size_t> last_end, Scratch& scratch,
                std::vector<Match>& matches) const;

  /// As Regex::next_candidate.
  size_t next_candidate(std::string_view text, size_t at) const;

 private:
  class Pass;

  const Program& program_;
  const Alphabet& alphabet_;
  std::vector<std::vector<int32_t>> predecessors_;  // by instruction: what leads to it for nothing
  // By symbol: no instruction takes it and no match begins at it, so that nothing before it depends
  // on what follows. Empty: some match is empty, or all symbols are taken.
  std::vector<uint8_t> separates_;
  size_t num_words_;   // of a set
  size_t row_width_;   // of Scratch::steps; 0: too wide to keep
  size_t walk_width_;  // of Scratch::walks; 0: likewise
};

}  // namespace hasten::text::regex
