// SPDX-License-Identifier: Apache-2.0
// Tests that steps keep to a stated time while a long prompt is read beside decodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

constexpr int64_t kLongPrompt = 16384;

struct Outcome {
  int64_t worst_us = 0;     // of the steps that read the long prompt
  int64_t num_late = 0;     // of those, above the target
  int64_t num_steps = 0;    // that read it
  int64_t most_tokens = 0;  // of a step
};

/// What steps take, in microseconds.
struct Costs {
  double fixed = 20000;
  double token = 2400;
  double key = 0.3;
  double token_key = 0.02;
};

struct Load {
  Costs costs = {};
  int64_t target_us = 0;
  int64_t num_decoding = 8;
  double noise = 0;  // of the times of steps, a part of them
  uint32_t seed = 1;
  int64_t arrival_step = 60;
  int64_t first_tokens = 200;  // of the prompts of those that decode
};

/// Some sequences decode, a long prompt arrives; time passes as on a machine of known speed.
Outcome read_long_prompt(const Load& load) {
  std::mt19937 random(load.seed);
  std::uniform_real_distribution<double> factor(1 - load.noise, 1 + load.noise);
  const std::vector<int32_t> prompt(kLongPrompt, 1);
  Scheduler scheduler({.target_step_us = load.target_us, .prefix_cache = false},
                      std::vector<GroupBlocks>{{.num_blocks = 16384}});
  std::deque<Sequence> sequences(9);
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& sequence = sequences[i];
    sequence.request_id = static_cast<int64_t>(i);
    sequence.prompt = std::span(prompt).first(i < 8 ? load.first_tokens : kLongPrompt);
    // Those that shall not decode beside it end before it comes.
    const bool ends = i < 8 && static_cast<int64_t>(i) >= load.num_decoding;
    sequence.max_generated = ends ? 20 : 10000;
    if (i < 8) scheduler.add(sequence);
  }
  Outcome outcome;
  int64_t now_us = 0;
  for (int64_t step = 0; step < 9000 && sequences[8].generated.empty(); ++step) {
    if (step == load.arrival_step) scheduler.add(sequences[8]);
    const StepPlan& plan = scheduler.plan(now_us);
    StepWork work;
    bool reads = false;
    for (const PlannedSequence& planned : plan.sequences) {
      work.add(planned.begin, planned.count);
      reads = reads || planned.sequence == &sequences[8];
    }
    const Costs& costs = load.costs;
    const auto us = std::llround((costs.fixed + costs.token * static_cast<double>(work.tokens) +
                                  costs.key * static_cast<double>(work.keys) +
                                  costs.token_key * static_cast<double>(work.token_keys)) *
                                 factor(random));
    outcome.most_tokens = std::max(outcome.most_tokens, plan.num_tokens);
    if (reads) {
      ++outcome.num_steps;
      outcome.worst_us = std::max<int64_t>(outcome.worst_us, us);
      if (us > load.target_us) ++outcome.num_late;
    }
    now_us += us;
    scheduler.advance(us);
    for (const PlannedSequence& planned : std::vector(plan.sequences)) {
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler.finish(*planned.sequence);
    }
  }
  EXPECT_FALSE(sequences[8].generated.empty()) << "the long prompt did not end";
  for (const Sequence& sequence : sequences) scheduler.remove(sequence);
  return outcome;
}

TEST(TargetStep, WithoutATargetThroughputComesFirst) {
  const Outcome outcome = read_long_prompt({.target_us = 0});
  EXPECT_EQ(outcome.most_tokens, 512);
  EXPECT_GT(outcome.worst_us, 1'000'000);
}

TEST(TargetStep, ChunksKeepStepsBelowTheTarget) {
  const Outcome outcome = read_long_prompt({.target_us = 150'000});
  EXPECT_LT(outcome.worst_us, 160'000);
  // And use the time that there is: about 44 tokens a step beside the decodes.
  EXPECT_LT(outcome.num_steps, kLongPrompt / 30);
}

TEST(TargetStep, NothingIsRiskedBeforeTheTimesOfStepsAreKnown) {
  for (const int64_t arrival_step : {2, 5, 12}) {
    const Load load{.target_us = 150'000, .arrival_step = arrival_step};
    EXPECT_LT(read_long_prompt(load).worst_us, 160'000) << arrival_step;
  }
  // Steps that differ in nothing do not tell what a token takes.
  const Load alike{.target_us = 150'000, .arrival_step = 30, .first_tokens = 1};
  EXPECT_LT(read_long_prompt(alike).worst_us, 160'000);
}

// The last of 16,384 tokens see so many keys that eight of them beside the decodes take 72 ms.
TEST(TargetStep, FewerThanAFewTokensWhereEachTakesLong) {
  const Outcome outcome = read_long_prompt({.target_us = 66'000});
  EXPECT_LT(outcome.worst_us, 67'000);
  EXPECT_LT(outcome.num_steps, kLongPrompt / 6);
}

TEST(TargetStep, NearlyAllStepsKeepToItWhereTimesSpread) {
  const Outcome outcome = read_long_prompt({.target_us = 150'000, .noise = 0.3});
  EXPECT_LT(outcome.num_late, outcome.num_steps / 10);
  EXPECT_LT(outcome.num_steps, kLongPrompt / 20);
}

// Where arithmetic takes long, and not reading, a token at the prompt's end takes 8 ms. Chunks that
// are all alike do not tell which of the two it is, and chance then allows far larger ones.
TEST(TargetStep, NoStepIsFarAboveItWhereTokensTakeLong) {
  for (const auto& [token_us, target_us] : {std::pair(1000.0, 70'000), {2000.0, 90'000}}) {
    const Costs slow = {.fixed = 14'000, .token = token_us, .key = 0, .token_key = 0.5};
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      const Load load = {.costs = slow, .target_us = target_us, .noise = 0.4, .seed = seed};
      EXPECT_LT(read_long_prompt(load).worst_us, target_us * 3 / 2) << seed;
    }
  }
}

TEST(TargetStep, NobodyWaitsForAPromptThatIsAlone) {
  const Outcome outcome = read_long_prompt({.target_us = 150'000, .num_decoding = 0});
  EXPECT_EQ(outcome.most_tokens, 512);
  EXPECT_LE(outcome.num_steps, kLongPrompt / 512 + 1);
}

TEST(TargetStep, AnImpossibleTargetDoesNotStopPrompts) {
  const Outcome outcome = read_long_prompt({.target_us = 1000});
  EXPECT_LT(outcome.num_steps, kLongPrompt / 4);
  EXPECT_LT(outcome.worst_us, 120'000);
}

// Steps that hardly differ tell little of what a token takes, and by chance that it takes less than
// nothing: no such fit may allow a chunk far beyond those of late.
TEST(TargetStep, ChanceAllowsNoChunkFarBeyondTheTarget) {
  for (const int64_t target_us : {60'000, 68'000, 70'000, 100'000}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const Load load{.target_us = target_us, .noise = 0.1, .seed = seed};
      EXPECT_LT(read_long_prompt(load).worst_us, 2 * target_us) << target_us << ", seed " << seed;
    }
  }
}

TEST(TargetStep, MoreTimeReadsAPromptInFewerSteps) {
  int64_t num_steps = kLongPrompt;
  for (int64_t target_us = 40'000; target_us <= 160'000; target_us += 8'000) {
    const Outcome outcome = read_long_prompt({.target_us = target_us});
    EXPECT_LE(outcome.num_steps, num_steps + num_steps / 20) << target_us;
    num_steps = outcome.num_steps;
  }
}

Sequence& submit(Scheduler& scheduler, std::deque<Sequence>& sequences,
                 std::span<const int32_t> prompt, int64_t max_generated) {
  Sequence& sequence = sequences.emplace_back();
  sequence.request_id = std::ssize(sequences);
  sequence.prompt = prompt;
  sequence.max_generated = max_generated;
  scheduler.add(sequence);
  return sequence;
}

// Where a machine has been faster with more keys, as when it warmed up, a chunk that was granted in
// front of another may not be granted behind it: without `first`, decodes and `second` are late. It
// stays: with it goes the copy of a block.
TEST(TargetStep, WhatIsAdmittedKeepsItsTokensWhenOthersJoin) {
  Scheduler scheduler({.block_size = 4, .target_step_us = 1580},
                      std::vector<GroupBlocks>{{.num_blocks = 4096}});
  std::vector<int32_t> tokens(4000);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::deque<Sequence> sequences;
  const auto add = [&](std::span<const int32_t> prompt, int64_t max_generated) -> Sequence& {
    return submit(scheduler, sequences, prompt, max_generated);
  };
  const auto run = [&](const StepPlan& plan) {
    StepWork work;
    for (const PlannedSequence& planned : plan.sequences) work.add(planned.begin, planned.count);
    scheduler.advance(2000 - 4 * work.keys + 8 * work.tokens);
    for (const PlannedSequence& planned : std::vector(plan.sequences)) {
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler.finish(*planned.sequence);
    }
  };
  const auto all = std::span<const int32_t>(tokens);
  add(all.subspan(500, 300), 1);  // so that as many tokens in a step are nothing new
  run(scheduler.plan(0));
  add(all.first(40), 1000);  // decodes beside all that follows
  for (const size_t length : {9, 50, 20, 210}) {
    add(all.subspan(1000, length), 8);
    for (int step = 0; step < 12; ++step) run(scheduler.plan(0));
  }
  std::vector<int32_t> begins_alike(all.begin() + 1000, all.begin() + 1202);
  begins_alike.insert(begins_alike.end(), all.begin() + 2000, all.begin() + 2400);
  const Sequence& first = add(begins_alike, 1);
  const Sequence& second = add(all.subspan(3000, 1000), 1);
  const StepPlan& plan = scheduler.plan(0);
  ASSERT_EQ(first.num_cached, 202);
  ASSERT_EQ(plan.sequences.size(), 3U);
  EXPECT_EQ(plan.sequences[1].sequence, &first);
  EXPECT_EQ(plan.sequences[2].sequence, &second);
  ASSERT_EQ(plan.copies.size(), 1U);
  EXPECT_EQ(plan.copies[0].sequence, 1);
  EXPECT_EQ(plan.copies[0].to, plan.block_table(1, 0)[50]);
  run(plan);
  for (const Sequence& sequence : sequences) scheduler.remove(sequence);
}

// Of a prompt that the cache has, as of the second answer to one, a single token is left to run: it
// does not wait for the end of a long prompt, even where no step keeps to its target.
TEST(TargetStep, OneTokenJoinsAtOnce) {
  Scheduler scheduler({.target_step_us = 1}, std::vector<GroupBlocks>{{.num_blocks = 1024}});
  std::vector<int32_t> tokens(8000);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto all = std::span<const int32_t>(tokens);
  std::deque<Sequence> sequences;
  const auto add = [&](std::span<const int32_t> prompt, int64_t max_generated) -> Sequence& {
    return submit(scheduler, sequences, prompt, max_generated);
  };
  const auto run = [&] {
    const StepPlan& plan = scheduler.plan(0);
    scheduler.advance(20'000 + 2400 * plan.num_tokens);
    for (const PlannedSequence& planned : std::vector(plan.sequences)) {
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler.finish(*planned.sequence);
    }
  };
  add(all.first(65), 1000);
  add(all.subspan(100, 65), 3);
  for (int step = 0; step < 20; ++step) run();
  const Sequence& reading = add(all.subspan(1000), 1);
  for (int step = 0; step < 20; ++step) run();
  const Sequence& cached = add(all.subspan(100, 65), 3);
  run();
  EXPECT_EQ(cached.num_cached, 64);
  EXPECT_EQ(cached.generated.size(), 1U);
  EXPECT_LT(reading.num_computed, 500);
  for (const Sequence& sequence : sequences) scheduler.remove(sequence);
}

}  // namespace
}  // namespace hasten::engine
