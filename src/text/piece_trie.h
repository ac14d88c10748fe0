// SPDX-License-Identifier: Apache-2.0
// All of a set of strings that stand at the front of a text, one array access per byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hasten::text {

/// A trie as a double array (Aoe 1989): the child of a node by byte b lies at its base + b, if that
/// place names the node as its parent. Copies what it needs of the entries. Const after
/// construction: any thread.
class PieceTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t value;  // at least 0
  };

  /// Empty texts are left out; of equal ones the first serves. Time is near-linear in the entries.
  explicit PieceTrie(std::vector<Entry> entries);

  /// visit(length, value) for each entry at the front of `text`, the shortest first. Answers how
  /// many bytes of the text decide which they are, one more than there are where its end does.
  template <class Visit>
  size_t prefixes(std::string_view text, const Visit& visit) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kNumBytes = 256;

  struct Node {
    uint32_t base = 0;
    uint32_t parent = kNone;
    int32_t value = -1;  // -1: no entry ends here
  };
  class Builder;

  std::vector<Node> nodes_;  // any base + 255 is inside
};

template <class Visit>
size_t PieceTrie::prefixes(std::string_view text, const Visit& visit) const {
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t child = nodes_[node].base + static_cast<uint8_t>(text[i]);
    if (nodes_[child].parent != node) return i + 1;
    node = child;
    if (nodes_[node].value >= 0) visit(i + 1, nodes_[node].value);
  }
  return text.size() + 1;
}

}  // namespace hasten::text
