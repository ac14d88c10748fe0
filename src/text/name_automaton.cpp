// SPDX-License-Identifier: Apache-2.0
// Builds the automaton level by level, and runs it backwards.
#include "text/name_automaton.h"

#include <algorithm>
#include <numeric>

namespace hasten::text {
namespace {

// Places that are read at once, but for long names: 256 KiB of answers.
constexpr size_t kStretch = size_t{1} << 16;

}  // namespace

NameAutomaton::NameAutomaton(const std::vector<std::string_view>& names) : shorter_(names.size()) {
  std::vector<size_t> order(names.size());  // of the names, as they are read
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(
        names[a].rbegin(), names[a].rend(), names[b].rbegin(), names[b].rend(),
        [](char x, char y) { return static_cast<uint8_t>(x) < static_cast<uint8_t>(y); });
  });
  for (const std::string_view name : names) longest_name_ = std::max(longest_name_, name.size());

  // The names order[begin, end) go through a node.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;  // bytes read
  };
  std::vector<Range> ranges{{0, names.size(), 0}};  // by node
  nodes_.emplace_back();
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    const auto byte_of = [&](size_t i) {
      const std::string_view name = names[order[i]];
      return static_cast<uint8_t>(name[name.size() - 1 - range.depth]);
    };
    // A fallback is shorter, and has its name already.
    nodes_[node].name = nodes_[nodes_[node].fallback].name;
    if (range.begin < range.end && names[order[range.begin]].size() == range.depth) {
      const size_t name = order[range.begin++];
      shorter_[name] = nodes_[node].name;
      nodes_[node].name = static_cast<int32_t>(name);
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (range.begin < range.end) {
      const uint8_t byte = byte_of(range.begin);
      size_t end = range.begin + 1;
      while (end < range.end && byte_of(end) == byte) ++end;
      const uint32_t fallback = node == kRoot ? kRoot : step(nodes_[node].fallback, byte);
      nodes_.push_back({.fallback = fallback, .byte = byte});
      ranges.push_back({range.begin, end, range.depth + 1});
      ++nodes_[node].num_children;
      range.begin = end;
    }
  }
}

uint32_t NameAutomaton::child(uint32_t node, uint8_t byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = begin + nodes_[node].num_children;
  const auto found = std::partition_point(begin, end, [&](const Node& n) { return n.byte < byte; });
  return found == end || found->byte != byte ? kRoot
                                             : static_cast<uint32_t>(found - nodes_.begin());
}

uint32_t NameAutomaton::step(uint32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].fallback) {
    const uint32_t next = child(node, byte);
    if (next != kRoot || node == kRoot) return next;
  }
}

NameAutomaton::Stretch NameAutomaton::read(std::string_view text, size_t at) const {
  Stretch stretch;
  stretch.begin_ = at;
  const size_t size = std::min(std::max(kStretch, longest_name_), text.size() - at);
  stretch.longest_.resize(size);
  // Names that begin in the stretch may end behind it.
  uint32_t node = kRoot;
  for (size_t i = std::min(size + longest_name_, text.size() - at); i-- > 0;) {
    node = step(node, static_cast<uint8_t>(text[at + i]));
    if (i < size) stretch.longest_[i] = nodes_[node].name;
  }
  return stretch;
}

}  // namespace hasten::text
