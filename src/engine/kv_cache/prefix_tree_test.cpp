// SPDX-License-Identifier: Apache-2.0
// Cached prefixes, each block of a match held to the tokens that were written into it.
#include "engine/kv_cache/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kBlockSize = 4;

/// Counts from `first`.
std::vector<int32_t> range(int32_t first, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A sequence that holds blocks.
struct Held {
  std::vector<int32_t> prompt;
  std::string tenant;
  Sequence sequence;
  std::vector<BlockTable> tables;
  PrefixCursor cursor;
  std::vector<BlockCopy> copies;
  std::vector<BlockRef> sources;
  int64_t num_matched = 0;
};

/// Pools of blocks that remember what was written where, and a tree over them.
class World {
 public:
  World(std::vector<int64_t> windows, int64_t num_blocks, double tenant_share = 1)
      : windows_(std::move(windows)) {
    std::vector<PrefixGroup> groups;
    for (const int64_t window : windows_) {
      pools_.emplace_back(num_blocks, tenant_share);
      groups.push_back({.pool = &pools_.back(), .window = window});
      slots_.emplace_back(static_cast<size_t>(num_blocks * kBlockSize));
    }
    tree_ = std::make_unique<PrefixTree>(groups, kBlockSize);
  }

  PrefixMatch match(const std::vector<int32_t>& prompt, Hash128 domain = {}) {
    Sequence sequence;
    sequence.prompt = prompt;
    sequence.cache_domain = domain;
    PrefixMatch found;
    tree_->match(sequence, std::ssize(prompt) - 1, found);
    return found;
  }
  int64_t num_matched(const std::vector<int32_t>& prompt, Hash128 domain = {}) {
    return match(prompt, domain).num_tokens;
  }

  /// Begins with what is cached and computes the rest, `chunk` tokens at a time. Null when blocks
  /// run out.
  std::unique_ptr<Held> run(std::vector<int32_t> prompt, Hash128 domain = {}, int64_t chunk = 5,
                            const std::string& tenant = {}) {
    auto held = std::make_unique<Held>();
    held->prompt = std::move(prompt);
    held->tenant = tenant;
    Sequence& sequence = held->sequence;
    sequence.prompt = held->prompt;
    sequence.tenant = held->tenant;
    sequence.cache_domain = domain;
    for (BlockPool& pool : pools_) held->tables.emplace_back(pool, kBlockSize);
    PrefixMatch found;
    tree_->match(sequence, sequence.num_prompt() - 1, found);
    for (size_t g = 0; g < pools_.size(); ++g)
      if (ceil_div(found.num_tokens, kBlockSize) + 1 > pools_[g].num_free()) return nullptr;
    held->cursor = tree_->begin(found, held->tables, held->copies, held->sources);
    held->num_matched = sequence.num_computed = found.num_tokens;
    for (const BlockCopy& copy : held->copies) {
      auto& slots = slots_[static_cast<size_t>(copy.group)];
      std::copy_n(slots.begin() + copy.from * kBlockSize, kBlockSize,
                  slots.begin() + copy.to * kBlockSize);
    }
    held->sources.clear();
    check(*held);
    while (sequence.num_computed < sequence.num_prompt()) {
      if (!compute(*held, std::min(chunk, sequence.num_prompt() - sequence.num_computed)))
        return nullptr;
    }
    return held;
  }

  /// One step. False when blocks run out.
  bool compute(Held& held, int64_t count) {
    Sequence& sequence = held.sequence;
    for (size_t g = 0; g < pools_.size(); ++g) {
      if (windows_[g] > 0)
        held.tables[g].release_before(
            std::max<int64_t>(0, sequence.num_computed - windows_[g] + 1));
      if (!held.tables[g].extend(sequence.num_computed + count)) return false;
      for (int64_t p = sequence.num_computed; p < sequence.num_computed + count; ++p)
        slot(held, g, p) = content(sequence, p);
    }
    sequence.num_computed += count;
    tree_->extend(held.cursor, sequence, held.tables);
    check(held);
    return true;
  }

  /// Every position that the next token sees holds its own contents.
  void check(Held& held) {
    const int64_t end = held.sequence.num_computed;
    for (size_t g = 0; g < pools_.size(); ++g) {
      const int64_t window = windows_[g];
      const int64_t begin = window > 0 ? std::max<int64_t>(0, end - window + 1) : 0;
      ASSERT_TRUE(begin == end || held.tables[g].covers(begin, end));
      for (int64_t p = begin; p < end; ++p)
        ASSERT_EQ(slot(held, g, p), content(held.sequence, p)) << "position " << p;
    }
  }

  BlockPool& pool(size_t group = 0) { return pools_[group]; }
  PrefixTree& tree() { return *tree_; }
  size_t num_groups() const { return pools_.size(); }

 private:
  /// What the keys and values of a position depend on: all tokens up to it, and nothing else.
  static uint64_t content(const Sequence& sequence, int64_t position) {
    uint64_t hash = sequence.cache_domain.low + 1;
    for (int64_t p = 0; p <= position; ++p)
      hash = hash * 1099511628211U + static_cast<uint64_t>(sequence.token(p)) + 7;
    return hash;
  }
  uint64_t& slot(const Held& held, size_t g, int64_t position) {
    const int32_t id = held.tables[g].ids()[static_cast<size_t>(position / kBlockSize)];
    return slots_[g].at(static_cast<size_t>(id * kBlockSize + position % kBlockSize));
  }

  std::vector<int64_t> windows_;
  std::deque<BlockPool> pools_;
  std::vector<std::vector<uint64_t>> slots_;  // by group
  std::unique_ptr<PrefixTree> tree_;
};

TEST(PrefixTree, FindsTheWholeBlocksOfABeginning) {
  World world({0}, 20);
  const auto first = world.run(range(0, 14));
  EXPECT_EQ(first->num_matched, 0);
  EXPECT_EQ(world.num_matched(range(0, 12) + range(90, 9)), 12);
  EXPECT_EQ(world.num_matched(range(0, 8) + range(90, 9)), 8);
  EXPECT_EQ(world.num_matched(range(90, 9)), 0);
  // Never all of it: the last token runs, for its logits.
  EXPECT_EQ(world.num_matched(range(0, 12)), 11);
  EXPECT_EQ(world.num_matched(range(0, 13)), 12);

  const auto second = world.run(range(0, 8) + range(90, 9));
  EXPECT_THAT(second->tables[0].ids().first(2),
              ::testing::ElementsAreArray(first->tables[0].ids().first(2)));
  EXPECT_TRUE(second->copies.empty());
}

TEST(PrefixTree, FindsEveryWayOnFromABeginning) {
  World world({0}, 60);
  std::vector<std::unique_ptr<Held>> ways;
  for (const int32_t first : {100, 200, 300, 400}) {
    ways.push_back(world.run(range(0, 8) + range(first, 9)));
    // Those before it are found as before, be they the only one or one of many.
    for (int32_t other = 100; other <= first; other += 100)
      EXPECT_EQ(world.num_matched(range(0, 8) + range(other, 9)), 16) << other << " of " << first;
  }
}

TEST(PrefixTree, CopiesTheBlockWhoseBeginningAgrees) {
  World world({0}, 20);
  auto first = world.run(range(0, 12));
  auto other = world.run(range(0, 5) + range(70, 7));
  EXPECT_EQ(other->num_matched, 5);
  ASSERT_EQ(other->copies.size(), 1U);
  EXPECT_EQ(other->copies[0].from, first->tables[0].ids()[1]);
  EXPECT_EQ(other->copies[0].to, other->tables[0].ids()[1]);
  // Of several the one with most in common, whichever came last.
  EXPECT_EQ(world.num_matched(range(0, 7) + range(60, 9)), 7);
  EXPECT_EQ(world.num_matched(range(0, 5) + range(70, 2) + range(60, 9)), 7);
  EXPECT_EQ(world.num_matched({0, 9, 9, 9, 9}), 1);
}

TEST(PrefixTree, KeepsTheSourceOfACopyUntilItIsMade) {
  World world({0}, 3);
  { const auto first = world.run(range(0, 8)); }
  EXPECT_EQ(world.pool().num_idle(), 2);
  Sequence sequence;
  const auto prompt = range(0, 6);
  sequence.prompt = prompt;
  PrefixMatch found;
  world.tree().match(sequence, 5, found);
  EXPECT_EQ(world.tree().num_saved(found, 0), -1);
  std::vector<BlockTable> tables;
  tables.emplace_back(world.pool(), kBlockSize);
  std::vector<BlockCopy> copies;
  std::vector<BlockRef> sources;
  const auto cursor = world.tree().begin(found, tables, copies, sources);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(world.pool().num_free(), 0);
  EXPECT_EQ(world.pool().ref_count(copies[0].from), 1);
  sources.clear();
  EXPECT_EQ(world.pool().num_free(), 1);
  EXPECT_EQ(world.tree().num_saved(found, 0), 0);
}

TEST(PrefixTree, DomainsHaveNothingInCommon) {
  World world({0}, 20);
  const Hash128 ours = {.low = 1, .high = 2};
  const auto first = world.run(range(0, 14), ours);
  EXPECT_EQ(world.num_matched(range(0, 14), ours), 12);
  EXPECT_EQ(world.num_matched(range(0, 14)), 0);
  EXPECT_EQ(world.num_matched(range(0, 14), {.low = 1, .high = 3}), 0);
  EXPECT_EQ(world.num_matched(range(0, 14), {.low = 2, .high = 2}), 0);
}

TEST(PrefixTree, EqualContentsAreKeptOnce) {
  World world({0}, 20);
  // The second one began before the first was there, so both computed everything.
  Held second;
  second.prompt = range(0, 12);
  second.sequence.prompt = second.prompt;
  second.tables.emplace_back(world.pool(), kBlockSize);
  second.cursor = world.tree().begin({}, second.tables, second.copies, second.sources);
  const auto first = world.run(range(0, 12));
  ASSERT_TRUE(world.compute(second, 11));
  EXPECT_EQ(second.tables[0].ids()[0], first->tables[0].ids()[0]);
  EXPECT_EQ(second.tables[0].ids()[1], first->tables[0].ids()[1]);
  EXPECT_NE(second.tables[0].ids()[2], first->tables[0].ids()[2]);
  EXPECT_EQ(world.pool().num_free(), 16);
  EXPECT_EQ(world.tree().num_nodes(), 3);
}

TEST(PrefixTree, ASiblingsCursorStandsWhereTheSharedBlocksEnd) {
  World world({0}, 20);
  const auto first = world.run(range(0, 14));
  Held sibling;
  sibling.prompt = range(0, 9);
  sibling.sequence.prompt = sibling.prompt;
  sibling.sequence.num_computed = 8;
  sibling.tables.emplace_back(world.pool(), kBlockSize);
  ASSERT_FALSE(sibling.tables[0].share_prefix(first->tables[0], 8));
  sibling.cursor = world.tree().begin(first->cursor, 2);
  sibling.sequence.generated = {50, 51, 52};
  ASSERT_TRUE(world.compute(sibling, 4));
  EXPECT_EQ(world.num_matched(range(0, 9) + range(50, 9)), 12);
}

TEST(PrefixTree, EvictsLeavesFirstAndWhatWasUsedLongestAgo) {
  World world({0}, 6);
  { const auto old = world.run(range(0, 8)); }
  { const auto middle = world.run(range(100, 8)); }
  { const auto hot = world.run(range(0, 5)); }  // takes up the first block of `old`
  EXPECT_EQ(world.pool().num_free(), 6);
  const auto big = world.run(range(200, 12));  // needs three, of which two are free
  EXPECT_EQ(world.num_matched(range(100, 9)), 8);
  EXPECT_EQ(world.num_matched(range(0, 9)), 4);
  const auto more = world.run(range(300, 8));
  EXPECT_EQ(world.num_matched(range(100, 9)), 0);
  EXPECT_EQ(world.num_matched(range(0, 9)), 4);
}

TEST(PrefixTree, WhatWasHeldIsEvictedFromItsLastBlockOn) {
  World world({0}, 8);
  { const auto gone = world.run(range(0, 16)); }
  { const auto held = world.tree().hold(world.match(range(0, 15))); }
  ASSERT_TRUE(world.pool().evict());
  EXPECT_EQ(world.num_matched(range(0, 17)), 12);
  ASSERT_TRUE(world.pool().evict());
  EXPECT_EQ(world.num_matched(range(0, 17)), 8);
}

TEST(PrefixTree, GeneratedTokensAndThoseOfAnUnfinishedSequenceCount) {
  World world({0}, 20);
  const auto held = world.run(range(0, 6));
  for (int32_t token : {50, 51, 52}) {
    held->sequence.generated.push_back(token);
    ASSERT_TRUE(world.compute(*held, 1));
  }
  EXPECT_EQ(world.num_matched(range(0, 6) + range(50, 9)), 8);
}

TEST(PrefixTree, AWindowNeedsItsLastBlocksOnly) {
  World world({0, 6}, 20);
  const auto held = world.run(range(0, 24), {}, 1);
  EXPECT_EQ(held->tables[1].ids()[0], -1);
  while (world.pool(1).evict()) {
  }
  // The window's blocks that are left end at 24; a match that ends at 8 would need others.
  EXPECT_EQ(world.num_matched(range(0, 30)), 24);
  EXPECT_EQ(world.num_matched(range(0, 8) + range(90, 9)), 0);
  const auto again = world.run(range(0, 24) + range(60, 5));
  EXPECT_EQ(again->num_matched, 24);
  EXPECT_EQ(again->tables[1].ids()[3], -1);
  EXPECT_GE(again->tables[0].ids()[3], 0);

  // Who computes the lost ones anew brings them back.
  const auto healer = world.run(range(0, 8) + range(90, 9));
  EXPECT_EQ(healer->num_matched, 0);
  EXPECT_EQ(world.num_matched(range(0, 8) + range(95, 9)), 8);
}

TEST(PrefixTree, AModelOfWindowsAloneForgetsWhatNobodyCanUse) {
  World world({5}, 8);
  { ASSERT_TRUE(world.run(range(0, 100), {}, 3)); }
  EXPECT_EQ(world.num_matched(range(0, 103)), 100);
  EXPECT_EQ(world.tree().num_nodes(), 25);
  {
    // Longer than there are nodes: it runs, and the tree goes on with others.
    ASSERT_TRUE(world.run(range(1000, 400), {}, 3));
    EXPECT_EQ(world.num_matched(range(0, 103)), 0);
  }
  { ASSERT_TRUE(world.run(range(0, 100), {}, 3)); }
  EXPECT_EQ(world.num_matched(range(0, 103)), 100);
  while (world.pool().evict()) {
  }
  EXPECT_EQ(world.tree().num_nodes(), 0);
}

/// How many tokens of one tenant's prompt of 25, asked again four times, are found beside another
/// tenant that asks ten times as often, for something else each time.
int64_t found_beside_a_flood(double tenant_share, std::vector<int64_t> windows) {
  World world(std::move(windows), 20, tenant_share);
  { const auto hot = world.run(range(0, 25), {}, 5, "quiet"); }
  int64_t num_found = 0;
  for (int32_t i = 1; i <= 40; ++i) {
    { const auto flood = world.run(range(1000 * i, 25), {}, 5, "flood"); }
    if (i % 10 == 0) num_found += world.run(range(0, 25), {}, 5, "quiet")->num_matched;
  }
  return num_found;
}

TEST(PrefixTree, AFloodOfOneTenantLeavesWhatOthersHave) {
  EXPECT_EQ(found_beside_a_flood(1, {0}), 0);
  EXPECT_EQ(found_beside_a_flood(0.5, {0}), 4 * 24);
  EXPECT_EQ(found_beside_a_flood(1, {0, 6}), 0);
  EXPECT_EQ(found_beside_a_flood(0.5, {0, 6}), 4 * 24);
}

TEST(PrefixTree, BlocksAreOfTheTenantThatBroughtThemFirst) {
  World world({0}, 20, 0.5);
  const auto first = world.run(range(0, 9), {}, 5, "a");
  const auto second = world.run(range(0, 13), {}, 5, "b");
  EXPECT_EQ(second->num_matched, 8);
  const auto tenant = [&](size_t entry) {
    return world.pool().tenant_of(second->tables[0].ids()[entry]);
  };
  EXPECT_EQ(tenant(0), tenant(1));
  EXPECT_NE(tenant(1), tenant(2));
  EXPECT_EQ(world.pool().num_kept(tenant(0)), 2);
  EXPECT_EQ(world.pool().num_kept(tenant(2)), 1);
  EXPECT_EQ(world.tree().num_tenants(), 2);
}

TEST(PrefixTree, ForgetsTenantsThatHaveNothingLeft) {
  World world({0, 0}, 20, 0.5);
  for (int i = 0; i < 3000; ++i) {
    const auto held =
        world.run(range(10 * i, 9), {}, 5, std::string("tenant ") + std::to_string(i));
    ASSERT_EQ(held->num_matched, 0);
    ASSERT_LE(world.tree().num_tenants(), 10);  // of two blocks each
    ASSERT_LE(world.pool().tenant_of(held->tables[0].ids()[0]), 10);
  }
  EXPECT_EQ(world.tree().num_tenants(), 10);
  for (size_t g = 0; g < 2; ++g)
    while (world.pool(g).evict()) {
    }
  EXPECT_EQ(world.tree().num_tenants(), 0);
}

TEST(PrefixTree, RandomTrafficFindsOnlyWhatWasWritten) {
  const char* asked = std::getenv("HASTEN_TEST_SEEDS");
  const int num_seeds = asked != nullptr ? std::atoi(asked) : 40;
  int64_t num_matched = 0;
  for (int seed = 0; seed < num_seeds; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto draw = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    std::vector<int64_t> windows = {draw(0, 1) * draw(1, 20), draw(0, 12)};
    windows.resize(static_cast<size_t>(draw(1, 2)));
    World world(windows, draw(12, 40), draw(0, 1) == 0 ? 1 : 0.1 * static_cast<double>(draw(1, 9)));
    std::vector<std::unique_ptr<Held>> running;
    for (int round = 0; round < 300; ++round) {
      if (draw(0, 2) > 0) {
        // Two tokens to choose from: beginnings in common are common.
        std::vector<int32_t> prompt;
        for (int64_t length = draw(1, 30); length > 0; --length)
          prompt.push_back(static_cast<int32_t>(draw(0, 5) / 5));
        auto held = world.run(prompt, {.low = static_cast<uint64_t>(draw(0, 1))}, draw(1, 9),
                              std::string(1, static_cast<char>('a' + draw(0, 3))));
        if (held) num_matched += held->num_matched;
        if (held) running.push_back(std::move(held));
      }
      if (!running.empty()) {
        const auto at = running.begin() + draw(0, std::ssize(running) - 1);
        (*at)->sequence.generated.push_back(static_cast<int32_t>(draw(0, 1)));
        if (!world.compute(**at, 1) || draw(0, 3) == 0) running.erase(at);
      }
      for (size_t g = 0; g < world.num_groups(); ++g) {
        std::vector<int32_t> counts(static_cast<size_t>(world.pool(g).num_blocks()), 0);
        for (const auto& held : running)
          for (const int32_t id : held->tables[g].ids())
            if (id >= 0) ++counts[static_cast<size_t>(id)];
        int64_t num_free = 0;
        for (int32_t id = 0; id < std::ssize(counts); ++id) {
          ASSERT_EQ(world.pool(g).ref_count(id), counts[static_cast<size_t>(id)]);
          num_free += counts[static_cast<size_t>(id)] == 0 ? 1 : 0;
        }
        ASSERT_EQ(world.pool(g).num_free(), num_free);
        std::vector<int64_t> kept(5, 0);
        for (int32_t id = 0; id < std::ssize(counts); ++id)
          if (world.pool(g).is_kept(id))
            ++kept.at(static_cast<size_t>(world.pool(g).tenant_of(id)));
        for (int32_t tenant = 0; world.pool(g).has_shares() && tenant < 5; ++tenant)
          ASSERT_EQ(world.pool(g).num_kept(tenant), kept[static_cast<size_t>(tenant)]);
      }
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    }
    running.clear();
    for (size_t g = 0; g < world.num_groups(); ++g)
      while (world.pool(g).evict()) {
      }
    ASSERT_EQ(world.tree().num_nodes(), 0) << "seed " << seed;
    ASSERT_EQ(world.tree().num_tenants(), 0) << "seed " << seed;
  }
  EXPECT_GT(num_matched, num_seeds * 100);
}

}  // namespace
}  // namespace hasten::engine
