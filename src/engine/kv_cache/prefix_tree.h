// SPDX-License-Identifier: Apache-2.0
// PrefixTree: finds the cache blocks that already hold the keys and values of a prompt's beginning.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "base/siphash.h"
#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/block_table.h"
#include "engine/kv_cache/block_tier.h"
#include "engine/kv_cache/prefix_nodes.h"
#include "engine/kv_cache/tenant_numbers.h"
#include "engine/sequence/sequence.h"
#include "engine/sequence/step.h"

namespace hasten::engine {

class PrefixTree;

/// A cache group, as far as prefixes are concerned.
struct PrefixGroup {
  BlockPool* pool = nullptr;
  int64_t window = 0;  // tokens that a query can see, itself included; 0: all
};

/// A beginning of a sequence that the cache has. Valid until the pools or the tree change.
struct PrefixMatch {
  int64_t num_tokens = 0;
  std::vector<int32_t> nodes;  // of the whole blocks among them, in order
  int32_t partial = -1;        // node whose block has the tokens beyond those, and others; -1: none
};

/// Where in the tree a sequence is whose blocks it takes in: the node of its last one there, which
/// does not go while the cursor stands on it. Must not outlive its tree.
class PrefixCursor {
 public:
  PrefixCursor() = default;
  PrefixCursor(PrefixCursor&& other) noexcept
      : tree_(std::exchange(other.tree_, nullptr)),
        node_(other.node_),
        tenant_(other.tenant_),
        depth_(other.depth_) {}
  PrefixCursor& operator=(PrefixCursor&& other) noexcept {
    std::swap(tree_, other.tree_);
    std::swap(node_, other.node_);
    std::swap(tenant_, other.tenant_);
    std::swap(depth_, other.depth_);
    return *this;
  }
  ~PrefixCursor();

 private:
  friend class PrefixTree;
  PrefixCursor(PrefixTree& tree, int32_t node, int64_t depth);

  PrefixTree* tree_ = nullptr;  // null: the sequence's blocks are not taken in
  int32_t node_ = -1;           // -1: above the first block
  int32_t tenant_ = -1;         // number of its sequence's tenant; -1: nobody has asked for it
  int64_t depth_ = 0;           // blocks
};

/// A walk along the full blocks of a sequence, whether the tree has them or not.
struct PrefixWalk {
  int64_t depth = 0;    // blocks behind it
  int32_t node = -1;    // of the last one; -1: above the first, or the tree has not got it
  bool is_off = false;  // the tree has not got it
  Hash128 key;          // of its name
};

/// A radix tree over full blocks of tokens (Zheng et al., SGLang, 2024): each node is a block's
/// tokens below those before it, and names the block of every cache group that has their keys and
/// values. Trees of different `Sequence::cache_domain` have nothing in common.
///
/// Most nodes are the only child of their parent, which leads to them; the others are found by a
/// hash. Either way a node is compared token by token, so that two hashes that are equal by chance
/// or by design do not lead to a wrong block.
///
/// The tree holds no reference: its blocks are free once no sequence has them, and the pools evict
/// the one that has been free for longest. As sequences give back their last block first, leaves
/// go before what they build on. A group with a window may lose early blocks and still serve
/// later ones; what one group has lost the next sequence with these tokens brings back.
///
/// Where pools have shares, a block is kept for the tenant of the sequence that brought it, whoever
/// may find it. Tenants are known for as long as the tree has blocks of theirs.
///
/// All memory is taken at construction, but for what a match returns and the names of tenants. One
/// thread.
class PrefixTree {
 public:
  /// The pools must outlive the tree, which listens to their evictions, and the tree the cursors.
  PrefixTree(std::span<const PrefixGroup> groups, int64_t block_size);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// The longest beginning of at most `limit` tokens that every group has all of that the next
  /// token sees. Where the whole blocks end, a block of which only leading tokens agree counts,
  /// too.
  void match(const Sequence& sequence, int64_t limit, PrefixMatch& found);
  /// How many free blocks of a group fewer a sequence takes that begins with a match: its blocks
  /// that others have as well, less the one to be copied from.
  int64_t num_saved(const PrefixMatch& found, size_t group) const;
  /// How many of a group's free blocks that are held (BlockHold) a sequence takes up that begins
  /// with a match.
  int64_t num_held(const PrefixMatch& found, size_t group) const;
  /// References to all blocks of a match, so that they are not free meanwhile.
  [[nodiscard]] PathRefs hold(const PrefixMatch& found);
  /// Makes empty tables, one per group, begin with a match. The last block, if only a part of it
  /// counts, is a new one to copy into: then adds to `copies`, and to `sources` what keeps the
  /// original from being written before that is done. The pools must have a block for that.
  [[nodiscard]] PrefixCursor begin(const PrefixMatch& found, std::span<BlockTable> tables,
                                   std::vector<BlockCopy>& copies, std::vector<BlockRef>& sources);
  /// A cursor for a sequence that begins with the first `num_blocks` blocks of another one.
  [[nodiscard]] PrefixCursor begin(const PrefixCursor& other, int64_t num_blocks);

  /// Takes in what has become full of the computed blocks of a sequence. Where the tree has the
  /// same contents already, the table gets those instead.
  void extend(PrefixCursor& cursor, const Sequence& sequence, std::span<BlockTable> tables);
  /// The same for blocks whose contents are still to come, up to the first `num_blocks`. Where a
  /// table has none, the tree gets none.
  void extend(PrefixCursor& cursor, const Sequence& sequence, std::span<BlockTable> tables,
              int64_t num_blocks);
  /// With how many computed tokens of a sequence there is something to take in; INT64_MAX: never.
  int64_t next_extension(const PrefixCursor& cursor) const {
    return cursor.tree_ == nullptr ? INT64_MAX : (cursor.depth_ + 1) * block_size_;
  }
  /// Begins to bring what `extend` will look at into the caches. `ids` are those of a table of the
  /// group.
  void fetch(const PrefixCursor& cursor, size_t group, std::span<const int32_t> ids) const {
    if (cursor.node_ >= 0) nodes_.fetch(cursor.node_);
    const auto entry = static_cast<size_t>(cursor.depth_);
    if (entry < ids.size() && ids[entry] >= 0) groups_[group].pool->fetch(ids[entry]);
  }

  /// From now on nodes have names, and whoever listens is told of each block that the tree loses,
  /// with its index in its sequence, while its contents are still there. Before the first node.
  using LoseListener = std::function<void(const BlockName& name, int64_t index, int32_t block)>;
  void on_lose(LoseListener listener);
  /// Goes on to the next block of a sequence, which must be full. Returns its name, but for the
  /// group; its tokens are valid until the next call.
  BlockName next(const Sequence& sequence, PrefixWalk& walk);
  /// The block of a group at the end of a walk; -1: there is none.
  int32_t block_of(const PrefixWalk& walk, size_t group) const {
    return walk.node < 0 ? -1 : block(walk.node, group);
  }
  /// The first block of a group that the token behind `num_tokens` others sees.
  int64_t first_block(size_t group, int64_t num_tokens) const {
    return first_block(groups_[group], num_tokens);
  }

  /// Tenants of which there are blocks, or that are about to bring some; 0 without shares.
  int64_t num_tenants() const { return tenants_.size(); }
  int64_t num_nodes() const {
    return static_cast<int64_t>(nodes_.size()) - static_cast<int64_t>(free_nodes_.size());
  }

 private:
  friend class PrefixCursor;
  /// Of the hash table, which is at most half full: a node is in the first free slot from where its
  /// tag points on.
  struct Slot {
    uint32_t tag = 0;   // the node's hash
    int32_t node = -1;  // -1: free
  };
  struct Group {
    BlockPool* pool = nullptr;
    int64_t window = 0;
    int64_t run = 0;  // nodes of a match up to its end that have a block of this group
  };

  /// What a lower tier knows a node by.
  struct Named {
    Hash128 key;        // BlockName::key
    int64_t index = 0;  // in its sequence
  };

  /// What identifies a node beside its tokens.
  struct Key {
    int32_t parent = -1;
    Hash128 domain;
  };

  std::span<const int32_t> read(const Sequence& sequence, int64_t begin, int64_t count);
  static uint32_t tag_of(const Key& key, std::span<const int32_t> tokens);
  /// A node whose tokens are those of block_; -1: there is none.
  int32_t find(const Key& key) const;
  int32_t find_hashed(const Key& key) const;
  int32_t find_partial(const Sequence& sequence, const PrefixMatch& found, int64_t limit,
                       int64_t& num_common);
  int32_t add(const Key& key);
  int32_t number(PrefixCursor& cursor, const Sequence& sequence, const BlockPool& pool);
  void unpin(int32_t node);
  void prune(int32_t node);
  void lose(size_t group, int32_t node, int32_t block_id);
  Hash128 name(const Hash128& parent) const;
  const Hash128& name_above(int32_t node) const {
    const int32_t parent = at(node).parent;
    return parent < 0 ? domain(node) : names_[static_cast<size_t>(parent)].key;
  }
  void enter(const Key& key, int32_t node);
  void erase(int32_t node);
  void fetch_next_evicted(size_t group) const;
  void fetch_next_free() const;
  void fetch_first(const PrefixCursor& cursor, const Sequence& sequence,
                   std::span<const BlockTable> tables, int64_t num_blocks) const;

  int64_t first_block(const Group& group, int64_t num_tokens) const;
  bool has_all_blocks(int32_t node) const;
  PrefixNode& at(int32_t node) { return nodes_[node]; }
  const PrefixNode& at(int32_t node) const { return nodes_[node]; }
  int32_t& block(int32_t node, size_t group) { return nodes_.blocks(node)[group]; }
  int32_t block(int32_t node, size_t group) const { return nodes_.blocks(node)[group]; }
  std::span<const int32_t> tokens(int32_t node) const { return nodes_.tokens(node); }
  /// The domain of a node without a parent; the others have that of their parent.
  Hash128& domain(int32_t node) { return domains_[static_cast<size_t>(node)]; }
  const Hash128& domain(int32_t node) const { return domains_[static_cast<size_t>(node)]; }
  int32_t& first_child(int32_t parent, const Hash128& domain) {
    return parent < 0 ? tops_[domain.low & (tops_.size() - 1)] : at(parent).first_child;
  }

  const int64_t block_size_;
  std::vector<Group> groups_;
  PrefixNodes nodes_;
  HugeVector<int32_t> free_nodes_;   // their numbers
  HugeVector<Hash128> domains_;      // by node
  HugeVector<Slot> slots_;           // by tag
  HugeVector<int32_t> tops_;         // first node without a parent, by domain; -1: none
  std::span<const int32_t> block_;   // the tokens just read, in their sequence or in straddling_
  std::vector<int32_t> straddling_;  // those of a block that begins in a prompt and ends behind it
  TenantNumbers tenants_;            // each cursor refers to its own, each pool to those it has
  LoseListener on_lose_;
  HugeVector<Named> names_;  // by node, if anybody listens
};

}  // namespace hasten::engine
