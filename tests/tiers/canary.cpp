// SPDX-License-Identifier: Apache-2.0
// A hundred tenants with secrets in their prompts, which all begin alike, on one engine whose
// memory is too small and whose blocks go to disk: nobody is told another's secret, begins with
// what another has computed, or shares a block with another on disk.
//
// HASTEN_TEST_REQUESTS is how many requests are sent.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "engine/engine.h"
#include "hasten_test/fake_model.h"
#include "hasten_test/temporary_folder.h"

namespace {

using namespace hasten;

constexpr int32_t kNumTenants = 100;
constexpr int32_t kNumCommon = 20;  // token ids that everybody uses, from 1 on
constexpr int32_t kNumSecrets = 4;  // token ids of each tenant alone, behind those
constexpr int32_t kVocabSize = 1 + kNumCommon + kNumTenants * kNumSecrets;
constexpr int32_t kBlockSize = 4;
constexpr int64_t kContext = 48;
// Of a slot of the file: where the block's tokens begin, and the pages that it takes.
constexpr size_t kTokensAt = 8 + 4 * 16 + 4 * 8;
constexpr size_t kSlotBytes = 4096;

/// Whose secret a token is; -1: nobody's.
int32_t owner_of(int32_t token) {
  return token <= kNumCommon ? -1 : (token - kNumCommon - 1) / kNumSecrets;
}

struct Asked {
  int32_t tenant = 0;
  std::vector<int32_t> tokens;  // the prompt's, then the answer's
  int64_t num_prompt = 0;
  int64_t num_cached = 0;
  int64_t num_submitted = 0;  // requests in all, itself included, when its answer began
  bool failed = false;
};

/// A beginning that all tenants have in common, then secrets and anything.
Request make_request(std::mt19937& random, int32_t tenant) {
  Request request;
  request.tenant = "tenant " + std::to_string(tenant);
  const auto draw = [&](size_t bound) { return static_cast<int32_t>(random() % bound); };
  const int32_t story = draw(4);
  for (int32_t i = 4 + draw(12); i > 0; --i)
    request.prompt.push_back(1 + (story * 7 + i * i) % kNumCommon);
  const int32_t first_secret = 1 + kNumCommon + tenant * kNumSecrets;
  for (int32_t i = 2 + draw(14); i > 0; --i)
    request.prompt.push_back(draw(2) == 0 ? first_secret + draw(kNumSecrets)
                                          : 1 + draw(kNumCommon));
  request.max_tokens = 1 + draw(10);
  request.ignore_eos = true;
  request.sampling.seed = random();
  request.sampling.temperature = 0;
  return request;
}

uint64_t extended(uint64_t hash, int32_t token) {
  return mix64(hash ^ (static_cast<uint64_t>(token) + 1));
}

/// The first two requests of a tenant that begin in some way, by index; -1: there is none.
struct Earliest {
  int64_t first = -1;
  int64_t second = -1;
};

/// Requests whose answers have a token that is another's secret, or that began with more than their
/// own tenant had asked for by then.
int64_t count_leaks(const std::deque<Asked>& all) {
  std::vector<std::unordered_map<uint64_t, Earliest>> beginnings(kNumTenants);
  for (int64_t index = 0; index < std::ssize(all); ++index) {
    const Asked& asked = all[static_cast<size_t>(index)];
    uint64_t hash = 0;
    for (const int32_t token : asked.tokens) {
      hash = extended(hash, token);
      Earliest& earliest = beginnings[static_cast<size_t>(asked.tenant)][hash];
      if (earliest.first < 0)
        earliest.first = index;
      else if (earliest.second < 0)
        earliest.second = index;
    }
  }
  int64_t leaks = 0;
  for (int64_t index = 0; index < std::ssize(all); ++index) {
    const Asked& asked = all[static_cast<size_t>(index)];
    bool leaked = asked.failed;
    uint64_t hash = 0;
    for (int64_t i = 0; i < std::ssize(asked.tokens); ++i) {
      const int32_t token = asked.tokens[static_cast<size_t>(i)];
      const int32_t owner = owner_of(token);
      leaked = leaked || (owner >= 0 && owner != asked.tenant);
      hash = extended(hash, token);
      if (i >= asked.num_cached) continue;
      // Not only those in front: one that waits for its blocks from disk may be overtaken.
      const Earliest& earliest = beginnings[static_cast<size_t>(asked.tenant)].at(hash);
      const int64_t other = earliest.first == index ? earliest.second : earliest.first;
      leaked = leaked || other < 0 || other >= asked.num_submitted;
    }
    leaks += leaked ? 1 : 0;
  }
  return leaks;
}

/// Blocks on disk, and those of them in which two tenants' secrets meet.
std::array<int64_t, 2> count_blocks(const std::filesystem::path& file) {
  std::array<int64_t, 2> counts{};
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> slot(kSlotBytes);
  while (stream.read(slot.data(), std::ssize(slot))) {
    std::array<int32_t, kBlockSize + 2 * kBlockSize> words{};  // tokens; tokens with positions
    std::memcpy(words.data(), slot.data() + kTokensAt, sizeof words);
    if (words[0] == 0) continue;
    ++counts[0];
    int32_t owner = -1;
    bool mixed = false;
    for (size_t i = 0; i < kBlockSize; ++i) {
      const int32_t own = owner_of(words[i]);
      mixed = mixed || (own >= 0 && owner >= 0 && own != owner) ||
              words[i] != words[kBlockSize + 2 * i];
      owner = own >= 0 ? own : owner;
    }
    counts[1] += mixed ? 1 : 0;
  }
  return counts;
}

int run(int64_t num_requests) {
  const testing::TemporaryFolder folder;
  engine::CoreOptions options;
  options.context = kContext;
  options.block_size = kBlockSize;
  options.step_tokens = 40;
  options.max_batch = 16;
  options.max_queue = 200;
  options.kv_cache_bytes = 8 * kBlockSize * 24;  // so few blocks that preemption is common
  options.kv_disk = {.folder = folder.path() / "store",
                     .max_bytes = 4000 * static_cast<int64_t>(kSlotBytes),
                     .model = "canary",
                     .always_load = true};
  std::deque<Asked> all;
  std::atomic<int64_t> num_submitted = 0;
  Stats stats;
  // Two processes in turn, as far as the folder knows.
  for (int life = 0; life < 2; ++life) {
    testing::FakeBackend backend(true);
    engine::Engine engine(std::make_unique<testing::FakeModel>(
                              testing::FakeModelOptions{.vocab_size = kVocabSize, .echoes = true}),
                          backend, testing::make_fake_tokenizer(kVocabSize), options);
    std::mt19937 random(static_cast<uint32_t>(life));
    std::deque<std::shared_ptr<engine::Ticket>> open;
    for (int64_t i = 0; i < num_requests / 2; ++i) {
      Asked& asked = all.emplace_back();
      asked.tenant = static_cast<int32_t>(random() % kNumTenants);
      Request request = make_request(random, asked.tenant);
      asked.tokens = request.prompt;
      asked.num_prompt = std::ssize(request.prompt);
      ++num_submitted;
      open.push_back(
          engine.submit(std::move(request), [&asked, &num_submitted](const Chunk& chunk) {
            if (asked.num_submitted == 0) asked.num_submitted = num_submitted;
            asked.tokens.insert(asked.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
            asked.num_cached = chunk.usage.cached_tokens;
            asked.failed = asked.failed || chunk.finish == Finish::error;
          }));
      for (; open.size() >= 100; open.pop_front()) open.front()->wait();
    }
    for (; !open.empty(); open.pop_front()) open.front()->wait();
    engine.drain(10'000'000);
    const Stats now = engine.stats();
    stats.preemptions += now.preemptions;
    stats.kv_disk_hits += now.kv_disk_hits;
    stats.prefix_cache_hits += now.prefix_cache_hits;
  }
  const int64_t leaks = count_leaks(all);
  const auto [blocks, mixed] = count_blocks(folder.path() / "store" / "blocks.0");
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%lld requests of %d tenants: %lld preemptions, %lld tokens from the prefix cache, %lld from "
      "disk; %lld leaks; %lld blocks on disk, %lld of two tenants\n",
      number(std::ssize(all)), kNumTenants, number(stats.preemptions),
      number(stats.prefix_cache_hits), number(stats.kv_disk_hits), number(leaks), number(blocks),
      number(mixed));
  const bool good = leaks == 0 && mixed == 0 && blocks > 0 && stats.preemptions > 0 &&
                    stats.kv_disk_hits > 0 && stats.prefix_cache_hits > 0;
  std::printf("%s\n", good ? "ok" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace

int main() {
  const char* asked = std::getenv("HASTEN_TEST_REQUESTS");
  return run(asked != nullptr ? std::atoll(asked) : 10'000);
}
