// SPDX-License-Identifier: Apache-2.0
// A core over the fake model, collectors of its chunks, and the oracle of its answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/core.h"
#include "engine/sampling/sampler.h"
#include "hasten_test/fake_model.h"
#include "text/detokenizer.h"

namespace hasten::engine {

/// All chunks of one choice put together.
struct Whole {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<float> logprobs;
  Finish finish = Finish::none;
  std::string error;
  std::string stop_string;
  friend bool operator==(const Whole&, const Whole&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Whole& whole) {
    return out << whole.tokens.size() << " tokens, '" << whole.text << "', finish "
               << static_cast<int>(whole.finish) << ", '" << whole.error << "', stop '"
               << whole.stop_string << "'";
  }
};

/// What the sink of one request got.
struct Received {
  std::shared_ptr<Ticket> ticket;
  std::map<int32_t, Whole> answers;  // by choice
  std::vector<TokenLogprob> prompt_logprobs;
  std::vector<TokenLogprob> logprobs;  // of choice 0
  Usage usage;
  int num_chunks = 0;
  bool ended = false;

  void take(const Chunk& chunk) {
    EXPECT_FALSE(ended) << "a chunk after the last one";
    ++num_chunks;
    Whole& whole = answers[chunk.choice];
    EXPECT_EQ(whole.finish, Finish::none) << "a chunk after the choice had finished";
    whole.tokens.insert(whole.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    whole.text += chunk.text;
    for (const TokenLogprob& logprob : chunk.logprobs) {
      whole.logprobs.push_back(logprob.chosen.logprob);
      if (chunk.choice == 0) logprobs.push_back(logprob);
    }
    prompt_logprobs.insert(prompt_logprobs.end(), chunk.prompt_logprobs.begin(),
                           chunk.prompt_logprobs.end());
    whole.finish = chunk.finish;
    whole.error = chunk.error;
    whole.stop_string = chunk.stop_string;
    usage = chunk.usage;
    ended = chunk.last;
  }
};

/// A core without a thread. Small by default: blocks of 4, a context of 128.
struct World {
  World(const testing::FakeModelOptions& fake_options, CoreOptions options)
      : model_options(fake_options) {
    if (options.context == 0) options.context = 128;
    if (options.kv_cache_bytes == 0) options.kv_cache_bytes = 1 << 20;
    if (options.block_size == 16) options.block_size = 4;
    auto model = std::make_unique<testing::FakeModel>(fake_options);
    fake = model.get();
    core =
        std::make_unique<Core>(std::move(model), backend, testing::make_fake_tokenizer(), options);
  }

  Received& add(const Request& request) {
    Received& received = *all.emplace_back(std::make_unique<Received>());
    received.ticket =
        std::make_shared<Ticket>([&received](const Chunk& chunk) { received.take(chunk); });
    core->add(request, received.ticket, monotonic_us());
    return received;
  }

  void run() {
    while (core->step()) {
    }
    expect_idle();
  }

  /// Nothing runs and nothing is held.
  void expect_idle() const {
    EXPECT_EQ(core->num_jobs(), 0);
    EXPECT_EQ(core->stats().running, 0);
    EXPECT_EQ(core->stats().waiting, 0);
    EXPECT_EQ(core->stats().kv_blocks_used, 0);
    for (const auto& received : all) EXPECT_TRUE(received->ticket->done());
  }

  testing::FakeModelOptions model_options;
  testing::FakeBackend backend;
  testing::FakeModel* fake = nullptr;
  std::unique_ptr<Core> core;
  std::vector<std::unique_ptr<Received>> all;
};

/// The answer of one choice by plain recomputation: no batch, no cache, no chunks of text.
inline Whole oracle(const Request& request, int32_t choice,
                    const testing::FakeModelOptions& options, int64_t context = 128) {
  const auto tokenizer = testing::make_fake_tokenizer();
  const auto known = static_cast<size_t>(tokenizer->vocab_size());
  Sampler sampler(tokenizer->vocab_size());
  text::Detokenizer detokenizer(*tokenizer, {.show_special = request.show_special});
  Whole whole;
  std::vector<int32_t> tokens = request.prompt;
  std::vector<float> all(static_cast<size_t>(options.vocab_size));
  const std::span<float> row = std::span(all).first(known);
  std::vector<int32_t> ends = request.stop_tokens;
  if (!request.ignore_eos) ends.push_back(testing::kFakeEos);
  while (whole.finish == Finish::none) {
    testing::FakeModel::logits(tokens, options, all);
    const bool may_end = std::ssize(whole.tokens) >= request.min_tokens;
    const Sample sample = sampler.sample({.logits = row,
                                          .scan = ops::scan_row(row),
                                          .sampling = request.sampling,
                                          .seed = *request.sampling.seed,
                                          .choice = choice,
                                          .prompt = request.prompt,
                                          .generated = whole.tokens,
                                          .banned = may_end ? std::vector<int32_t>() : ends,
                                          .num_top_logprobs = request.logprobs});
    tokens.push_back(sample.token);
    whole.tokens.push_back(sample.token);
    if (request.logprobs >= 0) whole.logprobs.push_back(sample.logprob.chosen.logprob);
    if (std::ranges::find(ends, sample.token) != ends.end()) {
      whole.finish = Finish::stop;
      break;
    }
    const size_t before = whole.text.size();
    whole.text += detokenizer.append(sample.token);
    if (std::ssize(whole.tokens) >= request.min_tokens) {
      // The first end of any stop string in what is new; of several the longest string.
      for (size_t end = before + 1; end <= whole.text.size() && whole.stop_string.empty(); ++end)
        for (const std::string& stop : request.stop)
          if (std::string_view(whole.text).substr(0, end).ends_with(stop) &&
              stop.size() > whole.stop_string.size()) {
            whole.stop_string = stop;
            whole.finish = Finish::stop;
            whole.text.resize(end);
          }
      if (whole.finish == Finish::stop) {
        whole.text.resize(whole.text.size() - whole.stop_string.size());
        return whole;
      }
    }
    if (std::ssize(whole.tokens) == request.max_tokens || std::ssize(tokens) == context)
      whole.finish = Finish::length;
  }
  whole.text += detokenizer.flush();
  return whole;
}

}  // namespace hasten::engine
