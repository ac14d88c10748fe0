// SPDX-License-Identifier: Apache-2.0
// Random requests from several threads, cancelled and dropped at random: every one ends once, equal
// requests get equal answers, and at the end every cache block is free.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "hasten_test/fake_model.h"

namespace {

using namespace hasten;

constexpr int kNumThreads = 4;
constexpr size_t kNumKinds = 300;
constexpr int32_t kVocabSize = 40;
constexpr int64_t kContext = 48;

/// The requests that are sent again and again.
std::vector<Request> make_kinds() {
  std::mt19937 random(7);
  std::vector<Request> kinds(kNumKinds);
  for (Request& request : kinds) {
    const size_t length = random() % 8 == 0 ? 1 + random() % 40 : 1 + random() % 10;
    for (size_t i = 0; i < length; ++i)
      request.prompt.push_back(static_cast<int32_t>(1 + random() % (kVocabSize - 1)));
    // 0: until the context is full, and memory runs out under the others.
    request.max_tokens = random() % 6 == 0 ? 0 : 1 + random() % 6;
    request.sampling.seed = random();
    request.sampling.temperature = random() % 3 == 0 ? 0.0F : 1.0F;
    request.sampling.top_k = random() % 2 == 0 ? 10 : 0;
    if (random() % 4 == 0) request.sampling.repetition_penalty = 1.2F;
    if (random() % 3 == 0) request.stop = {"a", "xy", "bcd"};
    if (random() % 6 == 0) request.n = 2 + static_cast<int32_t>(random() % 3);
    if (random() % 8 == 0) request.logprobs = static_cast<int32_t>(random() % 3);
    if (random() % 16 == 0) request.prompt_logprobs = 1;
  }
  return kinds;
}

/// An answer as a number, whichever order its choices come in.
class Digest {
 public:
  void take(const Chunk& chunk) {
    uint64_t& hash = hashes_[chunk.choice];
    for (const int32_t token : chunk.tokens) hash = mix64(hash ^ static_cast<uint64_t>(token));
    for (const TokenLogprob& logprob : chunk.prompt_logprobs)
      hash = mix64(hash ^ static_cast<uint64_t>(logprob.chosen.token));
    // Text may be cut differently only if tokens were.
    hash = hash_bytes(chunk.text, hash);
    hash = mix64(hash ^ static_cast<uint64_t>(chunk.finish));
  }
  uint64_t value() const {
    uint64_t sum = 0;
    for (const auto& [choice, hash] : hashes_) sum = mix64(sum ^ hash);
    return sum;
  }

 private:
  std::map<int32_t, uint64_t> hashes_;
};

/// What all threads agree on.
struct Verdict {
  std::array<std::atomic<uint64_t>, kNumKinds> digests = {};  // 0: not known yet
  std::atomic<int64_t> completed = 0;
  std::atomic<int64_t> cancelled = 0;
  std::atomic<int64_t> dropped = 0;
  std::atomic<int64_t> wrong = 0;  // different answers, chunks after the last one

  void compare(size_t kind, uint64_t digest) {
    uint64_t expected = 0;
    if (!digests[kind].compare_exchange_strong(expected, digest) && expected != digest) ++wrong;
    ++completed;
  }
};

/// Sends `count` requests, with up to 64 of them open at a time.
void submit_many(engine::Engine& engine, const std::vector<Request>& kinds, int64_t count,
                 uint32_t seed, Verdict& verdict) {
  std::mt19937 random(seed);
  std::deque<std::shared_ptr<engine::Ticket>> open;
  const auto await_half = [&] {  // not one by one: waking up costs more than a request
    for (size_t remaining = open.size() / 2; open.size() > remaining; open.pop_front())
      open.front()->wait();
  };
  while (count > 0) {
    if (open.size() >= 64) await_half();
    const size_t kind = random() % kNumKinds;
    auto digest = std::make_shared<Digest>();
    auto ended = std::make_shared<bool>(false);
    try {
      open.push_back(
          engine.submit(kinds[kind], [&verdict, kind, digest, ended](const Chunk& chunk) {
            if (*ended || chunk.finish == Finish::error) ++verdict.wrong;
            digest->take(chunk);
            if (!chunk.last) return;
            *ended = true;
            if (chunk.finish == Finish::cancelled)
              ++verdict.cancelled;
            else
              verdict.compare(kind, digest->value());
          }));
      --count;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      if (open.empty())
        std::this_thread::yield();  // the others fill the queue
      else
        await_half();
      continue;
    }
    const auto& any = open[random() % open.size()];
    if (random() % 12 == 0) any->cancel();
    if (random() % 40 == 0) {
      any->drop();
      ++verdict.dropped;
    }
  }
  while (!open.empty()) await_half();
}

int soak(int64_t num_requests) {
  const std::vector<Request> kinds = make_kinds();
  Verdict verdict;
  testing::FakeBackend backend;
  engine::CoreOptions options;
  options.context = kContext;
  options.block_size = 4;
  options.step_tokens = 40;
  options.max_batch = 32;
  options.max_queue = 200;
  options.kv_cache_bytes = 2 * 4 * 36;  // so few blocks that preemption is common
  engine::Engine engine(std::make_unique<testing::FakeModel>(
                            testing::FakeModelOptions{.vocab_size = kVocabSize, .windows = {0, 8}}),
                        backend, testing::make_fake_tokenizer(kVocabSize), options);

  const int64_t begin_us = monotonic_us();
  std::vector<std::thread> threads;
  for (int t = 0; t < kNumThreads; ++t)
    threads.emplace_back([&, t] {
      submit_many(engine, kinds, num_requests / kNumThreads, static_cast<uint32_t>(t), verdict);
    });
  for (std::thread& thread : threads) thread.join();
  const bool drained = engine.drain(10'000'000);

  const Stats stats = engine.stats();
  const int64_t finished = stats.finished_stop + stats.finished_length + stats.finished_cancelled;
  std::printf(
      "%lld requests in %.1f s: %lld completed, %lld cancelled, %lld drops; %lld steps, "
      "%lld tokens, %lld preemptions, %lld rejected\n",
      static_cast<long long>(finished), static_cast<double>(monotonic_us() - begin_us) * 1e-6,
      static_cast<long long>(verdict.completed), static_cast<long long>(verdict.cancelled),
      static_cast<long long>(verdict.dropped), static_cast<long long>(stats.steps),
      static_cast<long long>(stats.generated_tokens), static_cast<long long>(stats.preemptions),
      static_cast<long long>(stats.rejected));
  std::printf("blocks in use %lld of %lld, running %lld, waiting %lld, errors %lld, wrong %lld\n",
              static_cast<long long>(stats.kv_blocks_used),
              static_cast<long long>(stats.kv_blocks_total), static_cast<long long>(stats.running),
              static_cast<long long>(stats.waiting), static_cast<long long>(stats.finished_error),
              static_cast<long long>(verdict.wrong));
  const bool good = drained && finished == num_requests / kNumThreads * kNumThreads &&
                    verdict.wrong == 0 && stats.finished_error == 0 && stats.kv_blocks_used == 0 &&
                    stats.running + stats.waiting == 0 && stats.preemptions > 0;
  std::printf("%s\n", good ? "ok" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const long long num_requests = argc > 1 ? std::atoll(argv[1]) : 100'000;
  return soak(num_requests);
}
