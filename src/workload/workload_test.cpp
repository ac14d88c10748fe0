// SPDX-License-Identifier: Apache-2.0
// Arrival processes by their moments, prompts by what they share, statistics by known answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "base/json.h"
#include "base/philox.h"
#include "hasten/error.h"
#include "workload/arrivals.h"
#include "workload/distribution.h"
#include "workload/programs.h"
#include "workload/prompts.h"
#include "workload/statistics.h"

namespace hasten::workload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Trace trace_of(size_t count) {
  Trace trace;
  trace.requests.resize(count);
  for (size_t i = 0; i < count; ++i) trace.requests[i].prompt_tokens = 100;
  return trace;
}

std::vector<double> gaps(const std::vector<int64_t>& times) {
  std::vector<double> result;
  for (size_t i = 1; i < times.size(); ++i)
    result.push_back(static_cast<double>(times[i] - times[i - 1]));
  return result;
}

TEST(Arrivals, HaveTheRateAndTheVariationAskedFor) {
  const Trace trace = trace_of(40001);
  for (const double cv : {0.0, 0.5, 1.0, 2.0}) {
    const auto times = arrival_times_us(trace, {.rate = 100, .cv = cv, .seed = 1});
    ASSERT_EQ(times.size(), 40001);
    EXPECT_EQ(times[0], 0);
    EXPECT_TRUE(std::ranges::is_sorted(times));
    const auto values = gaps(times);
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    // Four standard errors of the mean, and of the deviation of so skewed a sample.
    EXPECT_NEAR(mean, 1e4, 1e4 * 4 * std::max(cv, 0.001) / std::sqrt(n)) << cv;
    EXPECT_NEAR(std::sqrt(squares / n) / mean, cv, 0.08 * cv + 0.001) << cv;
  }
}

TEST(Arrivals, ArePoissonWithoutACv) {
  // The share of gaps above t is exp(-t / mean).
  const auto values = gaps(arrival_times_us(trace_of(40001), {.rate = 1000, .seed = 3}));
  for (const double t : {500.0, 1000.0, 3000.0}) {
    const auto above = std::ranges::count_if(values, [t](double gap) { return gap > t; });
    EXPECT_NEAR(static_cast<double>(above) / 40000, std::exp(-t / 1000), 0.01) << t;
  }
}

TEST(Arrivals, DependOnSeedAndIndexAlone) {
  const Arrivals arrivals = {.rate = 10, .cv = 3, .seed = 7};
  auto longer = arrival_times_us(trace_of(50), arrivals);
  longer.resize(20);
  EXPECT_EQ(longer, arrival_times_us(trace_of(20), arrivals));
  EXPECT_NE(longer, arrival_times_us(trace_of(20), {.rate = 10, .cv = 3, .seed = 8}));
}

TEST(Arrivals, TakeTheTracesTimesAtItsSpeed) {
  Trace trace = trace_of(3);
  trace.requests[1].time_us = 1000;
  trace.requests[2].time_us = 5000;
  EXPECT_THROW(arrival_times_us(trace, {}), Error);  // it says that it has none
  trace.has_times = true;
  EXPECT_EQ(arrival_times_us(trace, {.speed = 2}), (std::vector<int64_t>{0, 500, 2500}));
}

TEST(Arrivals, EndWhereClocksDo) {
  Trace trace = trace_of(2);
  trace.has_times = true;
  trace.requests[1].time_us = kMaxSeconds * 1'000'000;
  EXPECT_EQ(arrival_times_us(trace, {})[1], kMaxSeconds * 1'000'000);
  ++trace.requests[1].time_us;
  EXPECT_THROW(arrival_times_us(trace, {}), Error);
  EXPECT_THROW(arrival_times_us(trace, {.speed = 1e-300}), Error);
  EXPECT_THROW(arrival_times_us(trace_of(10), {.rate = 1e-300}), Error);
}

TEST(Prompts, ShareExactlyTheBlocksOfEqualIds) {
  Trace trace = trace_of(4);
  trace.block_tokens = 8;
  trace.requests[0] = {.prompt_tokens = 20, .blocks = {5, 6}};
  trace.requests[1] = {.prompt_tokens = 19, .blocks = {5, 6}};
  trace.requests[2] = {.prompt_tokens = 12, .blocks = {5, 9}};
  trace.requests[3] = {.prompt_tokens = 20};
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < 4; ++i) {
    prompts.push_back(make_prompt(trace, i, 50000, 1));
    EXPECT_EQ(std::ssize(prompts[i]), trace.requests[i].prompt_tokens);
    EXPECT_EQ(prompts[i], make_prompt(trace, i, 50000, 1));
    EXPECT_NE(prompts[i], make_prompt(trace, i, 50000, 2));
  }
  const auto common = [&](size_t a, size_t b) {
    const auto [at, end] = std::ranges::mismatch(prompts[a], prompts[b]);
    return at - prompts[a].begin();
  };
  EXPECT_EQ(common(0, 1), 16);  // their tails are their own
  EXPECT_EQ(common(0, 2), 8);
  EXPECT_EQ(common(0, 3), 0);
  // The same block elsewhere holds the same tokens.
  trace.requests[3].blocks = {1, 5};
  const auto shifted = make_prompt(trace, 3, 50000, 1);
  EXPECT_TRUE(std::equal(shifted.begin() + 8, shifted.begin() + 16, prompts[0].begin()));
}

TEST(Prompts, UseTheWholeVocabularyAndNothingBeyond) {
  Trace trace = trace_of(1);
  trace.requests[0].prompt_tokens = 2000;
  const auto prompt = make_prompt(trace, 0, 100, 1);
  const std::set<int32_t> ids(prompt.begin(), prompt.end());
  EXPECT_EQ(ids.size(), 100);
  EXPECT_EQ(*ids.begin(), 0);
  EXPECT_EQ(*ids.rbegin(), 99);
}

TEST(Prompts, HaveAWordForEachToken) {
  const Trace trace = trace_of(2);
  const std::string text = make_prompt_text(trace, 0, 1);
  EXPECT_EQ(std::ranges::count(text, ' '), 99);
  EXPECT_EQ(text.find("  "), std::string::npos);
  EXPECT_NE(text, make_prompt_text(trace, 1, 1));
}

TEST(Distribution, IsExactForSmallValuesAndCloseForLargeOnes) {
  Distribution small;
  for (int64_t i = 1; i <= 100; ++i) small.add(i);
  EXPECT_EQ(small.quantile(0.5), 50);
  EXPECT_EQ(small.quantile(0.07), 7);
  EXPECT_EQ(small.quantile(0.99), 99);
  EXPECT_EQ(small.quantile(1), 100);
  EXPECT_EQ(small.mean(), 50.5);

  Distribution large;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 2000; ++i) {
    const auto value = static_cast<int64_t>(std::exp(30 * uniform(5, 0, i)));
    values.push_back(value);
    large.add(value);
  }
  std::ranges::sort(values);
  EXPECT_EQ(large.min(), values.front());
  EXPECT_EQ(large.max(), values.back());
  for (const double q : {0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(values[static_cast<size_t>(std::ceil(q * 2000)) - 1]);
    EXPECT_NEAR(static_cast<double>(large.quantile(q)), exact, exact * 0.004 + 0.5) << q;
  }
}

TEST(Distribution, TakesAnyValueAndNone) {
  Distribution values;
  EXPECT_EQ(values.quantile(0.5), 0);
  EXPECT_EQ(values.mean(), 0);
  values.add(INT64_MAX);
  values.add(0);
  EXPECT_EQ(values.quantile(0.5), 0);
  EXPECT_EQ(values.quantile(0.99), INT64_MAX);
  EXPECT_THROW(values.add(-1), Error);
}

/// Two answers: one of four tokens, the last two together; one of a single token.
Statistics two_answers(const Targets& targets) {
  Statistics statistics(targets);
  Answer first = {.arrival_us = 1'000'000, .prompt_tokens = 10, .cached_tokens = 4};
  statistics.deliver(first, 1'100'000, 1);
  statistics.deliver(first, 1'130'000, 1);
  statistics.deliver(first, 1'190'000, 2);
  statistics.finish(first, 1'200'000);
  Answer second = {.arrival_us = 1'500'000, .prompt_tokens = 20};
  statistics.deliver(second, 1'900'000, 1);
  statistics.finish(second, 2'000'000);
  statistics.fail({.arrival_us = 1'600'000}, 3'000'000, "refused");
  return statistics;
}

TEST(Statistics, HaveTheFieldsDefinitions) {
  const json::Object object = two_answers({}).to_json();
  const auto number = [&](std::string_view key) { return object.at(key).to_number<double>(); };
  const auto of = [&](std::string_view key, std::string_view which) {
    return object.at(key).as_object().at(which).to_number<double>();
  };
  EXPECT_EQ(number("requests"), 3);
  EXPECT_EQ(number("finished"), 2);
  EXPECT_EQ(object.at("failures").as_object().at("refused").to_number<double>(), 1);
  EXPECT_EQ(number("duration_seconds"), 2);  // to the end of the one that failed
  EXPECT_EQ(number("requests_per_second"), 1);
  EXPECT_EQ(number("prompt_tokens"), 30);
  EXPECT_EQ(number("cached_tokens"), 4);
  EXPECT_EQ(number("output_tokens_per_second"), 2.5);
  EXPECT_EQ(of("ttft_ms", "max"), 400);
  EXPECT_EQ(of("ttft_ms", "mean"), 250);
  EXPECT_EQ(of("tbt_ms", "count"), 2);
  EXPECT_EQ(of("tbt_ms", "mean"), 45);
  EXPECT_EQ(of("tbt_ms", "max"), 60);
  EXPECT_EQ(of("tpot_ms", "count"), 1);  // an answer of one token has none
  EXPECT_EQ(of("tpot_ms", "max"), 30);
  EXPECT_EQ(of("normalized_latency_ms", "max"), 500);
  EXPECT_EQ(of("normalized_latency_ms", "mean"), 275);  // 200 / 4 and 500 / 1
  EXPECT_EQ(of("e2e_ms", "max"), 500);
  EXPECT_FALSE(object.contains("good"));
  EXPECT_FALSE(object.contains("limits"));
}

TEST(Statistics, HaveNoLatencyOfAnAnswerThatFailed) {
  Statistics statistics;
  Answer failed;
  for (const int64_t now_us : {1000, 2000, 900'000}) statistics.deliver(failed, now_us, 1);
  Answer finished;
  for (const int64_t now_us : {1000, 4000}) statistics.deliver(finished, now_us, 1);
  statistics.fail(failed, 900'000, "stalled");
  EXPECT_EQ(statistics.tbt_us().count(), 0);
  statistics.finish(finished, 4000);
  EXPECT_EQ(statistics.tbt_us().count(), 1);
  EXPECT_EQ(statistics.tbt_us().max(), 3000);
}

TEST(Statistics, TellTenantsApart) {
  const auto answers_of = [](int num_tenants) {
    Statistics statistics;
    std::vector<std::string> names;
    for (int i = 0; i < num_tenants; ++i)
      names.push_back(std::string(1, static_cast<char>('a' + i)));
    for (int i = 0; i < num_tenants; ++i) {
      Answer answer{.tenant = names[static_cast<size_t>(i)]};
      statistics.deliver(answer, 1000 * (i + 1), 1);
      statistics.finish(answer, 1000 * (i + 1));
    }
    return statistics;
  };
  EXPECT_FALSE(answers_of(1).to_json().contains("tenants"));
  const json::Object tenants = answers_of(11).to_json().at("tenants").as_object();
  const auto mean = [&](std::string_view name) {
    return tenants.at(name).as_object().at("e2e_ms").as_object().at("mean").to_number<double>();
  };
  EXPECT_EQ(tenants.size(), 9);
  EXPECT_EQ(mean("a"), 1);
  EXPECT_EQ(mean("h"), 8);
  EXPECT_EQ(mean("(others)"), 10);  // i, j and k
  EXPECT_THAT(answers_of(2).to_text(), HasSubstr("  of \"b\""));
}

TEST(Statistics, TellOfWholePrograms) {
  Statistics statistics;
  Answer answer{.arrival_us = 5'000'000, .prompt_tokens = 1, .program_us = 1'000'000};
  statistics.deliver(answer, 6'000'000, 1);
  statistics.finish(answer, 6'000'000);
  answer.program_us = -1;
  statistics.finish(answer, 7'000'000);
  const json::Object object = statistics.to_json();
  const json::Object& programs = object.at("programs").as_object();
  EXPECT_EQ(programs.at("finished").to_number<int64_t>(), 1);
  EXPECT_EQ(programs.at("ms").as_object().at("max").to_number<double>(), 5000);
  EXPECT_NE(statistics.to_text().find("\nprogram "), std::string::npos);
}

/// 0 is followed by 1, and that by 2 and 4; 3 is of another program, as is 5, with which it has
/// nothing in common but the name.
Trace three_programs() {
  Trace trace;
  trace.requests.resize(6);
  for (TraceRequest& request : trace.requests) request.program_id = "x";
  trace.requests[1].follows = 0;
  trace.requests[2].follows = 1;
  trace.requests[3].program_id = "y";
  trace.requests[4].follows = 1;
  trace.requests[5].tenant = "another";
  for (const size_t i : {3, 4, 5}) trace.requests[i].ends_program = true;
  return trace;
}

TEST(Programs, KnowWhatFollows) {
  const Programs programs(three_programs());
  EXPECT_THAT(programs.followers(0), ElementsAre(1));
  EXPECT_THAT(programs.followers(1), ElementsAre(2, 4));
  EXPECT_THAT(programs.all_behind(0), ElementsAre(1, 2, 4));
  EXPECT_THAT(programs.all_behind(3), IsEmpty());
}

TEST(Programs, AreFromTheFirstArrivalToTheLastEnd) {
  Programs programs(three_programs());
  std::vector<Answer> answers(6);
  for (size_t i = 0; i < answers.size(); ++i) {
    answers[i].arrival_us = static_cast<int64_t>(10 * i + 7);
    programs.arrive(i, answers[i]);
  }
  // In whatever order they end.
  for (const size_t i : {0, 1, 4, 3, 2}) programs.finish(i, answers[i]);
  std::vector<int64_t> begins;
  for (const Answer& answer : answers) begins.push_back(answer.program_us);
  EXPECT_THAT(begins, ElementsAre(-1, -1, 7, 37, -1, -1));
}

TEST(Programs, DoNotEndThatHaveFailedOrAreCutOff) {
  Trace trace = three_programs();
  Programs failed(trace);
  std::vector<Answer> answers(6);
  for (const size_t i : {0, 1, 4}) {
    failed.arrive(i, answers[i]);
    failed.finish(i, answers[i]);
  }
  EXPECT_EQ(answers[4].program_us, -1);
  keep_first(trace, 1);
  Programs cut(trace);
  cut.arrive(0, answers[0]);
  cut.finish(0, answers[0]);
  EXPECT_EQ(answers[0].program_us, -1);
}

TEST(Statistics, CountWhatKeepsEveryTarget) {
  const auto good = [](const Targets& targets) {
    return two_answers(targets).to_json().at("good").to_number<int64_t>();
  };
  EXPECT_EQ(good({.ttft_ms = 400}), 2);
  EXPECT_EQ(good({.ttft_ms = 399}), 1);
  EXPECT_EQ(good({.tpot_ms = 30}), 2);
  EXPECT_EQ(good({.tpot_ms = 29}), 1);
  EXPECT_EQ(good({.e2e_ms = 200}), 1);
  EXPECT_EQ(good({.ttft_ms = 400, .tpot_ms = 30, .e2e_ms = 100}), 0);
}

TEST(Statistics, PrintALimitBesideWhatHasOne) {
  const Statistics statistics = two_answers({.ttft_ms = 399});
  EXPECT_THAT(statistics.to_text(), Not(HasSubstr("limit")));
  const std::string text =
      statistics.to_text({.ttft_ms = 12.5, .tpot_ms = 7.25, .output_tokens_per_second = 10});
  EXPECT_THAT(text, HasSubstr("2 requests answered in 2.0 s: 1.00 a second"));
  EXPECT_THAT(text, HasSubstr("1 failed: refused (1)"));
  EXPECT_THAT(text, HasSubstr("(limit of output tokens for this work 10.0: 25 %)"));
  const std::string open =
      statistics.to_text({.output_tokens_per_second = 10, .is_open_loop = true});
  EXPECT_THAT(open, HasSubstr("10.0: 25 %; an open loop answers no more than arrives)"));
  EXPECT_THAT(text, HasSubstr("goodput 0.50 requests/s"));
  EXPECT_THAT(text, HasSubstr("12.5\n"));
  EXPECT_THAT(text, HasSubstr("7.250\n"));
}

TEST(Statistics, TellOfASideThatMeasuresTooSlowly) {
  Statistics statistics = two_answers({});
  for (int i = 0; i < 10; ++i) statistics.sent_late(1000);
  EXPECT_THAT(statistics.to_text(), Not(HasSubstr("late")));
  for (int i = 0; i < 10; ++i) statistics.sent_late(20'000);
  EXPECT_THAT(statistics.to_text(), HasSubstr("sent more than 20.0 ms late"));
}

TEST(Statistics, OfNothingAreZero) {
  const Statistics statistics;
  EXPECT_EQ(statistics.output_tokens_per_second(), 0);
  EXPECT_THAT(statistics.to_text(), HasSubstr("0 requests answered"));
  EXPECT_EQ(statistics.to_json().at("duration_seconds").to_number<double>(), 0);
}

}  // namespace
}  // namespace hasten::workload
