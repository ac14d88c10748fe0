// SPDX-License-Identifier: Apache-2.0
// Fair shares: the published bound for backlogged tenants, newcomers, and those who were idle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/scheduler/policy_line_test.h"

namespace hasten::engine {
namespace {

constexpr int64_t kNumBlocks = 100;
constexpr int64_t kLongestPrompt = 100;

SchedulerOptions eight_at_a_time() { return {.block_size = 4, .step_tokens = 128, .max_batch = 8}; }

/// What two tenants' services may differ by over any time in which both have something waiting
/// (Sheng et al., 2024, theorem 4.4): twice the larger of a prompt and of what a batch can hold.
int64_t bound() {
  const int64_t batch_tokens = kNumBlocks * eight_at_a_time().block_size;
  return 2 * std::max(kLongestPrompt, 2 * batch_tokens);
}

/// How the services of two tenants part, over any span of time in which both are backlogged.
class Parting {
 public:
  void look(const Line& line) {
    if (!line.has_waiting("many") || !line.has_waiting("few")) return;
    const int64_t difference = line.service("many") - line.service("few");
    least_ = has_looked_ ? std::min(least_, difference) : difference;
    most_ = has_looked_ ? std::max(most_, difference) : difference;
    has_looked_ = true;
  }
  int64_t worst() const { return most_ - least_; }
  bool has_looked() const { return has_looked_; }

 private:
  bool has_looked_ = false;
  int64_t least_ = 0;
  int64_t most_ = 0;
};

/// One tenant asks for much at once, the other a little later for less.
int64_t worst_parting(const Policy& policy) {
  Line line(policy, eight_at_a_time(), kNumBlocks);
  for (int i = 0; i < 300; ++i)
    line.add({.num_prompt = 10 + i % 30, .length = 20 + i % 23, .tenant = "many"});
  line.steps(20);
  for (int i = 0; i < 150; ++i)
    line.add({.num_prompt = kLongestPrompt - i % 50, .length = 1 + i % 17, .tenant = "few"});
  Parting parting;
  while (line.step()) parting.look(line);
  EXPECT_TRUE(parting.has_looked());
  return parting.worst();
}

TEST(VtcPolicy, KeepsBackloggedTenantsWithinThePublishedBound) {
  const int64_t vtc = worst_parting(kVtcPolicy);
  const int64_t fcfs = worst_parting(kFcfsPolicy);
  std::printf("two backlogged tenants' services part by: vtc %ld, fcfs %ld; bound %ld\n", vtc, fcfs,
              bound());
  EXPECT_LE(vtc, bound());
  EXPECT_GT(fcfs, bound());
}

TEST(VtcPolicy, ANewcomerIsNotStarved) {
  // Steps until the first answer of one who comes while two others have much waiting.
  const auto waits = [](const Policy& policy) {
    Line line(policy, eight_at_a_time(), kNumBlocks);
    for (int i = 0; i < 200; ++i) {
      line.add({.num_prompt = 20, .length = 30, .tenant = "many"});
      line.add({.num_prompt = 20, .length = 30, .tenant = "few"});
    }
    line.steps(300);
    const size_t first = line.add({.num_prompt = 20, .length = 30, .tenant = "new"});
    const int64_t came = line.now_us / kStepUs;
    line.run();
    return line.finished_step[first] - came;
  };
  EXPECT_LT(waits(kVtcPolicy), 3 * 30);
  EXPECT_GT(waits(kFcfsPolicy), 10 * 30);
}

TEST(VtcPolicy, WhoWasIdleHasNotSavedUp) {
  Line line(kVtcPolicy, eight_at_a_time(), kNumBlocks);
  line.add({.num_prompt = 20, .length = 30, .tenant = "few"});
  for (int i = 0; i < 400; ++i) line.add({.num_prompt = 20, .length = 30, .tenant = "many"});
  line.steps(800);  // of which "few" was idle for most
  for (int i = 0; i < 150; ++i) line.add({.num_prompt = 20, .length = 30, .tenant = "few"});
  Parting parting;
  while (line.step()) parting.look(line);
  EXPECT_TRUE(parting.has_looked());
  EXPECT_LE(parting.worst(), bound());
}

TEST(VtcPolicy, AdmittingMovesATenantBackInTheSameStep) {
  SchedulerOptions options = eight_at_a_time();
  options.max_batch = 4;
  Line line(kVtcPolicy, options, kNumBlocks);
  std::vector<size_t> many, few;
  for (int i = 0; i < 4; ++i) many.push_back(line.add({.num_prompt = 10, .tenant = "many"}));
  for (int i = 0; i < 4; ++i) few.push_back(line.add({.num_prompt = 10, .tenant = "few"}));
  line.steps(1);
  EXPECT_EQ(line.finished_step[many[1]], 1);
  EXPECT_EQ(line.finished_step[few[1]], 1);
  EXPECT_EQ(line.finished_step[many[2]], -1);
  EXPECT_EQ(line.finished_step[few[2]], -1);
}

TEST(VtcPolicy, CachedTokensAreNotCharged) {
  SchedulerOptions options = eight_at_a_time();
  options.max_batch = 1;
  Line line(kVtcPolicy, options, kNumBlocks);
  std::vector<size_t> cached, anew;
  for (int i = 0; i < 3; ++i)
    cached.push_back(line.add({.num_prompt = 41, .tenant = "cached", .shares = true}));
  for (int i = 0; i < 4; ++i) anew.push_back(line.add({.num_prompt = 20, .tenant = "anew"}));
  line.run();
  // Of the same prompt, the first costs 41 + 2, and those that find all but one token 1 + 2; the
  // others cost 20 + 2 each: 43 against 44 after three, 46 against 66 after five.
  const auto& at = line.finished_step;
  EXPECT_EQ((std::vector{at[cached[0]], at[cached[1]], at[cached[2]]}),
            (std::vector<int64_t>{1, 4, 6}));
  EXPECT_EQ((std::vector{at[anew[0]], at[anew[1]], at[anew[2]], at[anew[3]]}),
            (std::vector<int64_t>{2, 3, 5, 7}));
}

TEST(VtcPolicy, WhatIsComputedAnewAfterAPreemptionIsNotCharged) {
  SchedulerOptions options = eight_at_a_time();
  options.prefix_cache = false;
  Line line(kVtcPolicy, options, 6);  // blocks for one of the first two to its end, not for both
  line.add({.num_prompt = 8, .length = 16, .tenant = "first"});
  const size_t preempted = line.add({.num_prompt = 8, .length = 16, .tenant = "second"});
  // These need nearly all blocks, and wait until both have ended.
  const size_t earlier = line.add({.num_prompt = 20, .tenant = "second"});
  const size_t later = line.add({.num_prompt = 20, .tenant = "first"});
  line.run();
  EXPECT_GT(line.preemptions, 0);
  EXPECT_LT(line.finished_step[preempted], line.finished_step[earlier]);
  // Both tenants have had the same, so that the order of arrival decides.
  EXPECT_LT(line.finished_step[earlier], line.finished_step[later]);
}

}  // namespace
}  // namespace hasten::engine
