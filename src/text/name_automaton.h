// SPDX-License-Identifier: Apache-2.0
// The longest of a set of names that begins at each place of a text, in linear time whatever names
// and text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hasten::text {

/// The automaton of Aho and Corasick (CACM 18, 1975) on the names read backwards: going through a
/// text from its end, it knows at each place which names begin there. Borrows nothing.
class NameAutomaton {
 public:
  /// Distinct names, none empty. Time is near-linear in their bytes.
  explicit NameAutomaton(const std::vector<std::string_view>& names);

  /// What begins at the places of one stretch of a text.
  class Stretch {
   public:
    bool holds(size_t at) const { return at >= begin_ && at - begin_ < longest_.size(); }
    /// The longest name at a place, by its index, or -1.
    int32_t longest(size_t at) const { return longest_[at - begin_]; }

   private:
    friend class NameAutomaton;
    size_t begin_ = 0;
    std::vector<int32_t> longest_;  // by place from begin_ on
  };
  /// A stretch that begins at `at`, which is within `text`.
  Stretch read(std::string_view text, size_t at) const;

  /// The longest name that is a proper prefix of another, or -1. Names that begin with one another
  /// make a chain: N bytes of names at most sqrt(2N) long, which is the cost of walking it.
  int32_t shorter(int32_t name) const { return shorter_[static_cast<size_t>(name)]; }

 private:
  /// A name's end, read from behind. Children have consecutive numbers, in the order of their
  /// bytes.
  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    uint32_t fallback = 0;  // the longest other node that ends like this one
    int32_t name = -1;      // the longest that is read here
    uint8_t byte = 0;       // read last
  };
  static constexpr uint32_t kRoot = 0;

  /// The node behind `byte`; kRoot: none.
  uint32_t child(uint32_t node, uint8_t byte) const;
  uint32_t step(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::vector<int32_t> shorter_;  // [number of names]
  size_t longest_name_ = 0;       // bytes
};

}  // namespace hasten::text
