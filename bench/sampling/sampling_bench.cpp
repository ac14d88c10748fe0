// SPDX-License-Identifier: Apache-2.0
// sampling_bench [Google Benchmark flags]: one token from the logits of a vocabulary of 152,000,
// one thread. The limit, which docs/performance.md has, is one look at each logit at the
// speed of the cache that holds them.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "run_bench.h"

namespace {

using hasten::Sampling;

/// Logits like a model's: most are far below the few that matter.
std::vector<float> make_logits(int64_t vocab_size) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 2.5F);
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (float& logit : logits) logit = normal(random);
  for (int i = 0; i < 20; ++i) logits[random() % logits.size()] = 12.0F + normal(random);
  return logits;
}

void bench_sample(benchmark::State& state, const Sampling& sampling, int32_t num_top) {
  const std::vector<float> logits = make_logits(152'000);
  std::vector<float> row;
  hasten::engine::Sampler sampler(static_cast<int64_t>(logits.size()));
  uint64_t seed = 0;
  for (auto _ : state) {
    row = logits;  // sampling changes them
    benchmark::DoNotOptimize(sampler.sample({.logits = row,
                                             .scan = hasten::ops::scan_row(row),
                                             .sampling = sampling,
                                             .seed = ++seed,
                                             .num_top_logprobs = num_top}));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * logits.size() * sizeof(float)));
}

void add(const char* name, const Sampling& sampling, int32_t num_top = -1) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
    bench_sample(state, sampling, num_top);
  })->Unit(benchmark::kMicrosecond);
}

int run(int /*argc*/, char** /*argv*/) {
  const auto sampling = [](auto&& change) {
    Sampling result;
    result.temperature = 1.0F;
    change(result);
    return result;
  };
  add("greedy", sampling([](Sampling& s) { s.temperature = 0.0F; }));
  add("temperature", sampling([](Sampling&) {}));
  add("top_p", sampling([](Sampling& s) { s.top_p = 0.95F; }));
  add("min_p", sampling([](Sampling& s) { s.min_p = 0.05F; }));
  add("top_k", sampling([](Sampling& s) { s.top_k = 40; }));
  add("top_k and top_p", sampling([](Sampling& s) {
        s.top_k = 40;
        s.top_p = 0.95F;
      }));
  add("typical_p", sampling([](Sampling& s) { s.typical_p = 0.9F; }));
  add("greedy with 5 logprobs", sampling([](Sampling& s) { s.temperature = 0.0F; }), 5);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
