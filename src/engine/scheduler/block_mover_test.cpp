// SPDX-License-Identifier: Apache-2.0
// How long a sequence waits for blocks that a lower tier is reading, and when they count.
#include "engine/scheduler/block_mover.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

/// Has everything once it is on, and reads it for ever, or has read it.
class FakeTier final : public BlockTier {
 public:
  bool contains(const BlockName& /*name*/) override { return on; }
  TierState fetch(const BlockName& /*name*/, int64_t /*round*/) override {
    return on ? state : TierState::absent;
  }
  std::span<const std::byte> take(const BlockName& /*name*/) override { return {}; }
  std::span<std::byte> save(const BlockName& /*name*/) override { return place; }
  void end_step(bool /*done*/) override {}
  double load_us(int64_t /*num_bytes*/) override { return read_us; }
  std::vector<std::byte> place;  // of what is saved; empty: there is none
  double read_us = 0;
  bool on = false;
  TierState state = TierState::reading;
};

TEST(BlockMover, CountsWhatWasLoadedWhenItHasBeen) {
  for (const bool done : {true, false}) {
    FakeTier tier;
    tier.on = true;
    tier.state = TierState::ready;
    Scheduler scheduler({.step_tokens = 64, .max_batch = 4, .tier = &tier},
                        std::vector<GroupBlocks>{{.num_blocks = 10, .block_bytes = 64}});
    const std::vector<int32_t> prompt(33, 7);
    Sequence sequence;
    sequence.prompt = prompt;
    sequence.max_generated = 1;
    scheduler.add(sequence);
    ASSERT_EQ(scheduler.plan(1000).loads.size(), 2U);
    EXPECT_EQ(scheduler.prefix_stats().num_loaded, 0);
    scheduler.end_moves(done);
    EXPECT_EQ(scheduler.prefix_stats().num_loaded, done ? 32 : 0);
    scheduler.remove(sequence);
  }
}

// While it runs, a block is saved where loading it will be quicker than computing it; at the end
// all.
TEST(BlockMover, SavesWhatIsSlowToLoadAtTheEndOnly) {
  FakeTier tier;
  tier.place.resize(64);
  tier.read_us = 1e9;
  Scheduler scheduler({.step_tokens = 512, .max_batch = 4, .tier = &tier},
                      std::vector<GroupBlocks>{{.num_blocks = 12, .block_bytes = 64}});
  int64_t now_us = 0;
  size_t num_saves = 0;
  const auto serve = [&](int32_t token) {
    const std::vector<int32_t> prompt(100, token);
    Sequence sequence;
    sequence.request_id = token;
    sequence.prompt = prompt;
    sequence.max_generated = 1;
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
  while (scheduler.evict(4)) {
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

}  // namespace
}  // namespace hasten::engine
