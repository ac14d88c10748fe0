// SPDX-License-Identifier: Apache-2.0
// Tests of learning how long steps take: a known law, noise, a machine that changes.
#include "engine/scheduler/step_time_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hasten::engine {
namespace {

/// Microseconds of a machine that reads weights in `fixed`.
double law(const StepWork& work, double fixed) {
  return fixed + 2400.0 * static_cast<double>(work.tokens) + 0.9 * static_cast<double>(work.keys) +
         0.08 * static_cast<double>(work.token_keys);
}

/// Decodes of a few sequences, with a prefill chunk beside them now and then.
StepWork random_work(std::mt19937& random) {
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  StepWork work;
  work.tokens = between(1, 8);
  work.keys = work.tokens * between(50, 4000);
  work.token_keys = work.keys;
  if (between(0, 3) == 0) {
    const int64_t chunk = between(1, 512);
    const int64_t context = chunk + between(0, 4000);
    work.tokens += chunk;
    work.keys += context;
    work.token_keys += chunk * context;
  }
  return work;
}

/// Random steps, whose times differ from the law by noise of that deviation.
void show_steps(StepTimeModel& model, std::mt19937& random, int count, double fixed,
                double deviation = 0) {
  std::normal_distribution<double> noise;
  for (int i = 0; i < count; ++i) {
    const StepWork work = random_work(random);
    const double factor = deviation > 0 ? 1 + deviation * noise(random) : 1;
    model.observe(work, std::llround(law(work, fixed) * factor));
  }
}

double worst_error(const StepTimeModel& model, double fixed) {
  std::mt19937 random(99);
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const StepWork work = random_work(random);
    worst = std::max(worst, std::fabs(model.predict_us(work) / law(work, fixed) - 1));
  }
  return worst;
}

TEST(StepTimeModel, KnowsNothingBeforeItHasSeenSteps) {
  StepTimeModel model;
  EXPECT_FALSE(model.ready());
  EXPECT_EQ(model.predict_us({.tokens = 1, .keys = 10, .token_keys = 10}), 0);
  for (int i = 0; i < 8; ++i) model.observe({.tokens = 1, .keys = 10, .token_keys = 10}, 25000);
  EXPECT_TRUE(model.ready());
  EXPECT_NEAR(model.predict_us({.tokens = 1, .keys = 10, .token_keys = 10}), 25000, 25);
}

TEST(StepTimeModel, LearnsALinearLaw) {
  StepTimeModel model;
  std::mt19937 random(1);
  show_steps(model, random, 60, 20000);
  EXPECT_LT(worst_error(model, 20000), 0.01);
}

TEST(StepTimeModel, BearsNoise) {
  StepTimeModel model;
  std::mt19937 random(2);
  show_steps(model, random, 400, 20000, 0.05);
  EXPECT_LT(worst_error(model, 20000), 0.08);
}

TEST(StepTimeModel, BoundsNearlyAllSteps) {
  StepTimeModel model;
  std::mt19937 random(5);
  show_steps(model, random, 400, 20000, 0.15);
  std::normal_distribution<double> noise;
  int num_above = 0;
  for (int i = 0; i < 2000; ++i) {
    const StepWork work = random_work(random);
    if (law(work, 20000) * (1 + 0.15 * noise(random)) > model.bound_us(work)) ++num_above;
  }
  EXPECT_NEAR(num_above / 2000.0, 0.05, 0.03);
}

TEST(StepTimeModel, FollowsAMachineThatSlowsDown) {
  StepTimeModel model;
  std::mt19937 random(3);
  for (const double fixed : {20000.0, 45000.0}) show_steps(model, random, 600, fixed);
  EXPECT_LT(worst_error(model, 45000), 0.1);
}

// Hours of the same decode step, then a prefill: what was known of tokens is not forgotten.
TEST(StepTimeModel, KeepsWhatNothingNewIsToldAbout) {
  StepTimeModel model;
  std::mt19937 random(4);
  std::normal_distribution<double> noise(1, 0.03);
  show_steps(model, random, 300, 20000);
  const StepWork decode{.tokens = 4, .keys = 4000, .token_keys = 4000};
  for (int i = 0; i < 100000; ++i)
    model.observe(decode, std::llround(law(decode, 20000) * noise(random)));
  const StepWork prefill{.tokens = 260, .keys = 4500, .token_keys = 4000 + 256 * 500};
  EXPECT_NEAR(model.predict_us(prefill) / law(prefill, 20000), 1, 0.5);
  EXPECT_NEAR(model.predict_us(decode) / law(decode, 20000), 1, 0.05);
}

TEST(StepTimeModel, NeverPredictsLessThanNothing) {
  StepTimeModel model;
  for (int i = 0; i < 20; ++i) {
    model.observe({.tokens = 1, .keys = 100, .token_keys = 100}, 100);
    model.observe({.tokens = 2, .keys = 100, .token_keys = 100}, 10);
  }
  EXPECT_GE(model.predict_us({.tokens = 500, .keys = 100, .token_keys = 100}), 0);
}

}  // namespace
}  // namespace hasten::engine
