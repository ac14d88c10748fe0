// SPDX-License-Identifier: Apache-2.0
// Walking, growing and pruning the tree of cached prefixes.
#include "engine/kv_cache/prefix_tree.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/prefetch.h"

namespace hasten::engine {
namespace {

// Where prompts part in more ways than this, the newest ones are looked at for common tokens. At
// most one block of tokens is to be gained, and a look is a way to memory that waits for the one
// before it.
constexpr int kMaxBranches = 16;

// Every node has a block where a group keeps all of them. Where all groups have a window, most
// nodes of a long sequence only lead to those that have; a sequence that is longer still is cached
// in part.
constexpr size_t kNodesPerWindowBlock = 8;

// So far ahead of the block that is taken in others are fetched.
constexpr int64_t kFetchedBlocks = 8;

size_t most_nodes(std::span<const PrefixGroup> groups) {
  size_t num_nodes = 0;
  bool all_windows = true;
  for (const PrefixGroup& group : groups) {
    num_nodes += static_cast<size_t>(group.pool->num_blocks());
    all_windows = all_windows && group.window > 0;
  }
  return all_windows ? num_nodes * kNodesPerWindowBlock : num_nodes;
}

int64_t num_common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PrefixCursor::PrefixCursor(PrefixTree& tree, int32_t node, int64_t depth)
    : tree_(&tree), node_(node), depth_(depth) {
  if (node >= 0) ++tree.at(node).num_cursors;
}

PrefixCursor::~PrefixCursor() {
  if (tree_ == nullptr) return;
  tree_->unpin(node_);
  if (tenant_ >= 0) tree_->tenants_.leave(tenant_);
}

PrefixTree::PrefixTree(std::span<const PrefixGroup> groups, int64_t block_size)
    : block_size_(block_size),
      nodes_(most_nodes(groups), groups.size(), static_cast<size_t>(block_size)),
      straddling_(static_cast<size_t>(block_size)) {
  for (const PrefixGroup& group : groups) {
    groups_.push_back({.pool = group.pool, .window = group.window});
    group.pool->on_evict(
        [this, g = groups_.size() - 1](int32_t id, int32_t node) { lose(g, node, id); });
    if (group.pool->has_shares()) {
      group.pool->on_last_of([this](int32_t tenant) { tenants_.leave(tenant); });
    }
  }
  const size_t num_nodes = nodes_.size();
  for (size_t i = num_nodes; i-- > 0;) free_nodes_.push_back(static_cast<int32_t>(i));
  domains_.resize(num_nodes);
  slots_.resize(std::bit_ceil(2 * num_nodes + 1));
  tops_.resize(std::bit_ceil(num_nodes + 1), -1);
}

PrefixTree::~PrefixTree() {
  for (const Group& group : groups_) {
    group.pool->on_evict(nullptr);
    group.pool->on_last_of(nullptr);
  }
}

void PrefixTree::match(const Sequence& sequence, int64_t limit, PrefixMatch& found) {
  found.nodes.clear();
  found.partial = -1;
  for (Group& group : groups_) group.run = 0;
  size_t num_usable = 0;
  for (int64_t end = block_size_; end <= limit; end += block_size_) {
    const int32_t parent = found.nodes.empty() ? -1 : found.nodes.back();
    read(sequence, end - block_size_, block_size_);
    const int32_t node = find({.parent = parent, .domain = sequence.cache_domain});
    if (node < 0) break;
    found.nodes.push_back(node);
    bool usable = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.run = block(node, g) >= 0 ? group.run + 1 : 0;
      usable = usable && std::ssize(found.nodes) - group.run <= first_block(group, end);
    }
    if (usable) num_usable = found.nodes.size();
  }
  found.nodes.resize(num_usable);
  found.num_tokens = static_cast<int64_t>(num_usable) * block_size_;
  int64_t common = 0;
  found.partial = find_partial(sequence, found, limit, common);
  found.num_tokens += common;
}

/// A child of the match's last node whose block begins with tokens that the sequence goes on with.
int32_t PrefixTree::find_partial(const Sequence& sequence, const PrefixMatch& found, int64_t limit,
                                 int64_t& num_common_tokens) {
  const auto next =
      read(sequence, found.num_tokens, std::min(block_size_ - 1, limit - found.num_tokens));
  if (next.empty()) return -1;
  int32_t best = -1;
  const int32_t parent = found.nodes.empty() ? -1 : found.nodes.back();
  int32_t child = first_child(parent, sequence.cache_domain);
  for (int i = 0; child >= 0 && i < kMaxBranches; ++i, child = at(child).next_sibling) {
    if (tokens(child).front() != next.front() || !has_all_blocks(child)) continue;
    if (parent < 0 && domain(child) != sequence.cache_domain) continue;
    const int64_t common = num_common(next, tokens(child).first(next.size()));
    if (common <= num_common_tokens) continue;
    num_common_tokens = common;
    best = child;
  }
  return best;
}

int64_t PrefixTree::num_saved(const PrefixMatch& found, size_t g) const {
  const Group& group = groups_[g];
  const auto is_used = [&](int32_t node) { return group.pool->ref_count(block(node, g)) > 0; };
  const auto first = static_cast<std::ptrdiff_t>(
      std::min(first_block(group, found.num_tokens), std::ssize(found.nodes)));
  const int64_t shared = std::count_if(found.nodes.begin() + first, found.nodes.end(), is_used);
  return shared - (found.partial >= 0 && !is_used(found.partial) ? 1 : 0);
}

int64_t PrefixTree::num_held(const PrefixMatch& found, size_t g) const {
  return std::ranges::count_if(found.nodes, [&](int32_t node) {
    const int32_t id = block(node, g);
    return id >= 0 && groups_[g].pool->ref_count(id) == 0 && groups_[g].pool->is_held(id);
  });
}

PathRefs PrefixTree::hold(const PrefixMatch& found) {
  PathRefs held;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t first = first_block(groups_[g], found.num_tokens);
    for (int64_t i = first; i < std::ssize(found.nodes); ++i)
      held.add(groups_[g].pool->share(block(found.nodes[static_cast<size_t>(i)], g)));
    if (found.partial >= 0) held.add(groups_[g].pool->share(block(found.partial, g)));
  }
  return held;
}

PrefixCursor PrefixTree::begin(const PrefixMatch& found, std::span<BlockTable> tables,
                               std::vector<BlockCopy>& copies, std::vector<BlockRef>& sources) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const int64_t first = first_block(group, found.num_tokens);
    for (int64_t i = 0; i < std::ssize(found.nodes); ++i)
      tables[g].append(i < first
                           ? BlockRef()
                           : group.pool->share(block(found.nodes[static_cast<size_t>(i)], g)));
  }
  const auto depth = std::ssize(found.nodes);
  PrefixCursor cursor(*this, depth > 0 ? found.nodes.back() : -1, depth);
  if (found.partial < 0) return cursor;
  for (size_t g = 0; g < groups_.size(); ++g)
    sources.push_back(groups_[g].pool->share(block(found.partial, g)));
  // Only now, as this may evict what is not referenced.
  for (size_t g = 0; g < groups_.size(); ++g) {
    HASTEN_CHECK(tables[g].extend(found.num_tokens));
    copies.push_back({.group = static_cast<int32_t>(g),
                      .from = sources[sources.size() - groups_.size() + g].id(),
                      .to = tables[g].ids().back()});
  }
  return cursor;
}

PrefixCursor PrefixTree::begin(const PrefixCursor& other, int64_t num_blocks) {
  if (other.tree_ == nullptr) return {};
  int32_t node = other.node_;
  for (int64_t depth = other.depth_; depth > num_blocks; --depth) node = at(node).parent;
  return {*this, node, std::min(other.depth_, num_blocks)};
}

void PrefixTree::extend(PrefixCursor& cursor, const Sequence& sequence,
                        std::span<BlockTable> tables) {
  extend(cursor, sequence, tables, sequence.num_computed / block_size_);
}

void PrefixTree::extend(PrefixCursor& cursor, const Sequence& sequence,
                        std::span<BlockTable> tables, int64_t num_blocks) {
  if (cursor.tree_ == nullptr || cursor.depth_ >= num_blocks) return;
  fetch_first(cursor, sequence, tables, num_blocks);
  Key key = {.parent = cursor.node_, .domain = sequence.cache_domain};
  while (cursor.depth_ < num_blocks) {
    read(sequence, cursor.depth_ * block_size_, block_size_);
    int32_t node = find(key);
    if (node < 0) node = add(key);
    if (node < 0) {
      cursor = PrefixCursor();
      return;
    }
    const std::span<int32_t> blocks = nodes_.blocks(node);
    for (size_t g = 0; g < groups_.size(); ++g) {
      BlockPool& pool = *groups_[g].pool;
      const auto ids = tables[g].ids().subspan(static_cast<size_t>(cursor.depth_));
      if (std::ssize(ids) > kFetchedBlocks && ids[kFetchedBlocks] >= 0)
        pool.fetch(ids[kFetchedBlocks]);
      const int32_t own = ids.front();
      const int32_t known = blocks[g];
      if (own < 0 || own == known) continue;  // out of the window, or shared
      if (known >= 0) {
        tables[g].replace(cursor.depth_, pool.share(known));
      } else {
        pool.keep(own, node, pool.has_shares() ? number(cursor, sequence, pool) : 0);
        blocks[g] = own;
      }
    }
    ++at(node).num_cursors;
    if (key.parent >= 0) --at(key.parent).num_cursors;  // it has a child: it stays
    cursor.node_ = key.parent = node;
    ++cursor.depth_;
  }
}

/// The number of a sequence's tenant, for which a pool is about to keep a block.
int32_t PrefixTree::number(PrefixCursor& cursor, const Sequence& sequence, const BlockPool& pool) {
  if (cursor.tenant_ < 0) cursor.tenant_ = tenants_.join(sequence.tenant);
  if (pool.num_kept(cursor.tenant_) == 0) tenants_.refer(cursor.tenant_);
  return cursor.tenant_;
}

void PrefixTree::on_lose(LoseListener listener) {
  on_lose_ = std::move(listener);
  names_.resize(nodes_.size());
}

BlockName PrefixTree::next(const Sequence& sequence, PrefixWalk& walk) {
  const Hash128 parent = walk.depth == 0 ? sequence.cache_domain : walk.key;
  read(sequence, walk.depth * block_size_, block_size_);
  if (!walk.is_off) {
    walk.node = find({.parent = walk.node, .domain = sequence.cache_domain});
    walk.is_off = walk.node < 0;
  }
  walk.key = walk.is_off ? name(parent) : names_[static_cast<size_t>(walk.node)].key;
  ++walk.depth;
  return {.key = walk.key, .parent = parent, .group = 0, .tokens = block_};
}

/// The key of the name of a block with the tokens of block_ behind those with the key `parent`. A
/// hash of so many bits, keyed with the one before it and in the end with the domain, which is
/// secret: nobody can make two that are equal.
Hash128 PrefixTree::name(const Hash128& parent) const {
  const auto bytes = std::as_bytes(block_);
  return siphash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, parent);
}

/// Makes block_ some tokens of a sequence: valid until it changes, or the next call.
std::span<const int32_t> PrefixTree::read(const Sequence& sequence, int64_t begin, int64_t count) {
  const auto size = static_cast<size_t>(std::max<int64_t>(0, count));
  const int64_t behind = begin - sequence.num_prompt();  // of the prompt's end
  if (behind >= 0) {
    block_ = std::span(sequence.generated).subspan(static_cast<size_t>(behind), size);
  } else if (behind + count <= 0) {
    block_ = sequence.prompt.subspan(static_cast<size_t>(begin), size);
  } else {
    const auto generated =
        std::ranges::copy(sequence.prompt.last(static_cast<size_t>(-behind)), straddling_.begin())
            .out;
    std::copy_n(sequence.generated.begin(), behind + count, generated);
    block_ = std::span(straddling_).first(size);
  }
  return block_;
}

/// The hash of a block of tokens below a parent. The domain, which is secret, is in it, so that
/// nobody can choose where in the table a node goes. Products of neighbours do not wait for each
/// other, as a chain of them would (compare Lemire and Kaser, Faster 64-bit universal hashing using
/// carry-less multiplications, 2016).
uint32_t PrefixTree::tag_of(const Key& key, std::span<const int32_t> tokens) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  const auto word = [&](size_t i) {
    uint64_t value = 0;
    if (i < tokens.size())
      std::memcpy(&value, &tokens[i], std::min<size_t>(2, tokens.size() - i) * sizeof(int32_t));
    return value;
  };
  const uint64_t seed = mix64(key.domain.high ^ (kStep * static_cast<uint32_t>(key.parent)));
  uint64_t sum = seed;
  for (size_t i = 0; i < tokens.size(); i += 4) {
    const uint64_t offset = seed + kStep * (i + 1);
    __extension__ using Wide = unsigned __int128;
    const Wide product =
        static_cast<Wide>(word(i) ^ offset) * (word(i + 2) ^ std::rotl(offset, 32));
    sum += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return static_cast<uint32_t>(mix64(sum));
}

int32_t PrefixTree::find(const Key& key) const {
  if (key.parent < 0) return find_hashed(key);
  const int32_t child = at(key.parent).first_child;
  if (child < 0) return -1;
  if (at(child).next_sibling >= 0) return find_hashed(key);
  return std::ranges::equal(tokens(child), block_) ? child : -1;
}

int32_t PrefixTree::find_hashed(const Key& key) const {
  const size_t mask = slots_.size() - 1;
  const uint32_t tag = tag_of(key, block_);
  for (size_t i = tag & mask; slots_[i].node >= 0; i = (i + 1) & mask) {
    const int32_t node = slots_[i].node;
    if (slots_[i].tag == tag && at(node).parent == key.parent &&
        (key.parent >= 0 || domain(node) == key.domain) && std::ranges::equal(tokens(node), block_))
      return node;
  }
  return -1;
}

/// Gives a node a slot, unless it has one.
void PrefixTree::enter(const Key& key, int32_t node) {
  if (std::exchange(at(node).is_hashed, true)) return;
  const size_t mask = slots_.size() - 1;
  at(node).tag = tag_of(key, tokens(node));
  size_t i = at(node).tag & mask;
  while (slots_[i].node >= 0) i = (i + 1) & mask;
  slots_[i] = {.tag = at(node).tag, .node = node};
}

/// Frees a node's slot, if it has one, and moves those behind it up that would not be found beyond
/// a free one.
void PrefixTree::erase(int32_t node) {
  if (!at(node).is_hashed) return;
  const size_t mask = slots_.size() - 1;
  size_t hole = at(node).tag & mask;
  while (slots_[hole].node != node) hole = (hole + 1) & mask;
  for (size_t i = (hole + 1) & mask; slots_[i].node >= 0; i = (i + 1) & mask) {
    const size_t distance = (i - (slots_[i].tag & mask)) & mask;
    if (distance < ((i - hole) & mask)) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole] = {};
}

/// A new node without blocks. -1 when there is none, not even by eviction.
int32_t PrefixTree::add(const Key& key) {
  while (free_nodes_.empty()) {
    bool evicted = false;
    for (const Group& group : groups_) evicted = group.pool->evict() || evicted;
    if (!evicted) return -1;
  }
  const int32_t id = free_nodes_.back();
  free_nodes_.pop_back();
  fetch_next_free();
  int32_t& head = first_child(key.parent, key.domain);
  at(id) = {.parent = key.parent, .next_sibling = head};
  std::ranges::copy(block_, nodes_.tokens(id).begin());
  if (key.parent < 0) domain(id) = key.domain;
  if (key.parent < 0 || head >= 0) enter(key, id);
  if (head >= 0) {
    at(head).previous_sibling = id;
    if (key.parent >= 0) enter(key, head);  // the others of its list have a slot already
  }
  head = id;
  if (on_lose_) {
    const int64_t index = key.parent < 0 ? 0 : names_[static_cast<size_t>(key.parent)].index + 1;
    names_[static_cast<size_t>(id)] = {.key = name(name_above(id)), .index = index};
  }
  return id;
}

void PrefixTree::unpin(int32_t node) {
  if (node < 0) return;
  --at(node).num_cursors;
  prune(node);
}

/// Removes a node, and those above it, if it has become of no use to anybody.
void PrefixTree::prune(int32_t node) {
  while (node >= 0) {
    if (at(node).num_cursors > 0 || at(node).first_child >= 0) return;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (block(node, g) >= 0) return;
    const PrefixNode gone = at(node);
    if (gone.next_sibling >= 0) at(gone.next_sibling).previous_sibling = gone.previous_sibling;
    if (gone.previous_sibling >= 0)
      at(gone.previous_sibling).next_sibling = gone.next_sibling;
    else
      first_child(gone.parent, domain(node)) = gone.next_sibling;
    erase(node);
    free_nodes_.push_back(node);
    node = gone.parent;
  }
}

/// A pool has evicted the block of a node.
void PrefixTree::lose(size_t group, int32_t node, int32_t block_id) {
  fetch_next_evicted(group);
  block(node, group) = -1;  // even if the listener throws
  if (on_lose_) {
    const Named& named = names_[static_cast<size_t>(node)];
    on_lose_({.key = named.key,
              .parent = name_above(node),
              .group = static_cast<int32_t>(group),
              .tokens = tokens(node)},
             named.index, block_id);
  }
  prune(node);
}

/// Blocks are evicted in the order in which they became free, so it is known what the next eviction
/// will look at, and that it has long left the caches.
void PrefixTree::fetch_next_evicted(size_t group) const {
  const int32_t node = groups_[group].pool->owner_ahead();
  if (node >= 0) nodes_.fetch_whole(node);  // with its tokens: the next new node takes its place
}

/// Begins to bring what the next nodes will be written over into the caches.
void PrefixTree::fetch_next_free() const {
  constexpr size_t kAhead = 6;
  if (free_nodes_.size() >= kAhead) nodes_.fetch_whole(free_nodes_[free_nodes_.size() - kAhead]);
}

/// Begins to bring what `extend` will look at of the first of the blocks up to `num_blocks` into
/// the caches. The tokens of the others lie behind theirs.
void PrefixTree::fetch_first(const PrefixCursor& cursor, const Sequence& sequence,
                             std::span<const BlockTable> tables, int64_t num_blocks) const {
  if (cursor.node_ >= 0) nodes_.fetch(cursor.node_);
  const int64_t end = std::min(cursor.depth_ + kFetchedBlocks, num_blocks);
  for (int64_t i = cursor.depth_; i < end; ++i) {
    prefetch(sequence.token_address(i * block_size_));
    for (size_t g = 0; g < groups_.size(); ++g)
      if (const int32_t id = tables[g].ids()[static_cast<size_t>(i)]; id >= 0)
        groups_[g].pool->fetch(id);
  }
}

/// The first block that the token behind `num_tokens` others sees.
int64_t PrefixTree::first_block(const Group& group, int64_t num_tokens) const {
  return group.window > 0 ? std::max<int64_t>(0, num_tokens - group.window + 1) / block_size_ : 0;
}

bool PrefixTree::has_all_blocks(int32_t node) const {
  for (size_t g = 0; g < groups_.size(); ++g)
    if (block(node, g) < 0) return false;
  return true;
}

}  // namespace hasten::engine
