// SPDX-License-Identifier: Apache-2.0
// Samplers: each filter against a plain oracle, drawn tokens against exact probabilities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/philox.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/softmax.h"
#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Probabilities by token id, as the filters are defined, with full sorts and doubles.
using Distribution = std::map<int32_t, double>;

void normalise(Distribution& distribution) {
  double sum = 0.0;
  for (const auto& [id, p] : distribution) sum += p;
  for (auto& [id, p] : distribution) p /= sum;
}

template <class Key>
void keep_until(Distribution& distribution, double mass, Key key) {
  std::vector<int32_t> ids;
  for (const auto& [id, p] : distribution) ids.push_back(id);
  std::ranges::stable_sort(ids, {}, key);
  Distribution kept;
  double sum = 0.0;
  for (const int32_t id : ids) {
    if (sum >= mass) break;
    kept[id] = distribution[id];
    sum += distribution[id];
  }
  distribution = kept;
  normalise(distribution);
}

Distribution oracle(const std::vector<float>& logits, const Sampling& sampling) {
  Distribution result;
  const double max = *std::ranges::max_element(logits);
  for (size_t i = 0; i < logits.size(); ++i)
    result[static_cast<int32_t>(i)] = std::exp((logits[i] - max) / sampling.temperature);
  normalise(result);
  if (sampling.top_k > 0) {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, std::greater<>(),
                             [&](int32_t id) { return logits[static_cast<size_t>(id)]; });
    for (size_t i = static_cast<size_t>(sampling.top_k); i < ids.size(); ++i) result.erase(ids[i]);
    normalise(result);
  }
  if (sampling.typical_p < 1.0F) {
    double entropy = 0.0;
    for (const auto& [id, p] : result) entropy -= p * std::log(p);
    keep_until(result, sampling.typical_p,
               [&](int32_t id) { return std::abs(-std::log(result[id]) - entropy); });
  }
  if (sampling.top_p < 1.0F)
    keep_until(result, sampling.top_p, [&](int32_t id) { return -result[id]; });
  if (sampling.min_p > 0.0F) {
    double best = 0.0;
    for (const auto& [id, p] : result) best = std::max(best, p);
    std::erase_if(result, [&](const auto& entry) { return entry.second < sampling.min_p * best; });
    normalise(result);
  }
  return result;
}

Distribution filtered(const std::vector<float>& logits, const Sampling& sampling) {
  Candidates candidates(std::ssize(logits));
  candidates.assign(logits, sampling.top_k, sampling.temperature);
  candidates.keep_typical(sampling.typical_p);
  candidates.keep_top_p(sampling.top_p);
  candidates.keep_min_p(sampling.min_p);
  Distribution result;
  for (size_t i = 0; i < candidates.ids().size(); ++i)
    result[candidates.ids()[i]] = candidates.weights()[i];
  normalise(result);
  return result;
}

std::vector<float> random_logits(std::mt19937& random, size_t size, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

void expect_near(const Distribution& actual, const Distribution& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [id, p] : expected) {
    ASSERT_TRUE(actual.contains(id)) << id;
    EXPECT_NEAR(actual.at(id), p, 1e-5) << id;
  }
}

Sample sample(Sampler& sampler, std::vector<float> logits, const Sampling& sampling,
              std::vector<int32_t> generated = {}, uint64_t seed = 0, int32_t num_top = -1) {
  return sampler.sample({.logits = logits,
                         .scan = ops::scan_row(logits),
                         .sampling = sampling,
                         .seed = seed,
                         .generated = generated,
                         .num_top_logprobs = num_top});
}

TEST(Philox, MatchesTheVectorsOfItsAuthors) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, UniformFillsTheUnitIntervalEvenly) {
  std::vector<int> bins(100, 0);
  for (int64_t i = 0; i < 100'000; ++i) {
    const double u = uniform(42, static_cast<int32_t>(i % 3), i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * 100)];
  }
  double chi_square = 0.0;
  for (const int count : bins) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 149.0);  // 99 degrees of freedom, p = 0.001
}

TEST(Softmax, ExponentialsAreExactToAFewUlps) {
  double worst = 0.0;
  for (float x = -86.9F; x <= 0.0F; x += 0.00137F) {
    float value = x;
    exp_in_place({&value, 1});
    worst = std::max(worst, std::abs(value / std::exp(static_cast<double>(x)) - 1.0));
  }
  EXPECT_LT(worst, 2e-7);
  std::vector<float> edges = {0.0F, -87.5F, -1e30F, -kInf};
  exp_in_place(edges);
  EXPECT_THAT(edges, ElementsAre(1.0F, 0.0F, 0.0F, 0.0F));
}

TEST(Softmax, SelectsTheTopInOrderWithTheLowestIdFirst) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 500);
    for (float& logit : logits) logit = static_cast<float>(random() % 12);  // many ties
    std::vector<int32_t> expected(logits.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, std::greater<>(),
                             [&](int32_t id) { return logits[static_cast<size_t>(id)]; });
    const auto k = random() % 60;
    expected.resize(std::min<size_t>(k, expected.size()));
    std::vector<int32_t> actual;
    select_top(logits, k, actual);
    ASSERT_EQ(actual, expected);
  }
}

TEST(Softmax, FindsTheFirstOfTheLargestAndTheSum) {
  std::mt19937 random(17);
  EXPECT_EQ(largest({}), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(sum({}), 0.0);
  for (size_t size = 1; size < 400; ++size) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random() % 50) - 70.0F;  // many equals
    const auto expected = std::ranges::max_element(values);
    EXPECT_EQ(largest(values), *expected);
    EXPECT_EQ(sum(values), std::accumulate(values.begin(), values.end(), 0.0));  // integers: exact
  }
}

TEST(Candidates, DrawsWhereTheCumulativeDistributionPassesIt) {
  std::mt19937 random(19);
  for (const size_t size : {1U, 2U, 255U, 256U, 257U, 1000U, 5000U}) {
    std::vector<float> logits(size);
    for (float& logit : logits) {
      logit = random() % 4 == 0 ? -std::numeric_limits<float>::infinity()
                                : static_cast<float>(random() % 1000) / 100.0F;
    }
    logits[random() % size] = 5.0F;
    Candidates candidates(static_cast<int64_t>(size));
    candidates.assign(logits, 0, 1.0F);
    std::vector<double> before = {0.0};  // weights of those in front of each
    for (const float weight : candidates.weights()) before.push_back(before.back() + weight);
    for (int i = 0; i <= 1000; ++i) {
      const double uniform = i < 1000 ? i / 1000.0 : std::nextafter(1.0, 0.0);
      const auto drawn = static_cast<size_t>(candidates.draw(uniform));
      const double target = uniform * before.back();
      ASSERT_GT(candidates.weights()[drawn], 0.0F);
      ASSERT_LE(before[drawn], target * (1 + 1e-12) + 1e-12) << size << " at " << uniform;
      ASSERT_GE(before[drawn + 1], target * (1 - 1e-12) - 1e-12) << size << " at " << uniform;
    }
  }
}

TEST(Candidates, EachFilterMatchesItsDefinition) {
  std::mt19937 random(2);
  const auto real = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  for (int round = 0; round < 600; ++round) {
    const auto logits = random_logits(random, 1 + random() % 300, real(0.1F, 6.0F));
    Sampling sampling;
    sampling.temperature = real(0.2F, 3.0F);
    switch (round % 5) {
      case 0:
        sampling.top_k = static_cast<int32_t>(1 + random() % 320);
        break;
      case 1:
        sampling.top_p = real(0.01F, 0.999F);
        break;
      case 2:
        sampling.min_p = real(0.0F, 1.0F);
        break;
      case 3:
        sampling.typical_p = real(0.05F, 0.99F);
        break;
      default:
        sampling.top_k = static_cast<int32_t>(1 + random() % 100);
        sampling.typical_p = real(0.3F, 0.99F);
        sampling.top_p = real(0.3F, 0.99F);
        sampling.min_p = real(0.0F, 0.3F);
    }
    expect_near(filtered(logits, sampling), oracle(logits, sampling));
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST(Candidates, AMinPOfOneKeepsTheLikeliestAndItsEquals) {
  Sampling sampling;
  sampling.min_p = 1.0F;
  expect_near(filtered({1.0F, 3.0F, 2.0F, 3.0F}, sampling), {{1, 0.5}, {3, 0.5}});
}

TEST(Sampler, DrawsFollowTheExactProbabilities) {
  std::mt19937 random(3);
  const auto logits = random_logits(random, 40, 1.5F);
  Sampling sampling;
  sampling.temperature = 1.3F;
  sampling.top_k = 24;
  sampling.top_p = 0.95F;
  const Distribution expected = oracle(logits, sampling);
  Sampler sampler(40);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i)
    ++counts[sample(sampler, logits, sampling, {}, static_cast<uint64_t>(i)).token];
  double chi_square = 0.0;
  for (const auto& [id, p] : expected) {
    const double mean = p * kDraws;
    ASSERT_GT(mean, 5.0);
    chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
    counts.erase(id);
  }
  EXPECT_TRUE(counts.empty());
  // p = 0.001 by the Wilson-Hilferty approximation.
  const double freedom = static_cast<double>(expected.size()) - 1.0;
  const double root = 1.0 - 2.0 / (9.0 * freedom) + 3.09 * std::sqrt(2.0 / (9.0 * freedom));
  EXPECT_LT(chi_square, freedom * root * root * root);
}

TEST(Sampler, SeedChoiceAndPositionDecideTheDraw) {
  const std::vector<float> logits(1000, 0.0F);
  const Sampling sampling;
  Sampler sampler(1000);
  const auto draw = [&](uint64_t seed, int32_t choice, size_t position) {
    std::vector<float> row = logits;
    const std::vector<int32_t> generated(position, 1);
    return sampler
        .sample({.logits = row,
                 .scan = ops::scan_row(row),
                 .sampling = sampling,
                 .seed = seed,
                 .choice = choice,
                 .generated = generated})
        .token;
  };
  EXPECT_EQ(draw(5, 1, 3), draw(5, 1, 3));
  std::set<int32_t> distinct;
  for (uint64_t seed : {uint64_t{5}, uint64_t{6}, uint64_t{5} << 32})
    for (int32_t choice : {0, 1})
      for (size_t position : {0U, 1U}) distinct.insert(draw(seed, choice, position));
  EXPECT_GE(distinct.size(), 11U);  // of 12
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheLowestIdOfEquals) {
  Sampling greedy;
  greedy.temperature = 0.0F;
  Sampler sampler(5);
  EXPECT_EQ(sample(sampler, {1, 7, 3, 7, 2}, greedy).token, 1);
  greedy.logit_bias = {{3, 0.5F}, {1, -100.0F}};
  EXPECT_EQ(sample(sampler, {1, 7, 3, 7, 2}, greedy).token, 3);
}

TEST(Sampler, GreedyTakesTheLikeliestOfWhateverIsAdjusted) {
  std::mt19937 random(37);
  constexpr int32_t kVocabulary = 3000;
  Sampler sampler(kVocabulary);
  LogitAdjuster adjuster(kVocabulary);
  const auto some_ids = [&](size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocabulary);
    return ids;
  };
  const auto one_of = [&](std::initializer_list<float> values) {
    return values.begin()[random() % values.size()];
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(kVocabulary);
    for (float& logit : logits) logit = static_cast<float>(random() % 400) / 16.0F - 10.0F;
    Sampling sampling;
    sampling.temperature = 0.0F;
    sampling.repetition_penalty = one_of({1.0F, 1.0F, 0.5F, 1.5F});
    sampling.presence_penalty = one_of({0.0F, 0.0F, -1.0F, 1.0F});
    sampling.frequency_penalty = one_of({0.0F, 0.0F, -1.0F, 1.0F});
    if (round % 4 == 0) sampling.logit_bias = {{static_cast<int32_t>(random() % 3000), 50.0F}};
    const auto prompt = some_ids(50);
    const auto generated = some_ids(50);
    auto banned = some_ids(round % 3 * 10);
    if (round % 3 == 2)  // the likeliest one too
      banned.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    std::vector<float> adjusted = logits;
    adjuster.adjust(adjusted, sampling, prompt, generated, banned);
    const auto expected = std::ranges::max_element(adjusted) - adjusted.begin();
    const Sample sample = sampler.sample({.logits = logits,
                                          .scan = ops::scan_row(logits),
                                          .sampling = sampling,
                                          .prompt = prompt,
                                          .generated = generated,
                                          .banned = banned});
    ASSERT_EQ(sample.token, expected) << round;
  }
}

TEST(Sampler, ATinyTemperatureIsGreedyAndAHugeOneEven) {
  Sampling sampling;
  Sampler sampler(3);
  sampling.temperature = 1e-38F;
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(sample(sampler, {1.0F, 1.001F, -3e38F}, sampling, {}, seed).token, 1);
  sampling.temperature = 100.0F;
  std::set<int32_t> seen;
  for (uint64_t seed = 0; seed < 60; ++seed)
    seen.insert(sample(sampler, {1, 2, 3}, sampling, {}, seed).token);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(LogitAdjuster, AppliesEachPenaltyAsDefined) {
  LogitAdjuster adjuster(6);
  Sampling sampling;
  sampling.repetition_penalty = 2.0F;
  sampling.presence_penalty = 0.5F;
  sampling.frequency_penalty = 0.25F;
  sampling.logit_bias = {{5, 3.0F}, {5, 1.0F}};
  const std::vector<int32_t> prompt = {0, 0, 1};
  const std::vector<int32_t> generated = {1, 2, 2, 3};
  const std::vector<int32_t> banned = {4};
  for (int round = 0; round < 2; ++round) {  // the counts are clean after the first
    std::vector<float> logits = {4.0F, -4.0F, 8.0F, 1.0F, 1.0F, 1.0F};
    adjuster.adjust(logits, sampling, prompt, generated, banned);
    EXPECT_THAT(logits, ElementsAre(2.0F, -8.75F, 3.0F, -0.25F, -kInf, 5.0F));
  }
}

TEST(Sampler, ReportsLogProbabilitiesOfTheRawLogits) {
  Sampling sampling;
  sampling.temperature = 0.0F;
  sampling.logit_bias = {{0, 50.0F}};
  Sampler sampler(4);
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -kInf};
  const Sample result = sample(sampler, logits, sampling, {}, 0, 2);
  const double log_sum = std::log(1.0 + std::exp(1.0) + std::exp(2.0));
  EXPECT_EQ(result.token, 0);
  EXPECT_NEAR(result.logprob.chosen.logprob, -log_sum, 1e-6);
  ASSERT_EQ(result.logprob.top.size(), 2U);
  EXPECT_EQ(result.logprob.top[0].token, 2);
  EXPECT_NEAR(result.logprob.top[0].logprob, 2.0 - log_sum, 1e-6);
  EXPECT_EQ(result.logprob.top[1].token, 1);
  const TokenLogprob impossible = sampler.score(logits, ops::scan_row(logits), 3, 0);
  EXPECT_EQ(impossible.chosen.logprob, -9999.0F);
  EXPECT_TRUE(impossible.top.empty());
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  Sampler sampler(3);
  for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
    try {
      sample(sampler, {0.0F, bad, 1.0F}, Sampling{});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      EXPECT_THAT(error.what(), HasSubstr("1 of 3"));
    }
  }
}

TEST(Sampler, SaysWhenEverythingIsBanned) {
  Sampler sampler(2);
  std::vector<float> logits = {0.0F, -kInf};
  const std::vector<int32_t> banned = {0};
  const Sampling sampling;
  EXPECT_THROW(sampler.sample({.logits = logits,
                               .scan = ops::scan_row(logits),
                               .sampling = sampling,
                               .banned = banned}),
               Error);
}

}  // namespace
}  // namespace hasten::engine
