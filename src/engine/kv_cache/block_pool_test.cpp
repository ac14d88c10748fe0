// SPDX-License-Identifier: Apache-2.0
// Who gets which block, what is kept and evicted, and whose it is.
#include "engine/kv_cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;

TEST(BlockPool, HandsOutEachBlockOnceAndTakesItBack) {
  BlockPool pool(3);
  {
    const BlockRef a = pool.allocate();
    const BlockRef b = pool.allocate();
    const BlockRef c = pool.allocate();
    EXPECT_EQ((std::set<int32_t>{a.id(), b.id(), c.id()}), (std::set<int32_t>{0, 1, 2}));
    EXPECT_FALSE(pool.allocate());
    EXPECT_EQ(pool.num_free(), 0);
  }
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockPool, EvictsFromEitherEnd) {
  constexpr int32_t kNumBlocks = 6;
  BlockPool pool(kNumBlocks, 0.2, INT32_MAX - 3);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  const auto keep_all = [&] {
    std::vector<BlockRef> refs;
    for (int32_t i = 0; i < kNumBlocks; ++i) {
      refs.push_back(pool.allocate());
      pool.keep(refs.back().id(), i, i % 2);
    }
    std::vector<int32_t> order;
    for (BlockRef& ref : refs) order.push_back(ref.id());
    for (BlockRef& ref : refs) ref = BlockRef();
    evicted.clear();
    return order;
  };
  std::vector<int32_t> order = keep_all();
  { const BlockRef again = pool.share(order[4]); }  // it is the newest now
  const BlockRef held = pool.share(order[5]);
  EXPECT_TRUE(pool.evict_newest());
  EXPECT_TRUE(pool.evict_newest());
  EXPECT_TRUE(pool.evict());
  EXPECT_TRUE(pool.evict_newest());
  EXPECT_TRUE(pool.evict_newest());
  EXPECT_FALSE(pool.evict_newest());
  EXPECT_THAT(evicted, ElementsAre(order[4], order[3], order[0], order[2], order[1]));
  EXPECT_EQ(pool.num_free(), 5);
  EXPECT_EQ(pool.num_idle(), 0);
  pool.forget(order[5]);
}

TEST(BlockPool, EvictsTheNewestAndGoesOn) {
  BlockPool pool(4);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  for (int round = 0; round < 50; ++round) {
    evicted.clear();
    std::vector<int32_t> order;
    for (int i = 0; i < 4; ++i) {
      BlockRef block = pool.allocate();
      pool.keep(block.id(), i);
      order.push_back(block.id());
      if (i == 1) {
        block = BlockRef();
        EXPECT_TRUE(pool.evict_newest());
        EXPECT_THAT(evicted, ElementsAre(order[1]));
        evicted.clear();
      }
    }
    while (pool.evict()) {
    }
    EXPECT_THAT(evicted, ElementsAre(order[0], order[2], order[3]));
  }
}

TEST(BlockPool, FreesASharedBlockWithItsLastReference) {
  BlockPool pool(1);
  BlockRef first = pool.allocate();
  BlockRef second = first.share();
  EXPECT_EQ(pool.ref_count(first.id()), 2);
  first = BlockRef();
  EXPECT_EQ(pool.num_free(), 0);
  BlockRef moved = std::move(second);
  EXPECT_EQ(pool.ref_count(0), 1);
  moved = BlockRef();
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPool, EvictsKeptBlocksLastAndTheLongestFreeOneFirst) {
  BlockPool pool(4);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t owner) {
    EXPECT_EQ(owner, 10 + id);
    evicted.push_back(id);
  });
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate());
  for (const int32_t id : {0, 1, 2}) pool.keep(id, 10 + id);
  for (const size_t i : {2, 0, 1, 3}) blocks[i] = BlockRef();
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.num_idle(), 3);

  blocks[0] = pool.share(0);  // taken up again, so used last when given back
  EXPECT_EQ(pool.num_free(), 3);
  blocks[0] = BlockRef();
  for (size_t i = 0; i < 4; ++i) blocks[i] = pool.allocate();
  EXPECT_EQ(blocks[0].id(), 3);  // nothing was lost with it
  EXPECT_THAT(evicted, ElementsAre(2, 1, 0));
  EXPECT_FALSE(pool.allocate());
  EXPECT_FALSE(pool.evict());
  EXPECT_FALSE(pool.is_kept(1));
}

void take_up_again_and_again(uint32_t seed) {
  constexpr int32_t kBlocks = 7;
  BlockPool pool(kBlocks);
  std::array<std::vector<int32_t>, 2> idle;  // not held and held; the longest free one first
  std::array<std::vector<BlockHold>, kBlocks> holds;
  pool.on_evict([&](int32_t id, int32_t /*owner*/) {
    std::vector<int32_t>& queue = idle[0].empty() ? idle[1] : idle[0];
    ASSERT_FALSE(queue.empty());
    EXPECT_EQ(id, queue.front());
    queue.erase(queue.begin());
    holds[static_cast<size_t>(id)].clear();
  });
  std::mt19937 random(seed);
  std::vector<BlockRef> used;
  const auto moves = [&](int32_t id, size_t from) {
    if (std::erase(idle[from], id) > 0) idle[1 - from].push_back(id);
  };
  for (int i = 0; i < 1000; ++i) {
    const auto pick = [&](auto& values) {
      return values.begin() + static_cast<std::ptrdiff_t>(random() % values.size());
    };
    const auto id = static_cast<int32_t>(random() % kBlocks);
    auto& held = holds[static_cast<size_t>(id)];
    auto& queue = idle[random() % 2];
    // Seldom an eviction, so that those who come and go leave many gaps in the queues.
    if (random() % 30 == 0) {
      if (BlockRef block = pool.allocate()) {
        pool.keep(block.id(), 0);
        used.push_back(std::move(block));
      }
    } else if (random() % 4 == 0 && pool.is_kept(id)) {
      held.push_back(pool.hold(id));
      if (held.size() == 1) moves(id, 0);
    } else if (random() % 3 == 0 && !held.empty()) {
      held.pop_back();
      if (held.empty()) moves(id, 1);
    } else if (random() % 2 == 0 && !queue.empty()) {
      const auto it = pick(queue);
      used.push_back(pool.share(*it));
      queue.erase(it);
    } else if (!used.empty()) {
      const auto it = pick(used);
      idle[holds[static_cast<size_t>(it->id())].empty() ? 0 : 1].push_back(it->id());
      used.erase(it);
    }
    ASSERT_EQ(pool.num_idle(), std::ssize(idle[0]) + std::ssize(idle[1]));
    ASSERT_EQ(pool.num_idle_held(), std::ssize(idle[1]));
    ASSERT_EQ(pool.num_free(), kBlocks - std::ssize(used));
  }
}

TEST(BlockPool, KeepsItsOrderHoweverOftenBlocksAreTakenUpAgain) {
  for (uint32_t seed = 0; seed < 200 && !HasFatalFailure(); ++seed) take_up_again_and_again(seed);
}

TEST(BlockPool, EvictsHeldBlocksLast) {
  BlockPool pool(4);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate());
  for (const int32_t id : {0, 1, 2, 3}) pool.keep(id, 0);
  BlockHold referenced = pool.hold(0);
  for (BlockRef& block : blocks) block = BlockRef();
  BlockHold first = pool.hold(1);
  BlockHold second = pool.hold(1);
  EXPECT_EQ(pool.num_held(), 2);
  EXPECT_EQ(pool.num_idle_held(), 2);
  EXPECT_EQ(pool.num_free(), 4);  // as free as without
  EXPECT_EQ(pool.num_idle(), 4);
  EXPECT_EQ(pool.share(0).id(), 0);  // taken up and given back, it is held still

  ASSERT_TRUE(pool.evict());
  second = BlockHold();  // another one is left
  EXPECT_EQ(pool.num_held(), 2);
  ASSERT_TRUE(pool.evict());
  EXPECT_THAT(evicted, ElementsAre(2, 3));
  ASSERT_TRUE(pool.evict());  // nothing else is left
  EXPECT_THAT(evicted, ElementsAre(2, 3, 1));
  EXPECT_EQ(pool.num_held(), 1);
  EXPECT_TRUE(pool.is_held(0));
  ASSERT_TRUE(pool.evict());
  EXPECT_FALSE(pool.evict());
  EXPECT_EQ(pool.num_held(), 0);
}

TEST(BlockPool, WhatIsHeldNoLongerIsAsIfGivenBackThen) {
  BlockPool pool(3);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.allocate());
  for (const int32_t id : {0, 1, 2}) pool.keep(id, 0);
  BlockHold held = pool.hold(0);
  for (BlockRef& block : blocks) block = BlockRef();
  EXPECT_EQ(pool.num_idle_held(), 1);
  held = BlockHold();
  EXPECT_EQ(pool.num_held(), 0);
  EXPECT_EQ(pool.num_idle_held(), 0);
  while (pool.evict()) {
  }
  EXPECT_THAT(evicted, ElementsAre(1, 2, 0));
}

/// Keeps blocks for a tenant and lets them go, the first one first.
void leave_blocks(BlockPool& pool, int32_t tenant, int num_blocks) {
  std::vector<BlockRef> blocks;
  for (int i = 0; i < num_blocks; ++i) {
    blocks.push_back(pool.allocate());
    ASSERT_TRUE(blocks.back());
  }
  for (BlockRef& block : blocks) {
    pool.keep(block.id(), 0, tenant);
    block = BlockRef();
  }
}

TEST(BlockPool, WhoHasMoreThanItsShareLosesItsOwnBlocks) {
  BlockPool pool(8, 0.5);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  leave_blocks(pool, 0, 3);  // 0 to 2
  leave_blocks(pool, 1, 5);  // 3 to 7, one too many
  for (int i = 0; i < 7; ++i) leave_blocks(pool, 1, 1);
  EXPECT_THAT(evicted, ElementsAre(3, 4, 5, 6, 7, 3, 4));
  EXPECT_EQ(pool.num_kept(0), 3);
  EXPECT_EQ(pool.num_kept(1), 5);
  evicted.clear();
  leave_blocks(pool, 2, 1);
  leave_blocks(pool, 2, 1);  // nobody has more than its share any more
  EXPECT_THAT(evicted, ElementsAre(5, 0));
  EXPECT_EQ(pool.num_kept(2), 2);
}

TEST(BlockPool, WhoIsFurthestAboveItsShareLosesFirst) {
  BlockPool pool(9, 0.2);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(pool.tenant_of(id)); });
  leave_blocks(pool, 0, 1);
  leave_blocks(pool, 1, 2);
  leave_blocks(pool, 2, 4);
  leave_blocks(pool, 3, 2);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(pool.evict());
  EXPECT_FALSE(pool.evict());
  // Of equals the one whose block has been free for longer; nobody has more than one at the end.
  EXPECT_THAT(evicted, ElementsAre(2, 2, 1, 2, 3, 0, 1, 2, 3));
}

TEST(BlockPool, ALoneTenantMayHaveAllAndALateOneDividesItByItsTurn) {
  BlockPool pool(6, 0.5);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  for (int i = 0; i < 6; ++i) leave_blocks(pool, 0, 1);
  EXPECT_TRUE(evicted.empty());
  EXPECT_EQ(pool.num_kept(0), 6);
  BlockRef again = pool.share(0);
  again = BlockRef();  // used last now
  leave_blocks(pool, 1, 2);
  EXPECT_THAT(evicted, ElementsAre(1, 2));
  again = pool.share(3);
  again = BlockRef();
  leave_blocks(pool, 1, 2);  // one of the first tenant's, then the longest free one: its again
  EXPECT_THAT(evicted, ElementsAre(1, 2, 4, 5));
}

TEST(BlockPool, BlocksInUseCountAndHeldOnesGoLast) {
  BlockPool pool(6, 0.5);
  std::vector<int32_t> evicted;
  pool.on_evict([&](int32_t id, int32_t) { evicted.push_back(id); });
  leave_blocks(pool, 0, 2);  // 0 and 1
  leave_blocks(pool, 1, 4);  // 2 to 5
  const BlockHold hold = pool.hold(2);
  const BlockRef used = pool.share(3);
  ASSERT_TRUE(pool.evict());
  EXPECT_THAT(evicted, ElementsAre(4));  // of the four, as one is in use and one is held
  while (pool.evict()) {
  }
  EXPECT_THAT(evicted, ElementsAre(4, 0, 1, 5, 2));
  EXPECT_EQ(pool.num_kept(1), 1);
}

TEST(BlockPool, SaysWhenNothingOfATenantIsLeft) {
  BlockPool pool(4, 0.5);
  std::vector<int32_t> gone;
  pool.on_last_of([&](int32_t tenant) { gone.push_back(tenant); });
  leave_blocks(pool, 0, 1);
  leave_blocks(pool, 1, 3);
  while (pool.evict()) {
  }
  EXPECT_THAT(gone, ElementsAre(0, 1));
  EXPECT_EQ(pool.num_kept(7), 0);
}

/// A pool as one would write it who need not be fast: every idle block is looked at.
class PoolModel {
 public:
  PoolModel(int64_t num_blocks, double share)
      : share_(share * static_cast<double>(num_blocks)), blocks_(static_cast<size_t>(num_blocks)) {}

  struct Block {
    int refs = 0;
    int holds = 0;
    int32_t tenant = -1;  // of its contents; -1: they are not kept
    int64_t since = 0;    // when it was given back
  };
  Block& at(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  int64_t num_kept(int32_t tenant) const {
    return std::ranges::count(blocks_, tenant, &Block::tenant);
  }
  void touch(int32_t id) { at(id).since = ++now_; }

  /// What is evicted next; -1: nothing can be.
  int32_t next() {
    int32_t best = -1;
    for (int32_t id = 0; id < static_cast<int32_t>(blocks_.size()); ++id)
      if (at(id).refs == 0 && at(id).tenant >= 0 && (best < 0 || rank(id) < rank(best))) best = id;
    return best;
  }

 private:
  std::tuple<bool, int64_t, int64_t> rank(int32_t id) {
    const Block& block = at(id);
    const int64_t kept = num_kept(block.tenant);
    const bool above = block.holds == 0 && static_cast<double>(kept) > share_;
    return {block.holds > 0, above ? -kept : 0, block.since};
  }

  double share_;
  std::vector<Block> blocks_;
  int64_t now_ = 0;
};

void share_out_at_random(uint32_t seed, int64_t first_ticket) {
  std::mt19937 random(seed);
  const auto draw = [&](int32_t bound) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(bound));
  };
  const int32_t num_blocks = 1 + draw(12);
  const double share = 0.1 * (1 + draw(10));
  const int32_t num_tenants = 1 + draw(4);
  BlockPool pool(num_blocks, share, first_ticket);
  PoolModel model(num_blocks, share);
  std::vector<BlockRef> used;
  std::vector<std::pair<int32_t, BlockHold>> holds;
  std::set<int32_t> present;
  int32_t expected = -1;
  pool.on_evict([&](int32_t id, int32_t owner) {
    EXPECT_EQ(id, expected);
    EXPECT_EQ(owner, id);
    EXPECT_EQ(pool.tenant_of(id), pool.has_shares() ? model.at(id).tenant : 0);
    model.at(id).tenant = -1;
    model.at(id).holds = 0;
    std::erase_if(holds, [&](const auto& held) { return held.first == id; });
  });
  pool.on_last_of([&](int32_t tenant) { EXPECT_EQ(present.erase(tenant), 1U); });
  const auto give_back = [&](size_t at) {
    const int32_t id = used[at].id();
    std::swap(used[at], used.back());
    if (--model.at(id).refs == 0) model.touch(id);
    used.pop_back();
  };
  for (int i = 0; i < 600; ++i) {
    const int32_t id = draw(num_blocks);
    // Seldom a new block, so that those that come and go leave many gaps.
    switch (draw(8)) {
      case 0:
      case 1: {
        expected = model.next();
        if (BlockRef block = pool.allocate()) {
          model.at(block.id()).refs = 1;
          used.push_back(std::move(block));
        }
        break;
      }
      case 2:
        if (model.at(id).refs > 0 && model.at(id).tenant < 0) {
          // As with small numbers that are handed out: seldom a new one.
          const int32_t tenant = draw(1 + draw(num_tenants));
          model.at(id).tenant = tenant;
          present.insert(tenant);
          pool.keep(id, id, tenant);
        }
        break;
      case 3:
        if (!used.empty()) give_back(static_cast<size_t>(draw(static_cast<int32_t>(used.size()))));
        break;
      case 4:
      case 5:
        if (model.at(id).tenant >= 0) {
          ++model.at(id).refs;
          used.push_back(pool.share(id));
          if (draw(2) == 0) give_back(used.size() - 1);
        }
        break;
      case 6:
        if (model.at(id).tenant >= 0 && draw(3) == 0) {
          if (model.at(id).holds++ == 0 && model.at(id).refs == 0) model.touch(id);
          holds.emplace_back(id, pool.hold(id));
        } else if (!holds.empty()) {
          const auto last = std::exchange(holds.back(), {});
          holds.pop_back();
          if (--model.at(last.first).holds == 0 && model.at(last.first).refs == 0)
            model.touch(last.first);
        }
        break;
      default:
        if (draw(4) == 0 && model.at(id).tenant >= 0) {
          expected = id;
          pool.forget(id);
        }
    }
    for (int32_t tenant = 0; pool.has_shares() && tenant < num_tenants; ++tenant)
      ASSERT_EQ(pool.num_kept(tenant), model.num_kept(tenant)) << "seed " << seed;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", round " << i;
  }
  used.clear();
}

TEST(BlockPool, SharesAreAsInAListOfAllBlocks) {
  for (uint32_t seed = 0; seed < 500 && !HasFailure(); ++seed) share_out_at_random(seed, 0);
}

// Blocks keep the lower bits of a ticket only, and are evicted some hours long until those repeat.
TEST(BlockPool, SharesAreTheSameWhenTicketsRepeat) {
  for (uint32_t seed = 0; seed < 500 && !HasFailure(); ++seed)
    share_out_at_random(seed, int64_t{INT32_MAX} - seed % 100);
}

TEST(BlockPool, ATenantMayHoldItsShare) {
  BlockPool pool(8, 0.25);
  leave_blocks(pool, 0, 3);  // 0 to 2
  BlockHold first = pool.hold(0);
  EXPECT_TRUE(pool.may_hold(0));
  BlockHold second = pool.hold(1);
  const BlockHold again = pool.hold(1);
  EXPECT_FALSE(pool.may_hold(0));
  leave_blocks(pool, 1, 3);  // 3 to 5
  const std::array<BlockHold, 2> others = {pool.hold(3), pool.hold(4)};
  EXPECT_FALSE(pool.may_hold(0));
  EXPECT_FALSE(pool.may_hold(1));
  second = BlockHold();  // is held yet
  EXPECT_FALSE(pool.may_hold(0));
  first = BlockHold();
  EXPECT_TRUE(pool.may_hold(0));
  pool.forget(3);
  EXPECT_TRUE(pool.may_hold(1));
}

TEST(BlockPool, AHoldIsOnContentsAndNotOnTheirBlock) {
  BlockPool pool(1);
  BlockRef block = pool.allocate();
  pool.keep(0, 0);
  BlockHold old = pool.hold(0);
  block = BlockRef();
  ASSERT_TRUE(pool.evict());
  block = pool.allocate();
  pool.keep(0, 1);
  const BlockHold now = pool.hold(0);
  block = BlockRef();
  old = BlockHold();
  EXPECT_EQ(pool.num_held(), 1);
}

}  // namespace
}  // namespace hasten::engine
