// SPDX-License-Identifier: Apache-2.0
// The nondeterministic automaton of an expression.
#pragma once

#include <cstdint>
#include <vector>

#include "text/regex/alphabet.h"
#include "text/regex/syntax.h"

namespace hasten::text::regex {

enum class Op : uint8_t {
  take,     // one symbol of `set`, then `next`
  split,    // `next`; where that leads to no match, `other`
  next_is,  // the next symbol is one of `set`, then `next`
  prev_is,  // the previous symbol is one of `set`, then `next`
  look,     // look-ahead `other` matches here (negated: does not), then `next`
  match,    // the expression, or a look-ahead, matches
};

struct Instruction {
  Op op = Op::match;
  bool negated = false;
  int32_t set = -1;    // index into Program::symbol_sets
  int32_t next = -1;   // index into Program::instructions
  int32_t other = -1;  // split: an instruction; look: an index into Program::look_starts
};

/// Instructions come in regions that only looks connect: one for each look-ahead, behind those that
/// it uses, then the expression's own.
struct Program {
  std::vector<Instruction> instructions;
  std::vector<std::vector<uint8_t>> symbol_sets;  // [num_symbols], 1 or 0; may hold edge
  std::vector<int32_t> look_starts;               // [number of look-aheads]
  std::vector<int32_t> region_begins;             // [number of look-aheads + 1]
  int32_t start = 0;
  bool looks_behind = false;  // has prev_is
};

/// Throws Error{unsupported} for an automaton that is too large.
Program compile(const Syntax& syntax, const Alphabet& alphabet);

}  // namespace hasten::text::regex
