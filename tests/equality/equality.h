// SPDX-License-Identifier: Apache-2.0
// 200 mixed requests, their answers alone, and the comparison that every test of equality makes.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hasten/engine.h"
#include "hasten_test/paths.h"

namespace hasten {

inline constexpr int kNumPrompts = 200;

/// What is compared: the tokens, and the bits of their log-probabilities.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  Finish finish = Finish::none;
  std::string error = {};
  bool operator==(const Answer&) const = default;
};

/// Chat questions, pieces of stories and noise, greedy and sampled, from 1 to about 300 tokens.
inline std::vector<Request> mixed_requests(const Engine& engine) {
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

/// Answers that failed would be equal, too: each must have all the tokens that were asked for.
inline void expect_whole(const std::vector<Request>& requests, const std::vector<Answer>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].finish, Finish::length) << "prompt " << i << ": " << results[i].error;
    ASSERT_EQ(std::ssize(results[i].tokens), requests[i].max_tokens) << "prompt " << i;
    ASSERT_EQ(results[i].logprobs.size(), results[i].tokens.size()) << "prompt " << i;
  }
}

/// Submits requests all at once and collects the answers, which must be whole. `cancelled`: as many
/// further requests run beside them and are cancelled at various points.
inline std::vector<Answer> answers(Engine& engine, std::vector<Request> requests,
                                   int cancelled = 0) {
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
      answer.error += chunk.error;
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
  expect_whole(requests, results);
  return results;
}

inline std::vector<Answer> answers(Engine& engine, int cancelled = 0) {
  return answers(engine, mixed_requests(engine), cancelled);
}

inline EngineOptions options(int32_t batch, int64_t chunk) {
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

}  // namespace hasten
