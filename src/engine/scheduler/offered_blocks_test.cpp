// SPDX-License-Identifier: Apache-2.0
// When the blocks of a sequence are offered to others: those of its prompt at once, those of its
// answer some at a time, and the rest however it leaves.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <numeric>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

constexpr int64_t kBlock = 4;
constexpr int64_t kOfferedAtOnce = 8;  // blocks of an answer

struct SmallCase {
  int64_t step_tokens = 256;
  int32_t max_batch = 2;
  int64_t num_blocks = 200;
  int64_t window = 0;
};

class OfferedBlocks : public ::testing::Test {
 protected:
  explicit OfferedBlocks(const SmallCase& with = {})
      : groups_{{.num_blocks = with.num_blocks, .window = with.window}},
        scheduler_({.block_size = kBlock,
                    .step_tokens = with.step_tokens,
                    .max_batch = with.max_batch,
                    .policy = &find_policy("priority")},
                   groups_) {
    std::iota(prompt_.begin(), prompt_.end(), 0);
  }

  Sequence& add(std::span<const int32_t> prompt, int32_t priority = 0) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.request_id = std::ssize(sequences_);
    sequence.priority = priority;
    sequence.prompt = prompt;
    sequence.max_generated = 1000;
    scheduler_.add(sequence);
    return sequence;
  }

  /// Every token drawn differs from all that a prompt has.
  void step() {
    const StepPlan& plan = scheduler_.plan(++now_us_);
    num_preemptions_ += plan.num_preemptions;
    scheduler_.advance();
    for (const PlannedSequence& planned : plan.sequences)
      if (planned.samples)
        planned.sequence->generated.push_back(
            1000 + static_cast<int32_t>(planned.sequence->generated.size()));
  }

  /// Runs a sequence until it has so many tokens in the cache.
  void run_until(const Sequence& sequence, int64_t num_computed) {
    while (sequence.num_computed < num_computed) step();
    ASSERT_EQ(sequence.num_computed, num_computed);
  }

  /// How many tokens one finds that asks with all that another has, when the next step begins.
  int64_t found_by_another(const Sequence& other) {
    asked_ = {other.prompt.begin(), other.prompt.end()};
    asked_.insert(asked_.end(), other.generated.begin(), other.generated.end());
    const Sequence& asking = add(asked_);
    step();
    EXPECT_GE(asking.num_cached, 0);
    return asking.num_cached;
  }

  const std::vector<GroupBlocks> groups_;
  Scheduler scheduler_;
  std::vector<int32_t> prompt_ = std::vector<int32_t>(2 * kBlock);
  std::vector<int32_t> asked_;
  std::list<Sequence> sequences_;
  int64_t now_us_ = 0;
  int64_t num_preemptions_ = 0;
};

TEST_F(OfferedBlocks, APromptIsOfferedAtOnce) {
  const Sequence& first = add(prompt_);
  step();
  EXPECT_EQ(found_by_another(first), 2 * kBlock);
}

TEST_F(OfferedBlocks, AnAnswerIsOfferedSomeBlocksAtATime) {
  const Sequence& first = add(prompt_);
  run_until(first, (2 + kOfferedAtOnce) * kBlock - 1);
  EXPECT_EQ(found_by_another(first), 2 * kBlock);
}

TEST_F(OfferedBlocks, SoManyBlocksOfAnAnswerAreOffered) {
  const Sequence& first = add(prompt_);
  run_until(first, (2 + kOfferedAtOnce) * kBlock);
  EXPECT_EQ(found_by_another(first), (2 + kOfferedAtOnce) * kBlock);
}

TEST_F(OfferedBlocks, AndAsManyAgain) {
  const Sequence& first = add(prompt_);
  run_until(first, (2 + 2 * kOfferedAtOnce) * kBlock);
  EXPECT_EQ(found_by_another(first), (2 + 2 * kOfferedAtOnce) * kBlock);
}

TEST_F(OfferedBlocks, WhoFinishesOffersTheRest) {
  const Sequence& first = add(prompt_);
  run_until(first, 5 * kBlock + 1);
  scheduler_.finish(first);
  EXPECT_EQ(found_by_another(first), 5 * kBlock);
}

TEST_F(OfferedBlocks, WhoIsRemovedOffersAllButItsLastStep) {
  const Sequence& first = add(prompt_);
  run_until(first, 5 * kBlock);
  scheduler_.remove(first);
  // The fifth block became full in the last step, which may have gone wrong.
  EXPECT_EQ(found_by_another(first), 4 * kBlock);
}

TEST_F(OfferedBlocks, WhoIsDisplacedComesBackToAll) {
  const Sequence& first = add(prompt_);
  run_until(first, 5 * kBlock + 2);
  const std::vector<int32_t> others = {500, 501};
  const Sequence& one = add(std::span(others).first(1), 5);
  const Sequence& two = add(std::span(others).last(1), 6);
  step();
  ASSERT_EQ(scheduler_.prefix_stats().num_preempted, 5 * kBlock + 2);
  scheduler_.finish(one);
  scheduler_.finish(two);
  step();
  EXPECT_EQ(scheduler_.prefix_stats().num_resumed, 5 * kBlock);
}

class WindowBlocks : public OfferedBlocks {
 protected:
  WindowBlocks() : OfferedBlocks({.window = 2 * kBlock}) {}
};

TEST_F(WindowBlocks, AreOfferedBeforeTheyLeave) {
  const Sequence& first = add(prompt_);
  run_until(first, 9 * kBlock);
  // With an answer that parts from the first one's where that has left its window.
  asked_ = {prompt_.begin(), prompt_.end()};
  asked_.insert(asked_.end(), first.generated.begin(), first.generated.begin() + 3 * kBlock);
  asked_.push_back(7);
  const Sequence& asking = add(asked_);
  step();
  EXPECT_EQ(asking.num_cached, 5 * kBlock);
}

class PromptsInChunks : public OfferedBlocks {
 protected:
  PromptsInChunks() : OfferedBlocks({.step_tokens = 7}) {}
};

TEST_F(PromptsInChunks, EachOffersItsBlocksAtOnce) {
  std::vector<int32_t> prompt(64);
  std::iota(prompt.begin(), prompt.end(), 0);
  const Sequence& first = add(prompt);
  run_until(first, 28);
  // What another has in common is there: it need not wait for the first one.
  std::vector<int32_t> other(prompt.begin(), prompt.begin() + 28);
  other.resize(60, 500);
  const Sequence& asking = add(other);
  step();
  EXPECT_EQ(asking.num_cached, 28);
}

TEST_F(PromptsInChunks, ALastTokenOnItsOwnIsPartOfThePrompt) {
  const Sequence& first = add(prompt_);  // eight tokens: seven and one
  run_until(first, 10);
  EXPECT_EQ(found_by_another(first), 8);
}

class ScarceBlocks : public OfferedBlocks {
 protected:
  ScarceBlocks() : OfferedBlocks({.max_batch = 4, .num_blocks = 26}) {}
};

TEST_F(ScarceBlocks, AnswersThatAreAlikeShareThemBeforeAnybodyIsPreempted) {
  const Sequence& first = add(prompt_);
  for (int i = 0; i < 3; ++i) add(prompt_);
  run_until(first, 17 * kBlock);  // of 26 blocks, where each of the four has one of its own
  for (const Sequence& each : sequences_) EXPECT_GT(each.num_computed, 16 * kBlock);
  EXPECT_EQ(num_preemptions_, 0);
}

}  // namespace
}  // namespace hasten::engine
