// SPDX-License-Identifier: Apache-2.0
// What each policy does with a queue: order, displacement, aging and its promise, in virtual time
// and with no model.
#include "engine/scheduler/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/scheduler/policy_line_test.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::HasSubstr;

/// Runs jobs that are sorted by arrival. Returns each one's latency in steps.
std::vector<int64_t> latencies(const Policy& policy, const SchedulerOptions& options,
                               const std::vector<Job>& jobs) {
  Line line(policy, options);
  run_as_they_come(line, jobs);
  std::vector<int64_t> result;
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_GT(line.finished_step[i], 0) << "job " << i;
    result.push_back(line.finished_step[i] - jobs[i].arrival_step);
  }
  return result;
}

double mean(const std::vector<int64_t>& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0})) /
         static_cast<double>(values.size());
}

TEST(Policy, UnknownNamesListTheKnownOnes) {
  for (const Policy* policy : policies()) EXPECT_EQ(&find_policy(policy->name), policy);
  try {
    find_policy("best");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("--policy \"best\" is unknown"));
    EXPECT_THAT(error.what(), HasSubstr("fcfs, priority, sjf"));
  }
}

TEST(Policy, WaitingCountsFromEachTimeThatASequenceBeganToWait) {
  Sequence sequence;
  sequence.queued_us = 300;
  sequence.waited_us = 50;
  EXPECT_EQ(waited_us(sequence, {.now_us = 1000}), 750);
  sequence.queued_us = -1;
  EXPECT_EQ(waited_us(sequence, {.now_us = 1000}), 50);
}

TEST(Policy, RemainingServiceIsWhatMustBeComputedAndGenerated) {
  const std::vector<int32_t> prompt(100, 1);
  Sequence sequence;
  sequence.prompt = prompt;
  sequence.max_generated = 50;
  const QueueView view = {.weights = {.input = 1, .output = 3}};
  EXPECT_EQ(remaining_service(sequence, view), 100 + 3 * 50);
  sequence.predicted_generated = 10;
  EXPECT_EQ(remaining_service(sequence, view), 100 + 3 * 10);
  sequence.num_found = 80;
  EXPECT_EQ(remaining_service(sequence, view), 20 + 3 * 10);
  sequence.generated.assign(4, 7);
  sequence.num_computed = 103;
  EXPECT_EQ(remaining_service(sequence, view), 1 + 3 * 6);
  // It outlives its prediction: twice that is expected, and so on, up to the limit.
  sequence.generated.assign(10, 7);
  sequence.num_computed = 109;
  EXPECT_EQ(remaining_service(sequence, view), 1 + 3 * 10);
  sequence.generated.assign(41, 7);
  sequence.num_computed = 140;
  EXPECT_EQ(remaining_service(sequence, view), 1 + 3 * 9);
}

TEST(PriorityPolicy, TheMoreUrgentClassDisplacesWhatRunsAndItsOwnDoesNot) {
  Line line(kPriorityPolicy, one_at_a_time());
  const size_t low = line.add({.length = 20, .priority = -1});
  line.steps(3);
  const size_t urgent = line.add({.length = 5, .priority = 4});
  const size_t same = line.add({.length = 5, .priority = 4});
  line.steps(1);
  EXPECT_TRUE(line.runs(urgent));
  EXPECT_FALSE(line.runs(low));
  EXPECT_EQ(line.num_generated(low), 3);
  line.run();
  EXPECT_LT(line.finished_step[urgent], line.finished_step[same]);
  EXPECT_LT(line.finished_step[same], line.finished_step[low]);
  EXPECT_EQ(line.preemptions, 1);
}

TEST(PriorityPolicy, NobodyIsDisplacedForBlocksThatItSharesWithOthers) {
  // Two sequences that decode have the 10 blocks of a prompt in common; the urgent one needs 12 of
  // the 20 blocks, and to send one of the two away would free one or two.
  const std::vector<int32_t> prompt(41, 1);
  const std::vector<int32_t> other(44, 2);
  std::array<Sequence, 3> sequences;
  Scheduler scheduler(
      {.block_size = 4, .step_tokens = 64, .max_batch = 8, .policy = &kPriorityPolicy},
      std::vector<GroupBlocks>{{.num_blocks = 20}});
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].request_id = static_cast<int64_t>(i);
    sequences[i].prompt = i < 2 ? prompt : other;
    sequences[i].max_generated = 12;
    sequences[i].priority = i < 1 ? 9 : i < 2 ? 0 : 5;
  }
  int64_t now_us = 0;
  int64_t preemptions = 0;
  const auto step = [&] {
    const StepPlan& plan = scheduler.plan(now_us += 1000);
    preemptions += plan.num_preemptions;
    scheduler.advance();
    for (const PlannedSequence& planned : plan.sequences)
      if (planned.samples) planned.sequence->generated.push_back(7);
  };
  for (Sequence& sequence : std::span(sequences).first(2)) scheduler.add(sequence);
  for (int i = 0; i < 4; ++i) step();
  ASSERT_EQ(scheduler.num_running(), 2);
  scheduler.add(sequences[2]);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(preemptions, 0);
  EXPECT_EQ(scheduler.num_running(), 2);
  for (const Sequence& sequence : sequences) scheduler.remove(sequence);
}

TEST(PriorityPolicy, WaitingIsWorthClasses) {
  SchedulerOptions options = one_at_a_time();
  options.aging_us = 10 * kStepUs;
  Line line(kPriorityPolicy, options);
  line.add({.length = 35, .priority = 9});
  const size_t old = line.add({.length = 1, .priority = 0});
  line.steps(30);
  const size_t urgent = line.add({.length = 1, .priority = 2});
  const size_t most_urgent = line.add({.length = 1, .priority = 5});
  line.run();
  EXPECT_LT(line.finished_step[most_urgent], line.finished_step[old]);
  EXPECT_LT(line.finished_step[old], line.finished_step[urgent]);
}

TEST(SjfPolicy, AdmitsTheShortestAndLetsItEnd) {
  Line line(kSjfPolicy, one_at_a_time());
  const size_t running = line.add({.length = 30});
  line.steps(2);
  const size_t longer = line.add({.length = 9});
  const size_t shorter = line.add({.length = 3});
  const size_t prompt = line.add({.num_prompt = 60, .length = 3});
  line.run();
  EXPECT_LT(line.finished_step[running], line.finished_step[shorter]);
  EXPECT_LT(line.finished_step[shorter], line.finished_step[longer]);
  EXPECT_LT(line.finished_step[longer], line.finished_step[prompt]);
  EXPECT_EQ(line.preemptions, 0);
}

TEST(SrtfPolicy, HalfOfWhatRemainsDisplacesAndMoreDoesNot) {
  Line line(kSrtfPolicy, one_at_a_time());
  const size_t running = line.add({.length = 40});
  line.steps(20);  // 1 to compute and 20 to generate remain: 41 units of service
  const size_t close = line.add({.length = 10});
  line.steps(1);
  EXPECT_FALSE(line.runs(close));
  EXPECT_TRUE(line.runs(running));
  const size_t half = line.add({.length = 8});
  line.steps(1);
  EXPECT_TRUE(line.runs(half));
  EXPECT_FALSE(line.runs(running));
  line.run();
  EXPECT_LT(line.finished_step[half], line.finished_step[close]);
  EXPECT_LT(line.finished_step[close], line.finished_step[running]);
  EXPECT_EQ(line.preemptions, 1);
}

TEST(SrtfPolicy, HalvesTheMeanLatencyOfAHeavyTailedOverload) {
  const std::vector<Job> jobs = heavy_tailed_overload(600);
  const double fcfs = mean(latencies(kFcfsPolicy, four_at_a_time(), jobs));
  const double sjf = mean(latencies(kSjfPolicy, four_at_a_time(), jobs));
  const double srtf = mean(latencies(kSrtfPolicy, four_at_a_time(), jobs));
  const double mlfq = mean(latencies(kMlfqPolicy, four_at_a_time(), jobs));
  std::printf("mean latency in steps: fcfs %.0f, sjf %.0f, srtf %.0f, mlfq %.0f\n", fcfs, sjf, srtf,
              mlfq);
  EXPECT_LT(srtf, fcfs / 2);
  EXPECT_LT(srtf, sjf);
  EXPECT_LT(mlfq, fcfs);
}

TEST(MlfqPolicy, AnAnswerSinksWhenItHasUsedUpItsQuantum) {
  Line line(kMlfqPolicy, one_at_a_time());
  const size_t running = line.add({.length = 200});
  line.steps(31);
  const size_t early = line.add({.length = 1});
  line.steps(1);  // its 32nd token is the last of 64 units
  EXPECT_FALSE(line.runs(early));
  line.steps(1);
  EXPECT_EQ(line.finished_step[early], 33);
  line.run();
  EXPECT_EQ(line.num_generated(running), 200);
  EXPECT_EQ(line.preemptions, 1);
}

TEST(MlfqPolicy, ALongPromptJoinsALowerLevel) {
  Line line(kMlfqPolicy, one_at_a_time());
  line.add({.length = 4});
  line.steps(1);
  const size_t long_prompt = line.add({.num_prompt = 65, .length = 1});
  const size_t short_prompt = line.add({.num_prompt = 64, .length = 1});
  line.run();
  EXPECT_LT(line.finished_step[short_prompt], line.finished_step[long_prompt]);
}

TEST(Policies, NothingStarvesBehindAnEndlessStreamOfTheFavoured) {
  for (const Policy* policy : policies()) {
    SchedulerOptions options = one_at_a_time();
    options.aging_us = 50 * kStepUs;
    Line line(*policy, options);
    // The last by every policy: long, not urgent, and with a long prompt.
    const size_t last = line.add({.num_prompt = 200, .length = 100, .priority = -3});
    for (int64_t i = 0; line.finished_step[last] < 0; ++i) {
      ASSERT_LT(i, 5000) << policy->name;
      if (i % 2 == 0) line.add({.length = 3, .priority = 3});
      ASSERT_TRUE(line.step());
    }
  }
}

TEST(Policies, WhatIsDisplacedHasMoved) {
  // Newcomers that displace at every step: still each admission brings a token.
  for (const Policy* policy : policies()) {
    Line line(*policy, one_at_a_time());
    std::vector<size_t> jobs;
    for (int32_t i = 0; i < 40; ++i) {
      jobs.push_back(
          line.add({.num_prompt = 1 + 100 * (40 - i), .length = 2 * (41 - i), .priority = i}));
      line.step();
    }
    line.run();
    int64_t generated = 0;
    for (const size_t job : jobs) generated += line.num_generated(job);
    EXPECT_LE(line.preemptions, generated) << policy->name;
    EXPECT_EQ(generated, 1720) << policy->name;
  }
}

TEST(Policies, TheLastInPlaceGivesItsBlocksBack) {
  SchedulerOptions options = one_at_a_time();
  options.max_batch = 3;
  Line line(kPriorityPolicy, options, 8);
  const size_t eldest = line.add({.num_prompt = 4, .length = 12, .priority = 1});
  const size_t last = line.add({.num_prompt = 4, .length = 12, .priority = 0});
  line.steps(1);
  const size_t first = line.add({.num_prompt = 4, .length = 12, .priority = 1});
  while (line.preemptions == 0) ASSERT_TRUE(line.step());
  EXPECT_FALSE(line.runs(last));
  EXPECT_TRUE(line.runs(eldest));
  EXPECT_TRUE(line.runs(first));
  line.run();
}

}  // namespace
}  // namespace hasten::engine
