// SPDX-License-Identifier: Apache-2.0
// When batches start and who is in them, and that a scheduler lets nobody else join.
#include "engine/scheduler/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sequence arrived(int64_t id, int64_t arrival_us, int32_t priority = 0) {
  Sequence sequence;
  sequence.request_id = id;
  sequence.arrival_us = sequence.queued_us = arrival_us;
  sequence.priority = priority;
  return sequence;
}

std::vector<int64_t> ids(const std::vector<Sequence*>& batch) {
  std::vector<int64_t> result;
  for (const Sequence* sequence : batch) result.push_back(sequence->request_id);
  return result;
}

TEST(Batcher, AStaticBatchIsWhoWaits) {
  Batcher batcher({.batching = Batching::static_batch, .max_size = 2});
  EXPECT_THAT(batcher.next(kFcfsPolicy, {}), IsEmpty());
  EXPECT_EQ(batcher.start_us(), INT64_MAX);
  std::deque<Sequence> sequences = {arrived(1, 0), arrived(2, 0), arrived(3, 0)};
  for (Sequence& sequence : sequences) batcher.add(sequence);
  EXPECT_EQ(batcher.start_us(), 0);
  EXPECT_THAT(ids(batcher.next(kFcfsPolicy, {})), ElementsAre(1, 2));
  EXPECT_EQ(batcher.num_held(), 1);
  EXPECT_THAT(ids(batcher.next(kFcfsPolicy, {})), ElementsAre(3));
}

TEST(Batcher, ThePolicySaysWhoIsInTheBatch) {
  Batcher batcher({.batching = Batching::static_batch, .max_size = 2});
  std::deque<Sequence> sequences = {arrived(1, 0), arrived(2, 0, 1), arrived(3, 0, 2)};
  for (Sequence& sequence : sequences) batcher.add(sequence);
  EXPECT_THAT(ids(batcher.next(kPriorityPolicy, {})), ElementsAre(3, 2));
}

TEST(Batcher, ADynamicBatchWaitsForEnoughOrLongEnough) {
  Batcher batcher(
      {.batching = Batching::dynamic_batch, .max_size = 4, .preferred = 3, .wait_us = 500});
  std::deque<Sequence> sequences = {arrived(1, 130), arrived(2, 100), arrived(3, 200)};
  batcher.add(sequences[0]);
  batcher.add(sequences[1]);
  EXPECT_EQ(batcher.start_us(), 600);  // of the one that came first
  EXPECT_THAT(batcher.next(kFcfsPolicy, {.now_us = 599}), IsEmpty());
  EXPECT_THAT(ids(batcher.next(kFcfsPolicy, {.now_us = 600})), ElementsAre(1, 2));
  for (Sequence& sequence : sequences) batcher.add(sequence);
  EXPECT_EQ(batcher.start_us(), 0);
  batcher.remove(sequences[1]);
  EXPECT_EQ(batcher.start_us(), 630);
}

TEST(Batching, UnknownNamesListTheKnownOnes) {
  for (const BatchingMode* mode : batching_modes())
    EXPECT_EQ(find_batching(mode->name), mode->batching);
  try {
    find_batching("sometimes");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("--batching \"sometimes\" is unknown; known: continuous, static, dynamic"));
  }
}

/// Runs requests of 40 prompt tokens and various lengths that all wait from the beginning on. Calls
/// `look` with each plan.
void run_all(const SchedulerOptions& options, int64_t num_blocks,
             const std::function<void(const StepPlan&)>& look) {
  const std::vector<int32_t> prompt(40, 1);
  std::deque<Sequence> sequences;
  Scheduler scheduler(options, std::vector<GroupBlocks>{{.num_blocks = num_blocks}});
  for (int64_t i = 0; i < 10; ++i) {
    Sequence& sequence = sequences.emplace_back(arrived(i, 0));
    sequence.prompt = prompt;
    sequence.max_generated = 2 + i * 7 % 20 * 3;
    scheduler.add(sequence);
  }
  int64_t steps = 0;
  while (scheduler.next_step_us() != INT64_MAX) {
    ASSERT_LT(++steps, 1000);
    const StepPlan& plan = scheduler.plan(steps);
    look(plan);
    scheduler.advance();
    for (const PlannedSequence& planned : std::vector(plan.sequences)) {
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler.finish(*planned.sequence);
    }
  }
  for (const Sequence& sequence : sequences)
    EXPECT_EQ(std::ssize(sequence.generated), sequence.max_generated);
}

TEST(Batching, NobodyJoinsABatchThatRuns) {
  std::set<int64_t> batch;
  int64_t num_batches = 0;
  run_all(
      {.max_batch = 4, .prefix_cache = false, .batching = Batching::static_batch}, 100,
      [&](const StepPlan& plan) {
        std::set<int64_t> running;
        for (const PlannedSequence& planned : plan.sequences)
          running.insert(planned.sequence->request_id);
        if (std::ranges::includes(batch, running)) return;
        EXPECT_TRUE(std::ranges::none_of(running, [&](int64_t id) { return batch.contains(id); }));
        batch = running;
        ++num_batches;
      });
  EXPECT_EQ(num_batches, 3);  // of 4, 4 and 2
}

TEST(Batching, PreemptedSequencesStayInTheirBatch) {
  int64_t preemptions = 0;
  run_all({.max_batch = 4, .prefix_cache = false, .batching = Batching::static_batch}, 9,
          [&](const StepPlan& plan) {
            preemptions += plan.num_preemptions;
            EXPECT_FALSE(plan.empty());
          });
  EXPECT_GT(preemptions, 0);
}

TEST(ReservedMemory, IsKeptForEachSequenceAndCounted) {
  // 112 tokens are 7 blocks: of 20 two sequences take 14.
  int64_t most = 0;
  double unused = 0;
  double allocated = 0;
  run_all({.prefix_cache = false, .reserve_tokens = 112}, 20, [&](const StepPlan& plan) {
    most = std::max(most, std::ssize(plan.sequences));
    EXPECT_EQ(plan.num_preemptions, 0);
    EXPECT_EQ(plan.kv_tokens_allocated, 112 * std::ssize(plan.sequences));
    int64_t used = 0;
    for (const PlannedSequence& planned : plan.sequences) used += planned.end();
    EXPECT_EQ(plan.kv_tokens_used, used);
    unused += static_cast<double>(plan.kv_tokens_allocated - plan.kv_tokens_used);
    allocated += static_cast<double>(plan.kv_tokens_allocated);
  });
  EXPECT_EQ(most, 2);
  EXPECT_GT(unused / allocated, 0.2);
}

TEST(ReservedMemory, IsNoneWithPaging) {
  run_all({.prefix_cache = false}, 100, [](const StepPlan& plan) {
    int64_t held = 0;
    for (const PlannedSequence& planned : plan.sequences) held += (planned.end() + 15) / 16 * 16;
    EXPECT_EQ(plan.kv_tokens_allocated, held);
  });
}

TEST(WholePrompts, RunInOneStep) {
  int64_t num_prompts = 0;
  run_all({.step_tokens = 100, .max_batch = 8, .prefix_cache = false, .chunked_prefill = false},
          100, [&](const StepPlan& plan) {
            for (const PlannedSequence& planned : plan.sequences) {
              EXPECT_TRUE(planned.samples);
              num_prompts += planned.begin == 0 ? 1 : 0;
            }
          });
  EXPECT_EQ(num_prompts, 10);
}

}  // namespace
}  // namespace hasten::engine
