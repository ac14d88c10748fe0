// SPDX-License-Identifier: Apache-2.0
// Deadlines: their order, who gives way to them, and who is told that they cannot be met.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/scheduler/policy_line_test.h"

namespace hasten::engine {
namespace {

TEST(EdfPolicy, TheEarliestDeadlineIsNext) {
  Line line(kEdfPolicy, one_at_a_time());
  const size_t running = line.add({.length = 10, .deadline_step = 500});
  line.steps(1);
  const size_t later = line.add({.length = 5, .deadline_step = 400});
  const size_t sooner = line.add({.length = 5, .deadline_step = 100});
  const size_t any_time = line.add({.length = 5});
  line.run();
  EXPECT_EQ(line.finished_step[running], 10);  // is not displaced: it is due, too
  EXPECT_EQ(line.finished_step[sooner], 15);
  EXPECT_EQ(line.finished_step[later], 20);
  EXPECT_EQ(line.finished_step[any_time], 25);
}

TEST(EdfPolicy, WhatIsDueAtNoTimeGivesWay) {
  Line line(kEdfPolicy, one_at_a_time());
  const size_t any_time = line.add({.length = 50});
  line.steps(5);
  const size_t due = line.add({.length = 5, .deadline_step = 12});
  line.run();
  EXPECT_EQ(line.finished_step[due], 10);
  EXPECT_EQ(line.preemptions, 1);
  EXPECT_EQ(line.num_generated(any_time), 50);
}

TEST(EdfPolicy, WhatIsLateAlreadyGivesWayAndStillEnds) {
  Line line(kEdfPolicy, one_at_a_time());
  const size_t late = line.add({.length = 50, .deadline_step = 3});  // speed is not known yet
  line.steps(5);
  const size_t due = line.add({.length = 5, .deadline_step = 12});
  line.run();
  EXPECT_EQ(line.finished_step[due], 10);
  EXPECT_EQ(line.num_generated(late), 50);
  EXPECT_EQ(line.num_refused, 0);
}

TEST(EdfPolicy, RefusesAtOnceWhatCannotBeMet) {
  Line line(kEdfPolicy, one_at_a_time());
  line.add({.length = 100, .deadline_step = 150});
  line.steps(10);
  // Alone it would take 20 steps, of which 16 are certain.
  const size_t hopeless = line.add({.length = 20, .deadline_step = 25});
  EXPECT_EQ(line.num_refused, 1);
  line.add({.length = 20, .deadline_step = 30});
  EXPECT_EQ(line.num_refused, 1);
  line.run();
  EXPECT_EQ(line.finished_step[hopeless], -1);
}

// Here 2,000 tokens take 200 ms and more.
TEST(EdfPolicy, RefusesNothingForWhatTheCacheHas) {
  const auto num_refused = [](bool shares) {
    Line line(kEdfPolicy, {.block_size = 4, .step_tokens = 64, .max_batch = 8});
    line.us_per_token = 100;
    line.add({.num_prompt = 2000, .length = 1, .shares = shares});
    line.run();
    line.add({.num_prompt = 4, .length = 1000});  // the machine is never idle
    line.steps(10);
    for (int i = 0; i < 20; ++i) {
      line.add({.num_prompt = 2004,
                .length = 2,
                .deadline_step = line.now_us / kStepUs + 50,
                .shares = shares});
      line.steps(3);
    }
    return line.num_refused;
  };
  EXPECT_EQ(num_refused(true), 0);
  EXPECT_EQ(num_refused(false), 20);
}

TEST(EdfPolicy, RefusesWhatTheQueueMakesHopeless) {
  Line line(kEdfPolicy, one_at_a_time());
  line.add({.length = 15, .deadline_step = 100});
  line.steps(10);
  for (int i = 0; i < 4; ++i) line.add({.length = 20, .deadline_step = 110 + i});
  // 80 steps ahead of it, where without them it would be in time.
  line.add({.length = 20, .deadline_step = 100});
  EXPECT_EQ(line.num_refused, 0);
  line.add({.length = 20, .deadline_step = 115});
  EXPECT_EQ(line.num_refused, 1);
}

// A step with a short prompt takes what reading the weights takes: that is no time for each token.
TEST(EdfPolicy, ShortPromptsTellNothingBadOfLongOnes) {
  for (const bool busy : {false, true}) {
    Line line(kEdfPolicy, {.block_size = 4, .step_tokens = 512, .max_batch = 8});
    for (int i = 0; i < 50; ++i) {
      line.add({.num_prompt = 4, .length = 3});
      line.run();
    }
    if (busy) line.add({.num_prompt = 4, .length = 2000});
    for (int i = 0; i < 50; ++i) {
      line.step();
      line.add({.num_prompt = 400, .length = 3, .deadline_step = line.now_us / kStepUs + 50});
      for (int step = 0; step < 10; ++step) line.step();
    }
    EXPECT_EQ(line.num_refused, 0) << (busy ? "beside an answer" : "idle");
  }
}

TEST(EdfPolicy, AnIdleMachineTriesWhateverItHasLearnt) {
  Line line(kEdfPolicy, one_at_a_time());
  line.add({.length = 50});
  line.run();
  const size_t tight = line.add({.length = 20, .deadline_step = line.now_us / kStepUs + 2});
  EXPECT_EQ(line.num_refused, 0);
  line.run();
  EXPECT_EQ(line.num_generated(tight), 20);
  line.add({.length = 20, .deadline_step = 1});  // that is over
  EXPECT_EQ(line.num_refused, 1);
}

TEST(EdfPolicy, RefusesWhatHasWaitedTooLong) {
  Line line(kEdfPolicy, one_at_a_time());
  line.add({.length = 50, .deadline_step = 60});
  const size_t waits = line.add({.length = 20, .deadline_step = 61});  // speed is not known yet
  line.run();
  EXPECT_EQ(line.num_refused, 1);
  EXPECT_EQ(line.finished_step[waits], -1);
}

TEST(EdfPolicy, GivesUpWhatABatchHeldBackForTooLong) {
  SchedulerOptions options = four_at_a_time();
  options.policy = &kEdfPolicy;
  options.batching = Batching::dynamic_batch;
  options.batch_wait_us = 100 * kStepUs;
  Scheduler scheduler(options, std::vector<GroupBlocks>{{.num_blocks = 100}});
  const std::vector<int32_t> prompt(8, 1);
  Sequence sequence;
  sequence.prompt = prompt;
  sequence.max_generated = 1;
  sequence.deadline_us = 10 * kStepUs;
  scheduler.add(sequence);
  EXPECT_TRUE(scheduler.hopeless(0).empty());
  EXPECT_TRUE(scheduler.plan(0).empty());
  EXPECT_EQ(scheduler.next_step_us(), 10 * kStepUs + 1);
  ASSERT_EQ(scheduler.hopeless(scheduler.next_step_us()).size(), 1);
  // Whoever keeps it all the same, as a sibling of it has begun, waits for its batch.
  EXPECT_TRUE(scheduler.plan(10 * kStepUs + 1).empty());
  EXPECT_EQ(scheduler.next_step_us(), 100 * kStepUs);
  scheduler.remove(sequence);
  EXPECT_EQ(scheduler.next_step_us(), INT64_MAX);
}

TEST(EdfPolicy, GivesUpNothingThatHasNoDeadline) {
  Line line(kEdfPolicy, one_at_a_time());
  std::vector<size_t> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(line.add({.length = 50}));
  line.run();
  EXPECT_EQ(line.num_refused, 0);
  for (const size_t job : jobs) EXPECT_GT(line.finished_step[job], 0);
}

TEST(EdfPolicy, MeetsMoreDeadlinesOfAHeavyTailedOverload) {
  const auto num_met = [](const Policy& policy) {
    std::vector<Job> jobs = heavy_tailed_overload(600);
    for (size_t i = 0; i < jobs.size(); ++i)  // twice to five times what it takes, and a little
      jobs[i].deadline_step =
          jobs[i].arrival_step + static_cast<int64_t>(2 + i % 4) * jobs[i].length + 20;
    Line line(policy, four_at_a_time());
    run_as_they_come(line, jobs);
    int64_t met = 0;
    for (size_t i = 0; i < jobs.size(); ++i)
      met += line.finished_step[i] >= 0 && line.finished_step[i] <= jobs[i].deadline_step ? 1 : 0;
    return met;
  };
  const int64_t fcfs = num_met(kFcfsPolicy);
  const int64_t srtf = num_met(kSrtfPolicy);
  const int64_t edf = num_met(kEdfPolicy);
  std::printf("deadlines met of 600: fcfs %ld, srtf %ld, edf %ld\n", fcfs, srtf, edf);
  EXPECT_GE(edf * 10, fcfs * 12);
}

}  // namespace
}  // namespace hasten::engine
