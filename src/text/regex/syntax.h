// SPDX-License-Identifier: Apache-2.0
// A regular expression as a tree, and its parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/regex/code_point_set.h"
#include "text/regex/dialect.h"

namespace hasten::text::regex {

enum class NodeKind : uint8_t {
  empty,         // matches without taking anything
  set,           // takes one character of `set`
  sequence,      // the children, one after the other
  alternatives,  // the first child that leads to a match
  repeat,        // the only child, between `min` and `max` times
  look_ahead,    // takes nothing: whether the only child matches here
  next_is,       // takes nothing: the next character is one of `set`
  previous_is,   // takes nothing: the previous character is one of `set`
};

enum class Greed : uint8_t { greedy, lazy, possessive };

inline constexpr int32_t kUnbounded = -1;

struct Node {
  NodeKind kind = NodeKind::empty;
  int32_t set = -1;                    // index into Syntax::sets
  std::vector<int32_t> children = {};  // indices into Syntax::nodes
  int32_t min = 0;
  int32_t max = 0;  // kUnbounded: any number
  Greed greed = Greed::greedy;
  bool negated = false;  // look_ahead
  bool edge = false;     // next_is, previous_is: also where there is no such character
};

struct Syntax {
  std::vector<Node> nodes;
  std::vector<CodePointSet> sets;  // no two are equal
  int32_t root = 0;
};

inline constexpr size_t kMaxQuoted = 200;  // bytes of a pattern in an error

/// Parses `pattern`, which is UTF-8. Look-arounds of one character become next_is and previous_is.
/// Throws Error{unsupported} naming a construct that is not known and its offset in bytes, and
/// Error{invalid_data} for what no engine would take.
Syntax parse(std::string_view pattern, Dialect dialect);

}  // namespace hasten::text::regex
