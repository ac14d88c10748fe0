// SPDX-License-Identifier: Apache-2.0
// Prompts of many steps beside shorter ones, which they must not block, under every policy.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/scheduler/policy_line_test.h"

namespace hasten::engine {
namespace {

class LongPrompts : public ::testing::TestWithParam<const Policy*> {
 protected:
  Line line_{*GetParam(), {.block_size = 4, .step_tokens = 64, .max_batch = 16}};
};

TEST_P(LongPrompts, AShorterOneHasHalfOfWhatPromptsGet) {
  const size_t longest = line_.add({.num_prompt = 4000, .length = 1});
  line_.steps(2);
  const size_t shorter = line_.add({.num_prompt = 300, .length = 1});
  line_.run();
  // Of 64 tokens a step, 300 in the half that the longest leaves.
  EXPECT_LE(line_.finished_step[shorter], 2 + (300 + 31) / 32);
  EXPECT_EQ(line_.finished_step[longest], (4300 + 63) / 64);  // no token was left unused
}

TEST_P(LongPrompts, OnesBeyondAFewDoNotStandInTheWay) {
  std::vector<size_t> longest;
  for (int i = 0; i < 12; ++i) longest.push_back(line_.add({.num_prompt = 1000, .length = 1}));
  line_.steps(2);
  const size_t shorter = line_.add({.num_prompt = 8, .length = 1});
  line_.steps(1);
  EXPECT_EQ(line_.finished_step[shorter], 3);
  line_.run();
  for (const size_t job : longest) EXPECT_GT(line_.finished_step[job], 0);
}

TEST_P(LongPrompts, OneThatWasPassedOverComesBeforeThoseThatCameLater) {
  for (int i = 0; i < 4; ++i) line_.add({.num_prompt = 400, .length = 1});
  const size_t fifth = line_.add({.num_prompt = 400, .length = 1});
  const size_t sixth = line_.add({.num_prompt = 400, .length = 1});
  line_.run();
  EXPECT_LT(line_.finished_step[fifth], line_.finished_step[sixth]);
}

INSTANTIATE_TEST_SUITE_P(All, LongPrompts,
                         ::testing::ValuesIn(policies().begin(), policies().end()),
                         [](const auto& policy) { return std::string(policy.param->name); });

}  // namespace
}  // namespace hasten::engine
