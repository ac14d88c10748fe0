// SPDX-License-Identifier: Apache-2.0
// The engine's step without its thread: whole answers against an oracle that knows no paging, in
// every company, and what faults do to whom.
#include "engine/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/core_world_test.h"

namespace hasten::engine {
namespace {

using testing::FakeModelOptions;
using ::testing::HasSubstr;

Request simple(std::vector<int32_t> prompt, int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = 1;
  return request;
}

/// Requests of every kind, the same for the same seed.
std::vector<Request> mixed_requests(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request;
    for (int64_t length = draw(1, i % 4 == 0 ? 90 : 20); length > 0; --length)
      request.prompt.push_back(static_cast<int32_t>(draw(1, 63)));
    if (draw(0, 1) == 0) {  // one of three beginnings in common
      const int64_t length = std::min<int64_t>(draw(1, 60), std::ssize(request.prompt));
      for (int64_t p = 0; p < length; ++p)
        request.prompt[static_cast<size_t>(p)] =
            static_cast<int32_t>(2 + (i % 3 * 17 + p * p) % 61);
    }
    if (draw(0, 5) == 0) request.tenant = "other";
    request.max_tokens = draw(0, 9) == 0 ? 0 : draw(1, 30);
    request.sampling.seed = static_cast<uint64_t>(draw(0, 1'000'000));
    request.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
    if (draw(0, 2) == 0) request.sampling.top_p = 0.8F;
    if (draw(0, 2) == 0) request.sampling.top_k = 20;
    if (draw(0, 3) == 0) request.sampling.repetition_penalty = 1.3F;
    if (draw(0, 3) == 0) request.sampling.frequency_penalty = 0.7F;
    if (draw(0, 3) == 0) request.sampling.logit_bias = {{7, 2.0F}};
    if (draw(0, 2) == 0) request.stop = {"a", "xy", "cab"};
    if (draw(0, 3) == 0) request.stop_tokens = {11, 12};
    if (draw(0, 3) == 0 && request.max_tokens > 0) request.min_tokens = request.max_tokens / 2;
    if (draw(0, 2) == 0) request.n = static_cast<int32_t>(draw(2, 4));
    request.ignore_eos = draw(0, 1) == 0;
    request.show_special = draw(0, 1) == 0;
    request.logprobs = static_cast<int32_t>(draw(-1, 3));
    if (draw(0, 4) == 0) request.prompt_logprobs = static_cast<int32_t>(draw(0, 2));
    requests.push_back(request);
  }
  return requests;
}

/// The log probabilities of the prompt's tokens, one plain row at a time.
std::vector<float> prompt_oracle(const Request& request, const FakeModelOptions& options) {
  std::vector<float> result;
  if (request.prompt_logprobs < 0) return result;
  Sampler sampler(options.vocab_size);
  std::vector<float> row(static_cast<size_t>(options.vocab_size));
  for (size_t i = 1; i < request.prompt.size(); ++i) {
    testing::FakeModel::logits(std::span(request.prompt).first(i), options, row);
    result.push_back(sampler.score(row, ops::scan_row(row), request.prompt[i], 0).chosen.logprob);
  }
  return result;
}

void expect_answers(const World& world, const std::vector<Request>& requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Received& received = *world.all[i];
    ASSERT_TRUE(received.ended) << "request " << i;
    for (int32_t choice = 0; choice < requests[i].n; ++choice)
      ASSERT_EQ(received.answers.at(choice), oracle(requests[i], choice, world.model_options))
          << "request " << i << ", choice " << choice;
    std::vector<float> prompt_logprobs;
    for (const TokenLogprob& logprob : received.prompt_logprobs) {
      prompt_logprobs.push_back(logprob.chosen.logprob);
      ASSERT_EQ(std::ssize(logprob.top), requests[i].prompt_logprobs);
    }
    ASSERT_EQ(prompt_logprobs, prompt_oracle(requests[i], world.model_options)) << "request " << i;
  }
}

/// Where batch, chunks, windows, memory and company differ, and the answers must not.
struct Company {
  std::string name;
  int64_t step_tokens;
  int32_t max_batch;
  std::vector<int64_t> windows;
  int64_t num_blocks;  // of 4 tokens in each group, about
  bool cancellations;
};

void PrintTo(const Company& company, std::ostream* out) { *out << company.name; }

class AnyCompany : public ::testing::TestWithParam<Company> {};

TEST_P(AnyCompany, GivesTheAnswersOfTheOracle) {
  const Company& company = GetParam();
  FakeModelOptions model;
  model.windows = company.windows;
  CoreOptions options;
  options.step_tokens = company.step_tokens;
  options.max_batch = company.max_batch;
  options.kv_cache_bytes = company.num_blocks * 4 * std::ssize(company.windows);
  World world(model, options);

  const std::vector<Request> requests = mixed_requests(200, 20);
  std::mt19937 random(5);
  for (const Request& request : requests) world.add(request);
  if (company.cancellations)
    for (const Request& request : mixed_requests(100, 21)) world.add(request);
  while (world.core->step()) {
    if (company.cancellations && random() % 3 == 0)
      world.all[requests.size() + random() % 100]->ticket->cancel();
    ASSERT_LE(world.core->stats().running, company.max_batch);
  }
  world.expect_idle();
  expect_answers(world, requests);
  const Stats stats = world.core->stats();
  EXPECT_EQ(stats.finished_error, 0);
  EXPECT_EQ(stats.finished_stop + stats.finished_length + stats.finished_cancelled,
            std::ssize(world.all));
  EXPECT_GT(stats.prefix_cache_queries, stats.prefix_cache_hits);
  EXPECT_GT(stats.prefix_cache_hits, 100);
  if (company.num_blocks < 100 && company.max_batch > 1) {
    EXPECT_GT(stats.preemptions, 20);
    EXPECT_GT(stats.preempted_tokens, stats.resumed_tokens);
    EXPECT_GT(stats.resumed_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Core, AnyCompany,
    ::testing::Values(Company{"batch_1", 512, 1, {0}, 1000, false},
                      Company{"batch_32", 512, 32, {0}, 2000, false},
                      Company{"chunks_of_1", 1, 1, {0}, 1000, false},
                      Company{"chunks_of_7", 7, 7, {0}, 1000, false},
                      Company{"chunks_of_64", 64, 32, {0}, 2000, false},
                      Company{"cancellations", 64, 32, {0}, 2000, true},
                      Company{"preemptions", 40, 32, {0}, 40, false},
                      Company{"preemptions_and_cancellations", 9, 9, {0}, 34, true},
                      Company{"windows", 64, 32, {0, 12}, 2000, true},
                      Company{"windows_and_preemptions", 20, 16, {0, 7}, 45, true},
                      Company{"window_of_1", 30, 8, {1, 0}, 300, true}),
    [](const auto& instance) { return instance.param.name; });

TEST(Core, CancellationFreesMemoryBeforeTheNextStep) {
  World world({}, {});
  Received& first = world.add(simple({2, 3, 4}, 50));
  Received& second = world.add(simple({5, 6}, 50));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(world.core->step());
  const int64_t forwards = world.fake->num_forwards;
  first.ticket->cancel();
  second.ticket->cancel();
  EXPECT_FALSE(world.core->step());
  EXPECT_EQ(world.fake->num_forwards, forwards);
  world.expect_idle();
  EXPECT_EQ(first.answers.at(0).finish, Finish::cancelled);
  EXPECT_EQ(first.answers.at(0).tokens.size(), 5U);
  EXPECT_EQ(world.core->stats().finished_cancelled, 2);
}

TEST(Core, ADroppedRequestHearsNothingMore) {
  World world({}, {});
  Received& received = world.add(simple({2, 3, 4}, 50));
  ASSERT_TRUE(world.core->step());
  received.ticket->drop();
  EXPECT_FALSE(world.core->step());
  EXPECT_EQ(received.num_chunks, 1);
  world.expect_idle();
}

TEST(Core, ASinkMayCancelItsOwnRequest) {
  World world({}, {});
  int num_chunks = 0;
  Finish finish = Finish::none;
  std::shared_ptr<Ticket> ticket;
  ticket = std::make_shared<Ticket>([&](const Chunk& chunk) {
    if (++num_chunks == 3) ticket->cancel();
    finish = chunk.finish;
  });
  world.core->add(simple({2, 3}, 50), ticket, 0);
  world.run();
  EXPECT_EQ(num_chunks, 4);
  EXPECT_EQ(finish, Finish::cancelled);
}

TEST(Core, NotANumberEndsItsOwnRequestOnly) {
  FakeModelOptions model;
  model.nan_token = 60;
  World world(model, {});
  const Request good = simple({2, 3, 4}, 12);
  Request bad = simple({2, 60, 4}, 12);
  bad.n = 3;
  Received& first = world.add(good);
  Received& guilty = world.add(bad);
  Received& second = world.add(good);
  world.run();
  EXPECT_EQ(guilty.answers.at(0).finish, Finish::error);
  EXPECT_THAT(guilty.answers.at(0).error, HasSubstr("not finite"));
  EXPECT_EQ(guilty.num_chunks, 1);
  EXPECT_EQ(first.answers.at(0), oracle(good, 0, model));
  EXPECT_EQ(second.answers.at(0), oracle(good, 0, model));
  EXPECT_EQ(world.core->stats().finished_error, 1);
}

TEST(Core, LogitsOfNoTokenAreNotLookedAt) {
  FakeModelOptions model;
  model.vocab_size = 160;  // of which the tokenizer knows 64
  model.nan_token = 60;    // the model's logit 80 is NaN then
  World world(model, {});
  const Request plain = simple({2, 3, 4}, 12);
  const Request with_nan = simple({2, 60, 4}, 12);
  const Received& first = world.add(plain);
  const Received& second = world.add(with_nan);
  world.run();
  EXPECT_EQ(first.answers.at(0), oracle(plain, 0, model));
  EXPECT_EQ(second.answers.at(0), oracle(with_nan, 0, model));
}

TEST(Core, AThrowingModelEndsTheGuiltyRequestOnly) {
  FakeModelOptions model;
  model.throwing_token = 60;
  World world(model, {});
  Request good = simple({2, 3, 4, 5, 6, 7, 8, 9, 10}, 12);
  good.n = 3;  // its siblings' first step copies blocks
  good.sampling.logit_bias = {{60, -100.0F}};
  Received& first = world.add(good);
  ASSERT_TRUE(world.core->step());
  Received& guilty = world.add(simple({2, 60, 4}, 12));
  world.run();
  EXPECT_EQ(guilty.answers.at(0).finish, Finish::error);
  EXPECT_THAT(guilty.answers.at(0).error, HasSubstr("the fake model throws"));
  for (int32_t choice = 0; choice < 3; ++choice)
    EXPECT_EQ(first.answers.at(choice), oracle(good, choice, model));
}

TEST(Core, AThrowingSinkEndsItsOwnRequestOnly) {
  World world({}, {});
  const Request request = simple({2, 3, 4}, 12);
  int calls = 0;
  const auto standard = std::make_shared<Ticket>([&](const Chunk&) {
    ++calls;
    throw std::runtime_error("no more room");
  });
  const auto odd = std::make_shared<Ticket>([](const Chunk&) { throw 1; });
  Request many = request;
  many.n = 3;
  world.core->add(many, standard, 0);
  world.core->add(request, odd, 0);
  Received& good = world.add(request);
  world.run();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(standard->done());
  EXPECT_TRUE(odd->done());
  EXPECT_EQ(good.answers.at(0), oracle(request, 0, {}));
  EXPECT_EQ(world.core->stats().finished_error, 2);
}

TEST(Core, EverythingBannedIsAnErrorOfTheRequest) {
  World world({}, {});
  Request request = simple({2, 3}, 5);
  request.min_tokens = 5;
  for (int32_t id = 0; id < 64; ++id) request.stop_tokens.push_back(id);
  Received& received = world.add(request);
  world.run();
  EXPECT_EQ(received.answers.at(0).finish, Finish::error);
  EXPECT_THAT(received.answers.at(0).error, HasSubstr("no token is left"));
}

TEST(Core, TheContextEndsAnAnswer) {
  World world({}, {});
  Received& received = world.add(simple(std::vector<int32_t>(100, 9), 0));
  world.run();
  EXPECT_EQ(received.answers.at(0).finish, Finish::length);
  EXPECT_EQ(received.answers.at(0).tokens.size(), 28U);
  EXPECT_EQ(received.usage.prompt_tokens, 100);
  EXPECT_EQ(received.usage.completion_tokens, 28);
}

TEST(Core, SiblingsShareTheirPromptsBlocks) {
  World world({}, {});
  Request request = simple(std::vector<int32_t>(80, 9), 4);
  request.n = 8;
  world.add(request);
  ASSERT_TRUE(world.core->step());
  ASSERT_TRUE(world.core->step());
  EXPECT_EQ(world.core->stats().running, 8);
  // 19 whole blocks of 79 tokens are shared; beyond them each has its last prompt token's block and
  // the first of its answer.
  EXPECT_LE(world.core->stats().kv_blocks_used, 19 + 8 * 2);
  world.run();
}

std::vector<int32_t> counting(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = 2 + (first + i) % 60;
  return tokens;
}

TEST(Core, ATurnBeginsWithTheCachedOnesBeforeIt) {
  World world({}, {});
  const Request first = simple(counting(0, 30), 20);
  Received& answer = world.add(first);
  world.run();
  EXPECT_EQ(answer.usage.cached_tokens, 0);

  Request second = first;
  const std::vector<int32_t>& generated = answer.answers.at(0).tokens;
  second.prompt.insert(second.prompt.end(), generated.begin(), generated.end());
  for (const int32_t token : counting(7, 9)) second.prompt.push_back(token);
  Received& next = world.add(second);
  const int64_t forwards = world.fake->num_forwards;
  world.run();
  EXPECT_EQ(next.usage.cached_tokens, 48);  // of 59 in blocks of 4; the 50th token never ran
  EXPECT_EQ(next.answers.at(0), oracle(second, 0, {}));
  EXPECT_EQ(world.fake->num_forwards - forwards, 20);
  EXPECT_EQ(world.core->stats().prefix_cache_queries, 30 + 59);
  EXPECT_EQ(world.core->stats().prefix_cache_hits, 48);

  Received& same = world.add(second);
  world.run();
  EXPECT_EQ(same.usage.cached_tokens, 58);  // all but the last, which runs for its logits
  EXPECT_EQ(same.answers.at(0), next.answers.at(0));
}

/// The cached tokens of a prompt of 30 that is always the same.
int64_t num_cached(World& world, const std::string& tenant, const std::string& salt,
                   const std::string& group = {}) {
  Request request = simple(counting(0, 30), 4);
  request.tenant = tenant;
  request.cache_salt = salt;
  request.cache_group = group;
  Received& received = world.add(request);
  world.run();
  EXPECT_EQ(received.answers.at(0), oracle(request, 0, {}));
  return received.usage.cached_tokens;
}

TEST(Core, TenantsAndSaltsShareNothing) {
  World world({}, {});
  const auto cached = [&](const std::string& tenant, const std::string& salt) {
    return num_cached(world, tenant, salt);
  };
  EXPECT_EQ(cached("a", ""), 0);
  EXPECT_EQ(cached("b", ""), 0);
  EXPECT_EQ(cached("", ""), 0);
  EXPECT_EQ(cached("a", "x"), 0);
  EXPECT_EQ(cached("b", "x"), 0);
  EXPECT_EQ(cached("", "ax"), 0);
  EXPECT_EQ(cached("ax", ""), 0);
  EXPECT_EQ(cached("a", ""), 29);
  EXPECT_EQ(cached("b", "x"), 29);
  EXPECT_EQ(cached("", ""), 29);
}

TEST(Core, TenantsOfAGroupShareAndNobodyElseDoes) {
  World world({}, {});
  const auto cached = [&](const std::string& tenant, const std::string& group,
                          const std::string& salt = {}) {
    return num_cached(world, tenant, salt, group);
  };
  EXPECT_EQ(cached("a", "team"), 0);
  EXPECT_EQ(cached("b", "team"), 29);
  EXPECT_EQ(cached("team", ""), 0);  // a tenant of that name is not in it
  EXPECT_EQ(cached("a", ""), 0);
  EXPECT_EQ(cached("a", "others"), 0);
  EXPECT_EQ(cached("b", "team", "x"), 0);
  EXPECT_EQ(cached("a", "team", "x"), 29);
}

TEST(Core, WithoutAPrefixCacheNothingIsLookedFor) {
  CoreOptions options;
  options.prefix_cache = false;
  World world({}, options);
  for (int i = 0; i < 2; ++i) {
    const Request request = simple(counting(0, 30), 4);
    Received& received = world.add(request);
    world.run();
    EXPECT_EQ(received.usage.cached_tokens, 0);
    EXPECT_EQ(received.answers.at(0), oracle(request, 0, {}));
  }
  EXPECT_EQ(world.core->stats().prefix_cache_queries, 0);
  EXPECT_EQ(world.core->stats().prefix_cache_hits, 0);
}

TEST(Core, WhatAFailedStepShouldHaveWrittenIsNotFoundLater) {
  FakeModelOptions model;
  model.throwing_token = 63;
  World world(model, {});
  Request bad = simple(counting(0, 30), 12);
  bad.prompt.push_back(63);
  Received& guilty = world.add(bad);
  world.run();
  EXPECT_EQ(guilty.answers.at(0).finish, Finish::error);
  Request good = simple(counting(0, 30), 12);
  good.sampling.logit_bias = {{63, -100.0F}};
  Received& received = world.add(good);
  world.run();
  EXPECT_EQ(received.usage.cached_tokens, 0);
  EXPECT_EQ(received.answers.at(0), oracle(good, 0, model));
}

TEST(Core, LogProbabilitiesComeWithTheirTokens) {
  World world({}, {});
  Request request = simple({2, 3, 4}, 6);
  request.logprobs = 2;
  request.prompt_logprobs = 1;
  Received& received = world.add(request);
  world.run();
  ASSERT_EQ(received.logprobs.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(received.logprobs[i].chosen.token, received.answers.at(0).tokens[i]);
    ASSERT_EQ(received.logprobs[i].top.size(), 2U);
    EXPECT_GE(received.logprobs[i].top[0].logprob, received.logprobs[i].top[1].logprob);
  }
  ASSERT_EQ(received.prompt_logprobs.size(), 2U);
  EXPECT_EQ(received.prompt_logprobs[0].chosen.token, 3);
  EXPECT_EQ(received.prompt_logprobs[1].chosen.token, 4);
}

TEST(Core, OptionsOutOfRangeNameThemselves) {
  const auto message = [](const CoreOptions& options) -> std::string {
    try {
      World world({}, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  CoreOptions options;
  options.block_size = 24;
  EXPECT_THAT(message(options), HasSubstr("--block-size is 24"));
  options = {};
  options.max_batch = 600;
  EXPECT_THAT(message(options), HasSubstr("--max-batch is 600"));
  options = {};
  options.policy = "luck";
  EXPECT_THAT(message(options), HasSubstr("\"luck\" is unknown; known: fcfs"));
  options = {};
  options.batching = "late";
  EXPECT_THAT(message(options), HasSubstr("\"late\" is unknown; known: continuous"));
  options = {};
  options.preferred_batch = 33;
  EXPECT_THAT(message(options), HasSubstr("--preferred-batch is 33"));
  options = {};
  options.batch_wait_us = 61'000'000;
  EXPECT_THAT(message(options), HasSubstr("--batch-wait-ms is 61000000 us"));
  options = {};
  options.step_tokens = 100;
  options.chunked_prefill = false;
  EXPECT_THAT(message(options), HasSubstr("--step-tokens is 100; with --no-chunked-prefill"));
  options = {};
  options.kv_cache_bytes = 100;
  EXPECT_THAT(message(options), HasSubstr("128 tokens"));
  options = {};
  EXPECT_EQ(message(options), "accepted");
}

TEST(Core, TenThousandRandomRequestsLeaveNothingBehind) {
  FakeModelOptions model;
  model.windows = {0, 16};
  CoreOptions options;
  options.step_tokens = 48;
  options.max_batch = 24;
  options.kv_cache_bytes = 600;
  World world(model, options);
  std::mt19937 random(99);
  std::vector<Request> kinds = mixed_requests(500, 30);
  for (Request& kind : kinds) {
    if (kind.max_tokens == 0 || kind.max_tokens > 8) kind.max_tokens = 1 + random() % 8;
    kind.min_tokens = 0;
    kind.prompt.resize(std::min<size_t>(kind.prompt.size(), 1 + random() % 20));
  }
  int submitted = 0;
  while (submitted < 10'000 || world.core->num_jobs() > 0) {
    while (submitted < 10'000 && world.core->num_jobs() < 40) {
      world.add(kinds[random() % kinds.size()]);
      ++submitted;
    }
    if (random() % 20 == 0)
      world.all[world.all.size() - 1 - random() % 40 % world.all.size()]->ticket->cancel();
    world.core->step();
  }
  world.expect_idle();
  const Stats stats = world.core->stats();
  EXPECT_EQ(stats.finished_stop + stats.finished_length + stats.finished_cancelled, 10'000);
}

TEST(Core, EndsWhatCannotMeetItsDeadline) {
  World world({}, {.max_batch = 1, .policy = "edf"});
  Request late = simple({5, 6}, 4);
  late.deadline_us = 1;  // over before the first step
  const Received& refused = world.add(late);
  Request relaxed = simple({5, 6}, 4);
  relaxed.deadline_us = 60'000'000;
  const Received& answered = world.add(relaxed);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  world.run();
  EXPECT_EQ(refused.answers.at(0).finish, Finish::deadline);
  EXPECT_THAT(refused.answers.at(0).error, HasSubstr("after its deadline"));
  EXPECT_TRUE(refused.answers.at(0).tokens.empty());
  EXPECT_EQ(answered.answers.at(0).finish, Finish::length);
  EXPECT_EQ(world.core->stats().finished_deadline, 1);
  EXPECT_EQ(world.core->stats().finished_length, 1);
}

TEST(Core, EndsAllChoicesOfWhatCannotMeetItsDeadline) {
  World world({}, {.max_batch = 4, .policy = "edf"});
  Request late = simple({5, 6}, 4);
  late.n = 3;
  late.deadline_us = 1;
  const Received& refused = world.add(late);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  world.run();
  EXPECT_TRUE(refused.ended);
  EXPECT_EQ(world.core->stats().finished_deadline, 1);
}

TEST(Core, PredictsLengthsFromAnswersThatEnded) {
  // Long prompts have short answers here. Known by that, the long prompt is the shorter job.
  const std::vector<int32_t> long_prompt(40, 5);
  const std::vector<int32_t> short_prompt(4, 5);
  for (const PredictorKind* kind : predictors()) {
    World world({}, {.max_batch = 1,
                     .prefix_cache = false,
                     .policy = "sjf",
                     .length_predictor = std::string(kind->name)});
    for (int i = 0; i < 30; ++i) {
      world.add(simple(long_prompt, 1));
      world.add(simple(short_prompt, 60));
      world.run();
    }
    const Received& shorter = world.add(simple(short_prompt, 60));
    const Received& longer = world.add(simple(long_prompt, 60));
    while (!shorter.ended && !longer.ended) world.core->step();
    EXPECT_EQ(longer.ended, kind != &kLimitPredictor) << kind->name;
    world.run();
  }
}

}  // namespace
}  // namespace hasten::engine
