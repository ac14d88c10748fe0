// SPDX-License-Identifier: Apache-2.0
// How long a sequence waits for blocks that a lower tier is reading, and when they count.
#include "engine/scheduler/block_mover.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "engine/kv_cache/disk_tier.h"
#include "engine/scheduler/scheduler.h"
#include "hasten_test/temporary_folder.h"

namespace hasten::engine {
namespace {

/// Has everything once it is on, and reads it for ever, or has read it.
class FakeTier final : public BlockTier {
 public:
  bool contains(const BlockName& /*name*/) override { return on; }
  TierState fetch(const BlockName& name, int64_t /*round*/) override {
    if (!on) return TierState::absent;
    return name.tokens.front() < ready_below ? TierState::ready : state;
  }
  std::span<const std::byte> take(const BlockName& /*name*/) override { return {}; }
  std::span<std::byte> save(const BlockName& /*name*/) override { return place; }
  void end_step(bool /*done*/) override {}
  double load_us(int64_t /*num_bytes*/) override { return read_us; }
  double backlog_us() override { return wait_us; }
  std::vector<std::byte> place;  // of what is saved; empty: there is none
  double read_us = 0;
  double wait_us = 0;  // for what is being read
  bool on = false;
  int32_t ready_below = 0;  // blocks that begin with tokens below this are
  TierState state = TierState::reading;
};

/// A tier that is on, and a sequence that has come.
struct OneSequence {
  OneSequence(TierState state, int64_t num_prompt) : prompt(static_cast<size_t>(num_prompt)) {
    tier.on = true;
    tier.state = state;
    std::iota(prompt.begin(), prompt.end(), 0);
    sequence.prompt = prompt;
    sequence.max_generated = 1;
    scheduler.add(sequence);
  }
  ~OneSequence() { scheduler.remove(sequence); }

  FakeTier tier;
  Scheduler scheduler{{.step_tokens = 64, .max_batch = 4, .tier = &tier},
                      std::vector<GroupBlocks>{{.num_blocks = 10, .block_bytes = 64}}};
  std::vector<int32_t> prompt;
  Sequence sequence;
};

TEST(BlockMover, CountsWhatWasLoadedWhenItHasBeen) {
  for (const bool done : {true, false}) {
    OneSequence world(TierState::ready, 33);
    Scheduler& scheduler = world.scheduler;
    ASSERT_EQ(scheduler.plan(1000).loads.size(), 2U);
    EXPECT_EQ(scheduler.prefix_stats().num_loaded, 0);
    scheduler.end_moves(done);
    EXPECT_EQ(scheduler.prefix_stats().num_loaded, done ? 32 : 0);
  }
}

/// Asks for one token behind the prompt.
Sequence ask_one(int64_t request_id, std::span<const int32_t> prompt) {
  Sequence sequence;
  sequence.request_id = request_id;
  sequence.prompt = prompt;
  sequence.max_generated = 1;
  return sequence;
}

/// With that many blocks, and a tier for what they have no room for.
Scheduler scheduler_before(FakeTier& tier, int32_t num_blocks) {
  return Scheduler({.step_tokens = 512, .max_batch = 4, .tier = &tier},
                   std::vector<GroupBlocks>{{.num_blocks = num_blocks, .block_bytes = 64}});
}

/// Tells a scheduler how long steps take, of which the longest has `most` tokens.
void teach(Scheduler& scheduler, int64_t most, int64_t us_per_token) {
  for (int32_t i = 0; i < 12; ++i) {
    const std::vector<int32_t> prompt(static_cast<size_t>(most - i * most / 16), -1 - i);
    Sequence sequence = ask_one(i, prompt);
    sequence.cache_domain.low = 100 + static_cast<uint64_t>(i);
    scheduler.add(sequence);
    const int64_t num_tokens = scheduler.plan(0).num_tokens;
    scheduler.end_moves(true);
    scheduler.advance(1000 + us_per_token * num_tokens);
    sequence.generated.push_back(1);
    scheduler.finish(sequence);
  }
}

// What it has asked for is part of what the tier is reading: that shall not make it look too dear.
TEST(BlockMover, ReadsOfItsOwnDoNotEndItsWaiting) {
  for (const double others_us : {0.0, 1e9}) {
    FakeTier tier;
    Scheduler scheduler = scheduler_before(tier, 400);
    teach(scheduler, 200, 1000);
    tier.on = true;
    tier.read_us = 20e3;  // computing takes 250 ms
    tier.wait_us = others_us;
    std::vector<int32_t> prompt(257);
    std::iota(prompt.begin(), prompt.end(), 0);
    Sequence sequence = ask_one(99, prompt);
    scheduler.add(sequence);
    tier.wait_us += 1e6;
    int64_t now_us = 0;
    for (; scheduler.plan(now_us).empty() && now_us < 250'000; now_us += 5000) {
      scheduler.end_moves(true);
      tier.ready_below += 16;
    }
    scheduler.end_moves(true);
    EXPECT_EQ(sequence.num_cached, others_us == 0 ? 256 : 0);
    scheduler.remove(sequence);
  }
}

// Steps of few tokens do not tell how long hundreds take.
TEST(BlockMover, LoadsWhatNobodyKnowsTheTimeOf) {
  for (const int64_t most : {8, 80}) {
    FakeTier tier;
    Scheduler scheduler = scheduler_before(tier, 400);
    teach(scheduler, most, 0);
    tier.on = true;
    tier.state = TierState::ready;
    tier.read_us = 1e5;
    const std::vector<int32_t> prompt(257, 7);
    Sequence sequence = ask_one(99, prompt);
    scheduler.add(sequence);
    EXPECT_EQ(scheduler.plan(0).loads.size(), most == 8 ? 16U : 0U);
    scheduler.end_moves(true);
    scheduler.remove(sequence);
  }
}

// Of many that wait for their blocks only some are looked at again in each step.
TEST(BlockMover, LooksAtSomeOfThoseThatWait) {
  struct CountingTier final : public BlockTier {
    bool contains(const BlockName& /*name*/) override { return ++asked > 0; }
    TierState fetch(const BlockName& /*name*/, int64_t /*round*/) override {
      return TierState::reading;
    }
    std::span<const std::byte> take(const BlockName& /*name*/) override { return {}; }
    std::span<std::byte> save(const BlockName& /*name*/) override { return {}; }
    void end_step(bool /*done*/) override {}
    double load_us(int64_t /*bytes*/) override { return 0; }
    double backlog_us() override { return 0; }
    int64_t asked = 0;
  };
  CountingTier tier;
  Scheduler scheduler({.step_tokens = 512, .max_batch = 200, .tier = &tier},
                      std::vector<GroupBlocks>{{.num_blocks = 4000, .block_bytes = 64}});
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 100; ++i) prompts.emplace_back(161, i);
  std::vector<Sequence> sequences;
  for (const auto& prompt : prompts) sequences.push_back(ask_one(std::ssize(sequences), prompt));
  for (Sequence& sequence : sequences) scheduler.add(sequence);
  for (int64_t now_us : {0, 1000, 2000}) {
    tier.asked = 0;
    EXPECT_TRUE(scheduler.plan(now_us).empty());
    scheduler.end_moves(true);
    if (now_us == 0)
      EXPECT_GE(tier.asked, 1000);  // ten blocks each
    else
      EXPECT_LE(tier.asked, 320);
  }
  // Whose time has come begins without its blocks.
  EXPECT_GT(scheduler.plan(1'000'000).num_tokens, 0);
  scheduler.end_moves(true);
  for (const Sequence& sequence : sequences) scheduler.remove(sequence);
}

// What is being read will have come by the time that what is saved now is wanted.
TEST(BlockMover, SavesWhateverElseIsBeingRead) {
  FakeTier tier;
  tier.place.resize(64);
  tier.wait_us = 1e9;
  Scheduler scheduler = scheduler_before(tier, 14);
  teach(scheduler, 200, 1000);
  const std::vector<int32_t> prompt(100, 7);
  Sequence sequence = ask_one(99, prompt);
  scheduler.add(sequence);
  EXPECT_GE(scheduler.plan(0).saves.size(), 4U);  // of seven blocks that are wanted few are free
  scheduler.end_moves(true);
  scheduler.remove(sequence);
}

// While it runs, a block is saved where loading it will be quicker than computing it; at the end
// all.
TEST(BlockMover, SavesWhatIsSlowToLoadAtTheEndOnly) {
  FakeTier tier;
  tier.place.resize(64);
  tier.read_us = 1e9;
  Scheduler scheduler = scheduler_before(tier, 12);
  int64_t now_us = 0;
  size_t num_saves = 0;
  const auto serve = [&](int32_t token) {
    const std::vector<int32_t> prompt(100, token);
    Sequence sequence = ask_one(token, prompt);
    sequence.arrival_us = now_us;
    scheduler.add(sequence);
    while (sequence.num_computed < sequence.num_tokens()) {
      num_saves += scheduler.plan(now_us).saves.size();
      scheduler.end_moves(true);
      scheduler.advance(1000);
      now_us += 1000;
    }
    sequence.generated.push_back(1);
    scheduler.finish(sequence);
  };
  for (int32_t i = 1; i <= 8; ++i) serve(i);  // until the time of a step is known
  num_saves = 0;
  serve(9);
  EXPECT_EQ(num_saves, 0U);
  while (scheduler.evict_newest(4)) {
    num_saves += scheduler.plan(now_us).saves.size();
    scheduler.end_moves(true);
  }
  EXPECT_EQ(num_saves, 11U);  // whole blocks: six, of which the seventh took one of six before
}

TEST(BlockMover, WaitsForATierNoLongerThanComputingWhatIsMissingTakes) {
  constexpr int64_t kCached = 8192;
  constexpr int64_t kUsPerToken = 1000;
  FakeTier tier;
  Scheduler scheduler({.step_tokens = kCached, .max_batch = 4, .tier = &tier},
                      std::vector<GroupBlocks>{{.num_blocks = 4000, .block_bytes = 64}});
  std::vector<int32_t> tokens(kCached + 33);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 1000);
  std::vector<std::unique_ptr<Sequence>> sequences;
  int64_t now_us = 0;
  const auto add = [&](int64_t num_prompt, uint64_t domain) -> Sequence& {
    Sequence& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
    sequence.request_id = std::ssize(sequences);
    sequence.prompt = std::span(tokens).first(static_cast<size_t>(num_prompt));
    sequence.cache_domain.low = domain;
    sequence.max_generated = 1;
    sequence.arrival_us = now_us;
    scheduler.add(sequence);
    return sequence;
  };
  const auto step = [&] {
    const StepPlan& plan = scheduler.plan(now_us);
    const int64_t us = plan.empty() ? 1000 : 1000 + kUsPerToken * plan.num_tokens;
    now_us += us;
    if (!plan.empty()) scheduler.advance(us);
    return !plan.empty();
  };
  const auto serve = [&](Sequence& sequence) {
    while (sequence.num_computed < sequence.num_tokens()) step();
    sequence.generated.push_back(1);
    scheduler.finish(sequence);
  };
  for (int i = 0; i < 20; ++i) serve(add(100 + 50 * i, 100 + static_cast<uint64_t>(i)));
  serve(add(kCached, 1));

  tier.on = true;
  const Sequence& sequence = add(kCached + 33, 1);  // two blocks more, which the tier says it has
  const int64_t came_us = now_us;
  int64_t waited_us = 0;
  while (!step()) waited_us = now_us - came_us;
  EXPECT_EQ(sequence.num_cached, kCached);
  EXPECT_GT(waited_us, 20 * kUsPerToken);
  EXPECT_LT(waited_us, 200 * kUsPerToken);  // as far as was learnt; of all it would be 8,224
  scheduler.remove(sequence);
}

// Three prompts whose blocks fill the staging of a disk many times over come at once.
TEST(BlockMover, WaitsWhileReadsForOthersLeaveNoRoom) {
  constexpr int64_t kBlock = 4;  // tokens
  constexpr int64_t kCached = 24 * kBlock;
  const testing::TemporaryFolder folder;
  DiskTier disk({.folder = folder.path() / "store",
                 .max_bytes = 1 << 20,
                 .staging_bytes = 4 * 64,
                 .block_tokens = kBlock,
                 .block_bytes = {64},
                 .model = "a model",
                 .always_load = true});
  Scheduler scheduler({.block_size = kBlock, .step_tokens = 512, .max_batch = 4, .tier = &disk},
                      std::vector<GroupBlocks>{{.num_blocks = 100, .block_bytes = 64}});
  std::vector<std::vector<int32_t>> prompts(3, std::vector<int32_t>(kCached + 1));
  for (size_t i = 0; i < prompts.size(); ++i)
    std::iota(prompts[i].begin(), prompts[i].end(), static_cast<int32_t>(1000 * i));
  std::vector<std::unique_ptr<Sequence>> sequences;
  int64_t now_us = 0;
  const auto add_all = [&] {
    sequences.clear();
    for (const std::vector<int32_t>& prompt : prompts) {
      Sequence& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
      sequence.request_id = std::ssize(sequences);
      sequence.prompt = prompt;
      sequence.max_generated = 1;
      scheduler.add(sequence);
    }
  };
  // The clock goes on by a little with each plan; it is not time that ends their waiting.
  const auto serve_all = [&] {
    for (int64_t num_left = std::ssize(sequences); num_left > 0;) {
      ASSERT_LT(++now_us, 10'000);
      const StepPlan& plan = scheduler.plan(now_us);
      scheduler.end_moves(true);
      if (plan.empty()) {
        disk.await_read(10'000'000);
        continue;
      }
      scheduler.advance();
      for (const PlannedSequence& planned : plan.sequences) {
        if (!planned.samples) continue;
        planned.sequence->generated.push_back(1);
        scheduler.finish(*planned.sequence);
        --num_left;
      }
    }
  };
  add_all();
  serve_all();
  while (scheduler.evict_newest(1)) {
    (void)scheduler.plan(++now_us);
    scheduler.end_moves(true);
    ASSERT_TRUE(disk.await_writes(10'000'000));
  }
  add_all();
  serve_all();
  for (const auto& sequence : sequences)
    EXPECT_EQ(sequence->num_cached, kCached) << "request " << sequence->request_id;
}

TEST(BlockMover, WaitsForTheLastBlockAsLongAsForAll) {
  OneSequence world(TierState::reading, 49);
  Scheduler& scheduler = world.scheduler;
  EXPECT_TRUE(scheduler.plan(1000).empty());
  scheduler.end_moves(true);
  world.tier.ready_below = 32;
  // What steps take is not known yet, and guessed: 48 ms for 48 tokens.
  for (const int64_t now_us : {30'000, 40'000}) {
    EXPECT_TRUE(scheduler.plan(now_us).empty()) << now_us;
    scheduler.end_moves(true);
  }
  EXPECT_FALSE(scheduler.plan(50'000).empty());
  EXPECT_EQ(world.sequence.num_cached, 32);
  scheduler.end_moves(true);
}

TEST(BlockMover, WaitsForRoomNoLongerThanForReads) {
  OneSequence world(TierState::no_room, 33);
  Scheduler& scheduler = world.scheduler;
  EXPECT_TRUE(scheduler.plan(1000).empty());
  scheduler.end_moves(true);
  EXPECT_FALSE(scheduler.plan(34'000).empty());
  scheduler.end_moves(true);
}

}  // namespace
}  // namespace hasten::engine
