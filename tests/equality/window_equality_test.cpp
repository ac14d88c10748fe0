// SPDX-License-Identifier: Apache-2.0
// The same tokens from a model most of whose layers see a window only, whatever part of a prompt
// the prefix cache has of them: a small Gemma 3 with random weights on the CPU backend.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "api/backends.h"
#include "engine/engine.h"
#include "hasten_test/fake_model.h"
#include "hasten_test/temporary_folder.h"
#include "models/model.h"
#include "models/tiny_model_test.h"
#include "weights/checkpoint.h"

namespace hasten {
namespace {

constexpr const char* kGemma3 = R"({"architectures": ["Gemma3ForCausalLM"], "vocab_size": 64,
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 7, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 16, "sliding_window": 20})";

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

/// Prompts that begin with parts of three texts and go on in their own way.
std::vector<Request> make_requests() {
  std::mt19937 random(3);
  std::vector<std::vector<int32_t>> texts(3);
  for (auto& text : texts)
    for (int i = 0; i < 150; ++i) text.push_back(static_cast<int32_t>(1 + random() % 63));
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 120; ++i) {
    Request request;
    const auto& text = texts[random() % 3];
    const auto length = static_cast<std::ptrdiff_t>(1 + random() % 150);
    request.prompt.assign(text.begin(), text.begin() + length);
    for (size_t n = random() % 40; n > 0; --n)
      request.prompt.push_back(static_cast<int32_t>(1 + random() % 63));
    request.max_tokens = 1 + static_cast<int64_t>(random() % 50);
    request.ignore_eos = true;
    request.logprobs = 0;
    request.sampling.seed = i;
    request.n = i % 10 == 0 ? 3 : 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

class WindowEquality : public ::testing::Test {
 protected:
  WindowEquality() {
    models::TinyModel::random(kGemma3, 5).write_folder(folder_.path());
    checkpoint_ = weights::open_checkpoint(folder_.path());
  }

  std::unique_ptr<engine::Engine> make_engine(engine::CoreOptions options) {
    options.context = 256;
    options.step_tokens = std::max<int64_t>(options.step_tokens, options.max_batch);
    return std::make_unique<engine::Engine>(models::load_model(*checkpoint_, *backend_, {}),
                                            *backend_, testing::make_fake_tokenizer(), options);
  }

  /// The answers of all choices of all requests, submitted at once.
  static std::vector<Answer> answers(engine::Engine& engine) {
    const std::vector<Request> requests = make_requests();
    std::vector<Answer> results(requests.size() * 3);
    std::vector<std::shared_ptr<engine::Ticket>> tickets;
    for (size_t i = 0; i < requests.size(); ++i)
      tickets.push_back(engine.submit(requests[i], [&results, i](const Chunk& chunk) {
        Answer& answer = results[3 * i + static_cast<size_t>(chunk.choice)];
        answer.tokens.insert(answer.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
        for (const TokenLogprob& logprob : chunk.logprobs)
          answer.logprobs.push_back(logprob.chosen.logprob);
      }));
    for (const auto& ticket : tickets) ticket->wait();
    // Answers that failed would be equal, too.
    for (size_t i = 0; i < results.size(); ++i) {
      const Request& request = requests[i / 3];
      const bool is_asked = static_cast<int64_t>(i % 3) < request.n;
      EXPECT_EQ(std::ssize(results[i].tokens), is_asked ? request.max_tokens : 0) << "answer " << i;
    }
    return results;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<const weights::Checkpoint> checkpoint_;
  std::unique_ptr<ops::Backend> backend_ = api::make_backend("cpu", 1);
};

TEST_F(WindowEquality, HitsGiveTheAnswersOfMisses) {
  const auto plain = make_engine(
      {.kv_cache_bytes = 1 << 24, .step_tokens = 256, .max_batch = 1, .prefix_cache = false});
  const std::vector<Answer> expected = answers(*plain);
  EXPECT_EQ(plain->stats().prefix_cache_hits, 0);
  struct Company {
    int64_t kv_cache_bytes;
    int64_t step_tokens;
    int32_t max_batch;
  };
  // Bytes for everything, and for so little that blocks are evicted and sequences preempted.
  for (const Company& company :
       {Company{1 << 24, 64, 8}, Company{1 << 24, 7, 7}, Company{300'000, 40, 8}}) {
    const auto engine = make_engine({.kv_cache_bytes = company.kv_cache_bytes,
                                     .step_tokens = company.step_tokens,
                                     .max_batch = company.max_batch});
    for (const char* when : {"first", "second"}) {
      const std::vector<Answer> given = answers(*engine);
      for (size_t i = 0; i < given.size(); ++i)
        ASSERT_EQ(given[i], expected[i])
            << when << " time, step of " << company.step_tokens << ", answer " << i;
    }
    EXPECT_TRUE(engine->drain(10'000'000));
    const Stats stats = engine->stats();
    std::printf("%ld of %ld prompt tokens from the cache, %ld of %ld after %ld preemptions\n",
                stats.prefix_cache_hits, stats.prefix_cache_queries, stats.resumed_tokens,
                stats.preempted_tokens, stats.preemptions);
    EXPECT_GT(stats.prefix_cache_hits, stats.prefix_cache_queries / 10);
    EXPECT_EQ(stats.kv_blocks_used, 0);
  }
}

}  // namespace
}  // namespace hasten
