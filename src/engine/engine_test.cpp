// SPDX-License-Identifier: Apache-2.0
// The engine with its thread: submission, the queue, draining, health, and races between them.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core_world_test.h"

namespace hasten::engine {
namespace {

using ::testing::HasSubstr;

/// A model that takes its time, or waits at a gate.
class SlowModel : public testing::FakeModel {
 public:
  void forward(const models::ForwardInput& input, std::span<float> out) override {
    entered.store(true);
    while (closed.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    FakeModel::forward(input, out);
  }
  std::atomic<bool> closed = false;
  std::atomic<bool> entered = false;
};

struct Served {
  explicit Served(CoreOptions options = {}) {
    options.context = 64;
    options.kv_cache_bytes = 4096;
    auto owned = std::make_unique<SlowModel>();
    model = owned.get();
    engine = std::make_unique<Engine>(std::move(owned), backend, testing::make_fake_tokenizer(),
                                      options);
  }
  void wait_for_step() const {
    while (!model->entered.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  ~Served() { model->closed = false; }  // or the engine would wait for its step for ever

  testing::FakeBackend backend;
  SlowModel* model = nullptr;
  std::unique_ptr<Engine> engine;
};

Request request_of(int64_t max_tokens) {
  Request request;
  request.prompt = {2, 3, 4};
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

ErrorCode code_of(Engine& engine, Request request) {
  try {
    (void)engine.submit(std::move(request), [](const Chunk&) {});
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "accepted";
  return ErrorCode::internal;
}

TEST(Engine, AnswersAndCounts) {
  Served served;
  Request request = request_of(10);
  request.sampling.seed = 7;
  Received received;
  const auto ticket =
      served.engine->submit(request, [&](const Chunk& chunk) { received.take(chunk); });
  ticket->wait();
  EXPECT_EQ(received.answers.at(0), oracle(request, 0, {}, 64));
  EXPECT_TRUE(served.engine->drain(0) || served.engine->drain(1'000'000));
  const Stats stats = served.engine->stats();
  EXPECT_EQ(stats.finished_length, 1);
  EXPECT_EQ(stats.prompt_tokens, 3);
  EXPECT_EQ(stats.generated_tokens, 10);
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_GT(stats.kv_blocks_total, 0);
  EXPECT_EQ(stats.steps, 10);
  EXPECT_EQ(stats.waiting + stats.running, 0);
}

TEST(Engine, EqualSeedsGiveEqualAnswersAndNoSeedsDifferentOnes) {
  Served served;
  const auto answer = [&](std::optional<uint64_t> seed) {
    Request request = request_of(30);
    request.sampling.seed = seed;
    std::vector<int32_t> tokens;
    served.engine
        ->submit(request,
                 [&](const Chunk& chunk) {
                   tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
                 })
        ->wait();
    return tokens;
  };
  EXPECT_EQ(answer(5), answer(5));
  EXPECT_NE(answer(5), answer(6));
  EXPECT_NE(answer(std::nullopt), answer(std::nullopt));
}

TEST(Engine, ADynamicBatchStartsWhenEnoughWaitOrOneHasWaitedLongEnough) {
  CoreOptions options;
  options.batching = "dynamic";
  options.preferred_batch = 3;
  options.batch_wait_us = 50'000;
  const auto queue_times = [&](int num_requests) {
    Served served(options);
    std::vector<int64_t> times(static_cast<size_t>(num_requests));
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (int64_t& time : times)
      tickets.push_back(served.engine->submit(
          request_of(4), [&](const Chunk& chunk) { time = chunk.usage.queue_us; }));
    for (const auto& ticket : tickets) ticket->wait();
    return times;
  };
  EXPECT_THAT(queue_times(2), ::testing::Each(::testing::Ge(45'000)));
  options.batch_wait_us = 60'000'000;  // or the test would not end
  EXPECT_THAT(queue_times(3), ::testing::Each(::testing::Lt(30'000'000)));
}

TEST(Engine, RefusesWhatIsInvalidAndCountsIt) {
  Served served;
  Request request = request_of(10);
  request.prompt.assign(64, 2);
  EXPECT_EQ(code_of(*served.engine, request), ErrorCode::invalid_argument);
  EXPECT_EQ(served.engine->stats().rejected, 1);
}

TEST(Engine, RefusesWhenTheQueueIsFull) {
  CoreOptions options;
  options.max_batch = 1;
  options.max_queue = 2;
  Served served(options);
  served.model->closed = true;
  std::vector<std::shared_ptr<Ticket>> tickets;
  const auto submit = [&] {
    tickets.push_back(served.engine->submit(request_of(2), [](const Chunk&) {}));
  };
  submit();
  served.wait_for_step();  // the first runs now
  submit();
  submit();
  EXPECT_EQ(code_of(*served.engine, request_of(2)), ErrorCode::resource_exhausted);
  EXPECT_EQ(served.engine->stats().waiting, 2);
  served.model->closed = false;
  for (const auto& ticket : tickets) ticket->wait();
}

TEST(Engine, RefusesATenantBeyondItsShareOfTheQueue) {
  CoreOptions options;
  options.max_batch = 1;
  options.max_queue = 4;
  options.max_queue_tokens = 1000;
  options.tenant_share = 0.5;
  Served served(options);
  served.model->closed = true;
  std::vector<std::shared_ptr<Ticket>> tickets;
  const auto request_by = [](const std::string& tenant, int64_t max_tokens) {
    Request request = request_of(max_tokens);
    request.tenant = tenant;
    return request;
  };
  const auto submit = [&](const std::string& tenant) {
    tickets.push_back(served.engine->submit(request_by(tenant, 2), [](const Chunk&) {}));
  };
  submit("a");
  served.wait_for_step();  // the first runs now, and is no more in the queue
  submit("a");
  submit("a");
  EXPECT_EQ(code_of(*served.engine, request_by("a", 2)), ErrorCode::resource_exhausted);
  submit("b");
  EXPECT_EQ(served.engine->stats().waiting, 3);
  EXPECT_EQ(served.engine->stats().rejected, 1);
  EXPECT_EQ(served.engine->stats().rejected_tenant, 1);
  served.model->closed = false;
  for (const auto& ticket : tickets) ticket->wait();
  EXPECT_EQ(served.engine->stats().waiting, 0);
}

TEST(Engine, RefusesAShareOfTheCacheThatIsNone) {
  for (const double share : {0.0, -1.0, 0.009, 1.01, std::nan("")}) {
    CoreOptions options;
    options.tenant_cache_share = share;
    try {
      const Served served(options);
      ADD_FAILURE() << share;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("--tenant-cache-share"));
    }
  }
}

TEST(Engine, DrainWaitsForTheAcceptedAndRefusesTheRest) {
  Served served;
  std::atomic<int> finished = 0;
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (int i = 0; i < 20; ++i)
    tickets.push_back(served.engine->submit(request_of(20), [&](const Chunk& chunk) {
      if (chunk.last && chunk.finish == Finish::length) ++finished;
    }));
  EXPECT_TRUE(served.engine->drain(60'000'000));
  EXPECT_EQ(finished, 20);
  EXPECT_EQ(code_of(*served.engine, request_of(2)), ErrorCode::unavailable);
}

TEST(Engine, DrainCancelsWhatTakesTooLong) {
  Served served;
  served.model->closed = true;
  Finish finish = Finish::none;
  const auto ticket =
      served.engine->submit(request_of(40), [&](const Chunk& chunk) { finish = chunk.finish; });
  served.wait_for_step();
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return served.engine->drain(1000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  served.model->closed = false;
  EXPECT_FALSE(drained.get());
  EXPECT_TRUE(ticket->done());
  EXPECT_EQ(finish, Finish::cancelled);
}

TEST(Engine, TheDestructorCancelsWhatRuns) {
  std::atomic<int> cancelled = 0;
  std::vector<std::shared_ptr<Ticket>> tickets;
  {
    Served served;
    served.model->closed = true;
    for (int i = 0; i < 5; ++i)
      tickets.push_back(served.engine->submit(request_of(40), [&](const Chunk& chunk) {
        if (chunk.last && chunk.finish == Finish::cancelled) ++cancelled;
      }));
    served.wait_for_step();
    served.model->closed = false;
  }
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->done());
  EXPECT_GE(cancelled, 1);
}

TEST(Engine, CancelLetsOneLastChunkThroughAndDropNone) {
  for (const bool drop : {false, true}) {
    Served served;
    std::atomic<bool> asked = false;
    std::atomic<int> after = 0;
    std::atomic<int> last = 0;
    const auto ticket = served.engine->submit(request_of(60), [&](const Chunk& chunk) {
      if (asked.load()) ++after;
      if (chunk.last) ++last;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    drop ? ticket->drop() : ticket->cancel();
    asked.store(true);
    ticket->wait();
    EXPECT_LE(after, drop ? 0 : 1);
    EXPECT_EQ(served.engine->drain(60'000'000), true);
  }
}

TEST(Engine, HealthIsProofOfProgress) {
  CoreOptions options;
  options.stall_limit_us = 20'000;
  Served served(options);
  EXPECT_TRUE(served.engine->health().ready);
  served.model->closed = true;
  const auto ticket = served.engine->submit(request_of(5), [](const Chunk&) {});
  EXPECT_TRUE(served.engine->health().ready);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const Health stalled = served.engine->health();
  EXPECT_FALSE(stalled.ready);
  EXPECT_GT(stalled.stalled_us, 20'000);
  EXPECT_THAT(stalled.reason, HasSubstr("no step has ended"));
  served.model->closed = false;
  ticket->wait();
  EXPECT_TRUE(served.engine->drain(60'000'000));
  EXPECT_TRUE(served.engine->health().ready);
  EXPECT_EQ(served.engine->health().stalled_us, 0);
}

TEST(Engine, IdleCostsNoProcessorTime) {
  Served served;
  served.engine->submit(request_of(5), [](const Chunk&) {})->wait();
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);
}

TEST(Engine, SubmitCancelDropAndDrainMayRace) {
  for (int round = 0; round < 8; ++round) {
    Served served;
    std::atomic<int> last_chunks = 0;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<std::shared_ptr<Ticket>> tickets;
        try {
          for (int i = 0; i < 60; ++i) {
            Request request = request_of(1 + random() % 30);
            request.n = 1 + static_cast<int32_t>(random() % 3);
            tickets.push_back(served.engine->submit(
                request, [&](const Chunk& chunk) { last_chunks += chunk.last ? 1 : 0; }));
            const auto& any = tickets[random() % tickets.size()];
            if (random() % 3 == 0) any->cancel();
            if (random() % 5 == 0) any->drop();
            (void)served.engine->stats();
            (void)served.engine->health();
          }
        } catch (const Error& error) {
          EXPECT_NE(error.code(), ErrorCode::invalid_argument) << error.what();
        }
        for (const auto& ticket : tickets) ticket->wait();
      });
    }
    if (round % 2 == 0) served.engine->drain(round * 1000);
    for (std::thread& thread : threads) thread.join();
    served.engine->drain(60'000'000);
    EXPECT_EQ(served.engine->stats().kv_blocks_used, 0);
  }
}

}  // namespace
}  // namespace hasten::engine
