// SPDX-License-Identifier: Apache-2.0
// PrefixNodes: the nodes of a PrefixTree, each in one place with its tokens and its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/checked.h"
#include "base/huge_pages.h"
#include "base/prefetch.h"

namespace hasten::engine {

/// Where a node is in its tree. Nodes are known by numbers from 0; -1 is none.
struct PrefixNode {
  int32_t parent = -1;
  int32_t first_child = -1;
  int32_t previous_sibling = -1;
  int32_t next_sibling = -1;
  int32_t num_cursors = 0;
  uint32_t tag = 0;        // of its slot in the hash table
  bool is_hashed = false;  // it has one: without a parent, or when it was not the only child
};

/// A table of a fixed number of nodes. One that is new or goes is looked at as a whole, long after
/// it has left the caches, and often the processor no longer knows its page either: so what belongs
/// to one node lies together, [PrefixNode, block_size tokens, a block of each group].
class PrefixNodes {
 public:
  /// All blocks are -1.
  PrefixNodes(size_t num_nodes, size_t num_groups, size_t block_size)
      : num_nodes_(num_nodes),
        num_groups_(num_groups),
        block_size_(block_size),
        blocks_at_(sizeof(PrefixNode) + block_size * sizeof(int32_t)),
        stride_(static_cast<size_t>(
            round_up(static_cast<int64_t>(blocks_at_ + num_groups * sizeof(int32_t)), kAlignment))),
        bytes_(num_nodes * stride_) {
    for (int32_t node = 0; static_cast<size_t>(node) < num_nodes; ++node) {
      new (start(node)) PrefixNode;
      std::ranges::uninitialized_fill(tokens(node), 0);
      std::ranges::uninitialized_fill(blocks(node), -1);
    }
  }

  size_t size() const { return num_nodes_; }

  PrefixNode& operator[](int32_t node) { return *reinterpret_cast<PrefixNode*>(start(node)); }
  const PrefixNode& operator[](int32_t node) const {
    return *reinterpret_cast<const PrefixNode*>(start(node));
  }
  /// [block_size] ids.
  std::span<int32_t> tokens(int32_t node) {
    return {reinterpret_cast<int32_t*>(start(node) + sizeof(PrefixNode)), block_size_};
  }
  std::span<const int32_t> tokens(int32_t node) const {
    return {reinterpret_cast<const int32_t*>(start(node) + sizeof(PrefixNode)), block_size_};
  }
  /// [groups] block ids; -1: the group has none.
  std::span<int32_t> blocks(int32_t node) {
    return {reinterpret_cast<int32_t*>(start(node) + blocks_at_), num_groups_};
  }
  std::span<const int32_t> blocks(int32_t node) const {
    return {reinterpret_cast<const int32_t*>(start(node) + blocks_at_), num_groups_};
  }

  /// Begins to bring where a node is in its tree into the caches.
  void fetch(int32_t node) const { prefetch(start(node)); }
  /// The same for all there is to know of it, as far as it fits in two cache lines.
  void fetch_whole(int32_t node) const {
    prefetch(start(node));
    prefetch(start(node) + stride_ - 1);
  }

 private:
  static constexpr int64_t kAlignment = 32;  // nodes of 16 tokens and one group: two in three lines

  std::byte* start(int32_t node) { return bytes_.data() + static_cast<size_t>(node) * stride_; }
  const std::byte* start(int32_t node) const {
    return bytes_.data() + static_cast<size_t>(node) * stride_;
  }

  size_t num_nodes_;
  size_t num_groups_;
  size_t block_size_;
  size_t blocks_at_;  // bytes from a node's start
  size_t stride_;     // bytes
  HugeVector<std::byte> bytes_;
};

}  // namespace hasten::engine
