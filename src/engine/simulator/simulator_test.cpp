// SPDX-License-Identifier: Apache-2.0
// Simulations whose every step is worked out by hand, and fits that find known costs again.
#include "engine/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/sequence/step.h"
#include "engine/simulator/cost_model.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What each request met with.
struct Seen {
  std::vector<int64_t> arrivals;
  std::vector<std::vector<int64_t>> tokens;  // times
  std::vector<int64_t> cached;               // in order of their ends
  std::map<size_t, std::string> failures;
  std::vector<size_t> prompts_made;
  Simulation simulation;
};

/// Requests of (prompt, output) tokens.
Seen run(const SimulatorOptions& options, const std::vector<std::pair<int64_t, int64_t>>& lengths,
         std::vector<int64_t> times, int64_t users = 1, std::vector<SimulatedPause> pauses = {}) {
  Seen seen;
  seen.arrivals.resize(lengths.size());
  seen.tokens.resize(lengths.size());
  size_t num_ended = 0;
  SimulatedWorkload workload;
  workload.num_requests = lengths.size();
  workload.times_us = std::move(times);
  workload.users = users;
  workload.pauses = std::move(pauses);
  workload.request = [&](size_t i) {
    SimulatedRequest request;
    request.prompt_tokens = lengths[i].first;
    request.output_tokens = lengths[i].second;
    return request;
  };
  workload.prompt = [&](size_t i) {  // that have nothing in common
    seen.prompts_made.push_back(i);
    return std::vector<int32_t>(static_cast<size_t>(lengths[i].first), static_cast<int32_t>(i));
  };
  workload.on_arrival = [&](size_t i, int64_t now) { seen.arrivals[i] = now; };
  workload.on_token = [&](size_t i, int64_t now) { seen.tokens[i].push_back(now); };
  workload.on_end = [&](size_t i, int64_t, int64_t cached, std::string_view failure) {
    seen.cached.push_back(cached);
    ++num_ended;
    if (!failure.empty()) seen.failures[i] = failure;
  };
  seen.simulation = run_simulation(options, workload);
  EXPECT_EQ(num_ended, lengths.size());
  return seen;
}

/// A step takes 10 us and one per token.
SimulatorOptions plain_options() {
  SimulatorOptions options;
  options.costs = {.base_us = 10, .us_per_token = 1};
  options.num_kv_blocks = 64;
  options.context = 512;
  options.step_tokens = 64;
  options.max_batch = 4;
  return options;
}

TEST(Simulator, TakesTheTimeOfItsSteps) {
  // 64 prompt tokens, then 36 and the first answer token, then one by one.
  const Seen alone = run(plain_options(), {{100, 3}}, {0});
  EXPECT_THAT(alone.tokens[0], ElementsAre(74 + 46, 131, 142));
  EXPECT_EQ(alone.simulation.steps, 4);
  EXPECT_EQ(alone.simulation.end_us, 142);
  EXPECT_EQ(alone.simulation.mean_batch, 1);

  // The second comes during the first step and is answered between the first's tokens; the third
  // finds an idle engine.
  const Seen three = run(plain_options(), {{60, 3}, {20, 1}, {5, 1}}, {5, 20, 1000});
  EXPECT_THAT(three.tokens[0], ElementsAre(75, 75 + 31, 75 + 31 + 11));
  EXPECT_THAT(three.tokens[1], ElementsAre(75 + 31));
  EXPECT_THAT(three.tokens[2], ElementsAre(1015));
  EXPECT_EQ(three.simulation.busy_us, 70 + 31 + 11 + 15);
}

TEST(Simulator, WaitsForBatches) {
  SimulatorOptions options = plain_options();
  options.batching = "static";
  // The third comes during the batch of the first, and waits for the second's last token, too.
  const Seen seen = run(options, {{5, 3}, {5, 1}, {5, 1}}, {0, 0, 30});
  EXPECT_THAT(seen.tokens[0], ElementsAre(20, 31, 42));
  EXPECT_THAT(seen.tokens[1], ElementsAre(20));
  EXPECT_THAT(seen.tokens[2], ElementsAre(42 + 15));

  options.batching = "dynamic";
  options.batch_wait_us = 100;
  options.preferred_batch = 2;
  const Seen waiting = run(options, {{5, 1}, {5, 1}, {5, 1}}, {0, 40, 200});
  EXPECT_THAT(waiting.tokens[0], ElementsAre(40 + 20));
  EXPECT_THAT(waiting.tokens[2], ElementsAre(200 + 100 + 15));
}

TEST(Simulator, ClosesTheLoop) {
  const Seen seen = run(plain_options(), {{5, 1}, {5, 1}, {5, 1}}, {}, 2);
  EXPECT_THAT(seen.arrivals, ElementsAre(0, 0, 20));
  EXPECT_THAT(seen.tokens[2], ElementsAre(35));
}

TEST(Simulator, LetsCallsComeWhenThoseBeforeThemHaveEnded) {
  const Seen seen = run(plain_options(), {{5, 1}, {5, 1}, {5, 1}, {5, 1}}, {0, 0, 500, 0}, 1,
                        {{}, {.after = 0, .pause_us = 100}, {}, {.after = 1, .pause_us = 0}});
  EXPECT_THAT(seen.arrivals, ElementsAre(0, 115, 500, 130));
  EXPECT_THAT(seen.tokens[3], ElementsAre(145));
  EXPECT_EQ(seen.simulation.end_us, 515);
}

TEST(Simulator, FailsWhatFollowsWhatFailed) {
  const Seen seen = run(plain_options(), {{600, 1}, {5, 1}, {5, 1}, {5, 1}}, {0, 0, 0, 0}, 1,
                        {{}, {.after = 0}, {.after = 1, .pause_us = 9}, {}});
  EXPECT_EQ(seen.failures.size(), 3);
  EXPECT_EQ(seen.failures.at(2), "the call before it failed");
  EXPECT_EQ(seen.tokens[3].size(), 1);
}

TEST(Simulator, FindsPrefixesInTheCache) {
  SimulatorOptions options = plain_options();
  std::vector<int64_t> cached;
  SimulatedWorkload workload;
  workload.num_requests = 3;
  workload.request = [](size_t i) {
    SimulatedRequest request;
    request.prompt_tokens = 50;
    request.tenant = i == 2 ? "other" : "";  // shares nothing
    return request;
  };
  workload.prompt = [](size_t) { return std::vector<int32_t>(50, 7); };
  workload.on_arrival = workload.on_token = [](size_t, int64_t) {};
  workload.on_end = [&](size_t, int64_t, int64_t tokens, std::string_view) {
    cached.push_back(tokens);
  };
  run_simulation(options, workload);
  EXPECT_EQ(cached.size(), 3);
  EXPECT_EQ(cached[0], 0);
  EXPECT_GE(cached[1], 48);  // three blocks, and what of the fourth can be copied
  EXPECT_EQ(cached[2], 0);
  options.prefix_cache = false;
  cached.clear();
  run_simulation(options, workload);
  EXPECT_THAT(cached, ElementsAre(0, 0, 0));
}

TEST(Simulator, RefusesWhatDoesNotFit) {
  SimulatorOptions options = plain_options();
  options.max_queue = 1;
  options.max_batch = 1;
  const Seen seen = run(options, {{512, 1}, {9, 1}, {9, 1}, {9, 1}}, {0, 0, 0, 0});
  EXPECT_EQ(seen.failures.at(0), "longer than the context of 512 tokens");
  EXPECT_EQ(seen.failures.at(2), "the queue was full");
  EXPECT_TRUE(seen.failures.contains(3));
  EXPECT_EQ(seen.tokens[1].size(), 1);
  EXPECT_THAT(seen.prompts_made, ElementsAre(1));
}

TEST(Simulator, HoldsATargetBetweenTokens) {
  // One answers throughout; the other's prompt comes when the scheduler knows what steps take.
  const auto worst_gap = [](int64_t target_us) {
    SimulatorOptions options = plain_options();
    options.target_tbt_us = target_us;
    const auto times = run(options, {{8, 200}, {250, 1}}, {0, 1000}).tokens[0];
    int64_t worst = 0;
    for (size_t i = 1; i < times.size(); ++i) worst = std::max(worst, times[i] - times[i - 1]);
    return worst;
  };
  EXPECT_EQ(worst_gap(0), 10 + 64);
  EXPECT_LE(worst_gap(40), 40 + 4);  // of prompts as long it has seen none before
}

TEST(Simulator, KeepsLengthsFromPoliciesThatArePredictedFor) {
  // Prompts of 40 tokens have answers of 100, those of 60 answers of 2.
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (int i = 0; i < 40; ++i)
    lengths.push_back(i % 2 == 0 ? std::pair(40, 100) : std::pair(60, 2));
  const auto mean_of_short_ones = [&](const std::string& predictor) {
    SimulatorOptions options = plain_options();
    options.policy = "sjf";
    options.max_batch = 1;
    options.length_predictor = predictor;
    // All come when the first two have taught what there is to know.
    std::vector<int64_t> times(lengths.size(), 10'000);
    times[0] = times[1] = 0;
    const Seen seen = run(options, lengths, times);
    int64_t sum = 0;
    for (size_t i = 3; i < lengths.size(); i += 2) sum += seen.tokens[i].back() - 10'000;
    return sum / 19;
  };
  const int64_t known = mean_of_short_ones("limit");
  EXPECT_LT(known, 3'000);
  EXPECT_EQ(mean_of_short_ones("history"), known);
  EXPECT_EQ(mean_of_short_ones("online"), known);
}

TEST(Simulator, MeetsDeadlinesOrSaysSo) {
  // Each takes 10 steps of 11 us or more; ten at a time come, one runs, and each is given the time
  // of four.
  const auto num_met = [](const std::string& policy) {
    SimulatorOptions options = plain_options();
    options.policy = policy;
    options.max_batch = 1;
    SimulatedWorkload workload;
    workload.num_requests = 50;
    for (int64_t i = 0; i < 50; ++i) workload.times_us.push_back(i / 10 * 600);
    workload.request = [](size_t) {
      return SimulatedRequest{.prompt_tokens = 2, .output_tokens = 10, .deadline_us = 480};
    };
    workload.prompt = [](size_t i) { return std::vector<int32_t>(2, static_cast<int32_t>(i)); };
    workload.on_arrival = workload.on_token = [](size_t, int64_t) {};
    int met = 0, failed = 0;
    workload.on_end = [&](size_t i, int64_t now, int64_t, std::string_view failure) {
      met += failure.empty() && now <= static_cast<int64_t>(i) / 10 * 600 + 480 ? 1 : 0;
      failed += failure == "its deadline could not be met" ? 1 : 0;
      EXPECT_TRUE(failure.empty() || policy == "edf");
    };
    run_simulation(options, workload);
    EXPECT_LE(met + failed, 50);
    return met;
  };
  EXPECT_LE(num_met("fcfs"), 6);
  EXPECT_GE(num_met("edf"), 18);
}

TEST(Simulator, EndsBeforeTimeOverflows) {
  SimulatorOptions options = plain_options();
  options.costs.us_per_key_product = 1e15;
  EXPECT_THROW(run(options, {{60, 1}}, {0}), Error);
}

TEST(Simulator, PreemptsAndStillAnswersAll) {
  SimulatorOptions options = plain_options();
  options.num_kv_blocks = 20;
  options.context = 320;
  const Seen seen = run(options, {{100, 150}, {100, 150}, {100, 150}}, {0, 0, 0});
  EXPECT_GT(seen.simulation.preemptions, 0);
  for (const auto& tokens : seen.tokens) EXPECT_EQ(tokens.size(), 150);
  EXPECT_GT(seen.simulation.mean_blocks_used, 10);
  EXPECT_LE(seen.simulation.mean_blocks_used, 20);
}

TEST(Simulator, IsTheSameEachTime) {
  std::vector<std::pair<int64_t, int64_t>> lengths;
  std::vector<int64_t> times;
  std::mt19937 random(7);
  for (int64_t i = 0; i < 200; ++i) {
    lengths.emplace_back(1 + random() % 300, 1 + random() % 60);
    times.push_back(i * 700);
  }
  const Seen first = run(plain_options(), lengths, times);
  EXPECT_EQ(first.tokens, run(plain_options(), lengths, times).tokens);
}

TEST(Simulator, SaysWhichOptionsDoNotFitTogether) {
  const auto error_of = [](const SimulatorOptions& options) -> std::string {
    try {
      run(options, {{1, 1}}, {0});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  SimulatorOptions options = plain_options();
  options.max_batch = 65;
  EXPECT_THAT(error_of(options), HasSubstr("--max-batch is 65"));
  options = plain_options();
  options.block_size = 24;
  EXPECT_THAT(error_of(options), HasSubstr("--block-size is 24"));
  options = plain_options();
  options.num_kv_blocks = kMaxSimulatedKvBlocks + 1;
  EXPECT_THAT(error_of(options), HasSubstr("the cache has 67108865 blocks"));
  options = plain_options();
  options.context = 1025;
  EXPECT_THAT(error_of(options), HasSubstr("1025 tokens does not fit 64 blocks of 16"));
  options = plain_options();
  options.policy = "whim";
  EXPECT_THAT(error_of(options), HasSubstr("whim"));
  options = plain_options();
  options.length_predictor = "guess";
  EXPECT_THAT(error_of(options), HasSubstr("guess"));
  options = plain_options();
  options.preferred_batch = 5;
  EXPECT_THAT(error_of(options), HasSubstr("--preferred-batch is 5"));
  options = plain_options();
  options.chunked_prefill = false;
  EXPECT_THAT(error_of(options), HasSubstr("--step-tokens is 64; with --no-chunked-prefill"));
}

TEST(StepRecord, CountsTheKeysInView) {
  StepPlan plan;
  plan.num_tokens = 4;
  plan.sequences = {{.begin = 10, .count = 3}, {.begin = 7, .count = 1}};
  const StepRecord step = describe(plan);
  EXPECT_EQ(step.sequences, 2);
  EXPECT_EQ(step.tokens, 4);
  EXPECT_EQ(step.key_reads, 13 + 8);
  EXPECT_EQ(step.key_products, 11 + 12 + 13 + 8);
}

std::vector<StepRecord> random_steps(const StepCosts& costs, double noise) {
  std::mt19937 random(3);
  std::vector<StepRecord> steps;
  for (int i = 0; i < 400; ++i) {
    StepRecord step;
    step.sequences = 1 + random() % 32;
    const int64_t chunk = random() % 3 == 0 ? random() % 480 : 0;
    step.tokens = step.sequences + chunk;
    step.key_reads = step.sequences * (1 + random() % 2000);
    step.key_products = step.key_reads + chunk * (1 + random() % 2000);
    const double factor = 1 + noise * (static_cast<double>(random() % 2001) / 1000 - 1);
    step.duration_us = static_cast<int64_t>(predict_step_us(costs, step) * factor);
    if (noise > 0 && i % 200 == 0) step.duration_us *= 100;  // somebody else had the machine
    steps.push_back(step);
  }
  return steps;
}

TEST(StepCosts, AreFoundAgain) {
  const StepCosts costs = {.base_us = 30'000,
                           .free_tokens = 12,
                           .us_per_token = 2'500,
                           .us_per_sequence = 300,
                           .us_per_key_read = 1.5,
                           .us_per_key_product = 0.25};
  const StepCostFit exact = fit_costs(random_steps(costs, 0));
  EXPECT_LT(exact.mean_error, 0.002);  // the bend is tried at some places only
  EXPECT_NEAR(exact.costs.us_per_token, 2'500, 25);
  EXPECT_NEAR(exact.costs.us_per_key_product, 0.25, 0.01);

  const StepCostFit noisy = fit_costs(random_steps(costs, 0.1));
  EXPECT_NEAR(noisy.costs.us_per_token, 2'500, 125);
  StepRecord step;
  step.sequences = step.tokens = 8;
  step.key_reads = step.key_products = 8'000;
  EXPECT_NEAR(predict_step_us(noisy.costs, step) / predict_step_us(costs, step), 1, 0.05);
}

TEST(StepCosts, AddUpToWhatWasMeasured) {
  const StepCosts truth = {.base_us = 30'000, .us_per_token = 2'500};
  const std::vector<StepRecord> steps = random_steps(truth, 0.5);
  const StepCosts costs = fit_costs(steps).costs;
  double taken = 0;
  double predicted = 0;
  for (const StepRecord& step : steps) {
    taken += predict_step_us(truth, step);
    predicted += predict_step_us(costs, step);
  }
  EXPECT_NEAR(predicted / taken, 1, 0.03);
}

TEST(StepCosts, AreNeverNegative) {
  // Longer steps that took less time.
  std::vector<StepRecord> steps;
  for (int64_t i = 1; i <= 40; ++i) {
    StepRecord step;
    step.sequences = step.tokens = step.key_reads = step.key_products = i;
    step.duration_us = 1'000 - 10 * i;
    steps.push_back(step);
  }
  const StepCosts costs = fit_costs(steps).costs;
  for (const double cost : {costs.base_us, costs.us_per_token, costs.us_per_sequence,
                            costs.us_per_key_read, costs.us_per_key_product})
    EXPECT_GE(cost, 0);
  EXPECT_THROW(fit_costs(std::span(steps).first(15)), Error);
}

}  // namespace
}  // namespace hasten::engine
