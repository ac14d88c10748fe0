// SPDX-License-Identifier: Apache-2.0
// The same tokens, whatever the company: 200 mixed prompts give bit-equal answers alone, in batches
// and in chunks of any size, with cancellations and preemptions beside them, and whatever part of
// them the prefix cache has.
#include "equality.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>

namespace hasten {
namespace {

TEST_F(Equality, BatchOf32) {
  Engine engine(options(32, 512));
  expect_same(answers(engine), "batch 32, chunk 512");
}

TEST_F(Equality, ChunksOf1) {
  Engine engine(options(1, 1));
  expect_same(answers(engine), "chunk 1");
}

TEST_F(Equality, ChunksOf7) {
  Engine engine(options(7, 7));
  expect_same(answers(engine), "batch 7, chunk 7");
}

TEST_F(Equality, ChunksOf64) {
  Engine engine(options(32, 64));
  expect_same(answers(engine), "batch 32, chunk 64");
}

TEST_F(Equality, CancellationsBeside) {
  Engine engine(options(32, 64));
  expect_same(answers(engine, 60), "batch 32, chunk 64, 60 cancellations beside");
  EXPECT_TRUE(engine.drain(10'000'000));
  EXPECT_EQ(engine.stats().kv_blocks_used, 0);
}

TEST_F(Equality, PreemptionsInATightCache) {
  EngineOptions tight = options(32, 128);
  // hasten-tiny keeps 5 layers * 2 (K and V) * 2 heads * 64 * 2 bytes = 2560 bytes a token: room
  // for little more than one sequence of the whole context, so that 32 at a time push each other
  // out.
  tight.kv_cache_bytes = 2560 * 1040;
  Engine engine(tight);
  expect_same(answers(engine), "batch 32, chunk 128, tight cache");
  EXPECT_TRUE(engine.drain(10'000'000));
  std::printf("preemptions: %ld in %ld blocks\n", engine.stats().preemptions,
              engine.stats().kv_blocks_total);
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_GT(engine.stats().resumed_tokens, 0);
  EXPECT_GT(engine.stats().prefix_cache_hits, 0);
  EXPECT_EQ(engine.stats().kv_blocks_used, 0);
}

TEST_F(Equality, StaticAndDynamicBatches) {
  for (const char* batching : {"static", "dynamic"}) {
    EngineOptions batches = options(32, 64);
    batches.batching = batching;
    if (batches.batching == "dynamic") batches.preferred_batch = 8;
    Engine engine(batches);
    expect_same(answers(engine), std::string(batching) + " batches of 32, chunk 64");
  }
}

TEST_F(Equality, WholePromptsInReservedMemory) {
  EngineOptions before = options(32, 1024);
  before.chunked_prefill = false;
  before.reserve_context = true;
  before.kv_cache_bytes = 2560 * 6 * 1024;  // for six sequences of the whole context
  Engine engine(before);
  expect_same(answers(engine), "whole prompts, memory of the context for each");
}

TEST_F(Equality, EveryPolicyInATightCache) {
  for (const NamedChoice& policy : scheduling_policies()) {
    EngineOptions tight = options(32, 128);
    tight.kv_cache_bytes = 2560 * 1040;
    tight.policy = policy.name;
    const std::set<std::string> by_length = {"sjf", "srtf", "edf"}, without_aging = {"fcfs", "vtc"};
    if (by_length.contains(policy.name)) tight.length_predictor = "online";
    if (!without_aging.contains(policy.name)) tight.aging_us = 1'000'000;
    Engine engine(tight);
    std::vector<Request> requests = mixed_requests(engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].tenant = std::to_string(i % 3);
      requests[i].priority = static_cast<int32_t>(i % 5);
      if (i % 4 != 0) requests[i].program_id = std::to_string(i % 6);
      if (i % 8 == 1) requests[i].program_calls_left = static_cast<int32_t>(i / 8 % 2);
      if (i % 2 == 0) requests[i].deadline_us = int64_t{3600} * 1'000'000 * (1 + i % 7);
    }
    expect_same(answers(engine, std::move(requests)), "policy " + policy.name);
    EXPECT_TRUE(engine.drain(10'000'000));
    EXPECT_GT(engine.stats().preemptions, 0) << policy.name;
    EXPECT_EQ(engine.stats().kv_blocks_used, 0) << policy.name;
  }
}

TEST_F(Equality, PromptsFromThePrefixCache) {
  EngineOptions roomy = options(8, 96);
  roomy.kv_cache_bytes = 2560 * 24576;  // for all the tokens of this test
  Engine engine(roomy);
  const auto hits = [&] {
    static int64_t queries_before = 0;
    static int64_t hits_before = 0;
    const Stats stats = engine.stats();
    const auto queries =
        stats.prefix_cache_queries - std::exchange(queries_before, stats.prefix_cache_queries);
    const auto found =
        stats.prefix_cache_hits - std::exchange(hits_before, stats.prefix_cache_hits);
    std::printf("%ld of %ld prompt tokens from the cache\n", found, queries);
    return static_cast<double>(found) / static_cast<double>(queries);
  };
  expect_same(answers(engine), "first time");
  EXPECT_GT(hits(), 0.05);  // templates in common
  expect_same(answers(engine), "second time");
  EXPECT_GT(hits(), 0.9);
}

TEST_F(Equality, EightBitKeysAndFourBitValues) {
  EngineOptions narrow = options(32, 64);
  narrow.kv_type = "q8_0/q4_0";
  Engine engine(narrow);
  expect_same(answers(engine), "batch 32, chunk 64, " + narrow.kv_type, narrow.kv_type);
}

TEST_F(Equality, OneThread) {
  EngineOptions single = options(32, 64);
  single.threads = 1;
  Engine engine(single);
  expect_same(answers(engine), "one thread, batch 32, chunk 64");
}

}  // namespace
}  // namespace hasten
