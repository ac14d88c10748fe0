// SPDX-License-Identifier: Apache-2.0
// The deterministic automaton of an expression without look-aheads of several characters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/regex/program.h"

namespace hasten::text::regex {

/// Built whole, so that matching is const. A state is the ordered list of instructions that stand
/// behind a character: the first of them that leads to a match decides, as in Perl. What takes no
/// character is resolved when the next symbol is known, which makes look-ahead of one character
/// free.
class Dfa {
 public:
  /// Nothing where the program looks behind, looks ahead further, or has too many states.
  static std::optional<Dfa> build(const Program& program, const Alphabet& alphabet);

  /// An entry of the table: the row of the next state, and whether the expression matches before
  /// the symbol. Row 0 is the state of no return.
  uint32_t step(uint32_t row, uint32_t symbol) const { return table_[row + symbol]; }
  static bool matches(uint32_t entry) { return (entry & 1) != 0; }
  static uint32_t row(uint32_t entry) { return entry >> 1; }
  /// The entry that matches and stays in `row`.
  static uint32_t longer_match(uint32_t row) { return row << 1 | 1; }
  uint32_t start() const { return start_; }
  size_t num_states() const { return table_.size() / num_symbols_; }

 private:
  std::vector<uint32_t> table_;  // [num_states, num_symbols]
  uint32_t num_symbols_ = 0;
  uint32_t start_ = 0;
};

}  // namespace hasten::text::regex
