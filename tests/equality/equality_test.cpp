// SPDX-License-Identifier: Apache-2.0
// The same tokens, whatever the company: 200 mixed prompts give bit-equal answers alone, in batches
// and in chunks of any size, with cancellations and preemptions beside them, and whatever part of
// them the prefix cache has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hasten/engine.h"
#include "hasten_test/paths.h"

namespace hasten {
namespace {

constexpr int kNumPrompts = 200;

/// What is compared: the tokens, and the bits of their log-probabilities.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  Finish finish = Finish::none;
  bool operator==(const Answer&) const = default;
};

/// Chat questions, pieces of stories and noise, greedy and sampled, from 1 to about 300 tokens.
std::vector<Request> mixed_requests(const Engine& engine) {
  std::mt19937 random(20251120);
  const std::string story =
      testing::read_file(testing::source_dir() / "tests/golden/synthetic-heldout.txt");
  std::vector<Request> requests;
  for (int i = 0; i < kNumPrompts; ++i) {
    Request request;
    const size_t length = 4 + random() % (i % 10 == 0 ? 1200 : 200);
    const size_t begin = random() % (story.size() - length);
    if (i % 3 == 0) {
      request.prompt = engine.tokenize(story.substr(begin, length));
    } else if (i % 3 == 1) {
      request.prompt =
          engine
              .render_chat({.messages = R"([{"role": "user", "content": "Tell me about )" +
                                        std::to_string(random() % 100) + R"( foxes."}])"})
              .tokens;
    } else {
      for (size_t n = 1 + random() % 90; n > 0; --n) {
        request.prompt.push_back(static_cast<int32_t>(random() % 2048));
      }
    }
    // Some answers outgrow what was free when they were admitted.
    request.max_tokens = (i % 4 == 0 ? 150 : 8) + static_cast<int64_t>(random() % 24);
    request.ignore_eos = true;
    request.logprobs = 0;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.top_p = 0.95F;
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Submits requests all at once and collects the answers. `cancelled`: as many further requests run
/// beside them and are cancelled at various points.
std::vector<Answer> answers(Engine& engine, std::vector<Request> requests, int cancelled = 0) {
  std::vector<Answer> results(requests.size());
  std::vector<Generation> generations;
  std::vector<Generation> noise;
  for (int i = 0; i < cancelled; ++i) {
    Request request = requests[static_cast<size_t>(i * 7 % kNumPrompts)];
    request.max_tokens = 400;
    request.sampling.seed = 99999 + static_cast<uint64_t>(i);
    noise.push_back(engine.submit(std::move(request), [](const Chunk&) {}));
  }
  std::atomic<int> finished = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    generations.push_back(engine.submit(requests[i], [&, i](const Chunk& chunk) {
      Answer& answer = results[i];
      answer.tokens.insert(answer.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      for (const TokenLogprob& logprob : chunk.logprobs) {
        answer.logprobs.push_back(logprob.chosen.logprob);
      }
      if (chunk.finish != Finish::none) answer.finish = chunk.finish;
      if (chunk.last) ++finished;
    }));
  }
  for (size_t i = 0; i < noise.size(); ++i) {
    while (finished < static_cast<int>(i * requests.size() / (noise.size() + 1))) {
      std::this_thread::yield();
    }
    noise[i].cancel();
  }
  for (Generation& generation : generations) generation.wait();
  return results;
}

std::vector<Answer> answers(Engine& engine, int cancelled = 0) {
  return answers(engine, mixed_requests(engine), cancelled);
}

EngineOptions options(int32_t batch, int64_t chunk) {
  return {.threads = 2,
          .context = 1024,
          .step_tokens = chunk,
          .max_batch = batch,
          .max_queue = 4 * kNumPrompts};
}

class Equality : public ::testing::Test {
 protected:
  /// The answers of requests that run one after another, each prompt in one piece, none of it from
  /// the prefix cache.
  static const std::vector<Answer>& alone(const std::string& kv_type) {
    static std::map<std::string, std::vector<Answer>> answers_alone;
    auto& found = answers_alone[kv_type];
    if (found.empty()) {
      EngineOptions plain = options(1, 1024);
      plain.prefix_cache = false;
      plain.kv_type = kv_type;
      Engine engine(plain);
      found = answers(engine);
    }
    return found;
  }

  static void expect_same(const std::vector<Answer>& results, const std::string& what,
                          const std::string& kv_type = "auto") {
    const std::vector<Answer>& expected = alone(kv_type);
    ASSERT_EQ(results.size(), expected.size());
    int equal = 0;
    int64_t tokens = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].tokens, expected[i].tokens) << what << ", prompt " << i;
      EXPECT_EQ(results[i].logprobs, expected[i].logprobs) << what << ", prompt " << i;
      equal += results[i] == expected[i] ? 1 : 0;
      tokens += static_cast<int64_t>(results[i].tokens.size());
    }
    std::printf("%s: %d of %zu answers bit-equal (%ld tokens)\n", what.c_str(), equal,
                results.size(), tokens);
    EXPECT_EQ(equal, kNumPrompts);
  }
};

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
    batches.preferred_batch = 8;
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
    tight.length_predictor = "online";
    tight.aging_us = 1'000'000;
    Engine engine(tight);
    std::vector<Request> requests = mixed_requests(engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].tenant = std::to_string(i % 3);
      requests[i].priority = static_cast<int32_t>(i % 5);
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
