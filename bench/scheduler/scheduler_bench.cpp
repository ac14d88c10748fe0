// SPDX-License-Identifier: Apache-2.0
// scheduler_bench [Google Benchmark flags]: what the scheduler takes of a step with so many running
// sequences, the model replaced by nothing: plan, advance, and the coming and going of requests.
// There is no physical limit to compare with but the time of the step itself, milliseconds.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "engine/sequence/sequence_pool.h"
#include "run_bench.h"

namespace {

using namespace hasten;
using engine::Sequence;

/// Of this thread: what else the machine does is not counted.
int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Case {
  int32_t max_batch = 0;
  bool prefix_cache = true;
  int shared_tokens = 0;  // of each prompt, in common with a tenth of the others
};

/// A request and the tokens that it asks with.
struct Asked {
  explicit Asked(engine::SequencePool& pool) : owned(pool.make()), sequence(*owned) {}

  std::vector<int32_t> prompt;
  const engine::SequencePool::Pointer owned;
  Sequence& sequence;
};

/// Keeps a scheduler at its largest batch with requests of 100 to 900 tokens whose answers have 1
/// to 399, and some more in its queue. Blocks suffice, but not for all that the cache would keep.
class Load {
 public:
  explicit Load(const Case& which)
      : case_(which),
        scheduler_(
            {.step_tokens = 16 * int64_t{which.max_batch},
             .max_batch = which.max_batch,
             .prefix_cache = which.prefix_cache},
            std::vector<engine::GroupBlocks>{{.num_blocks = 60 * int64_t{which.max_batch}}}) {
    for (int64_t i = 0; i < which.max_batch + kQueue; ++i) submit();
    for (int i = 0; i < 600; ++i) step();  // until lengths have mixed
  }

  /// One step. Returns the seconds that the scheduler took.
  double step() {
    const int64_t begin = thread_cpu_ns();
    const engine::StepPlan& plan = scheduler_.plan(++now_us_);
    scheduler_.advance();
    const int64_t planned = thread_cpu_ns();
    ended_.clear();
    for (const engine::PlannedSequence& each : plan.sequences) {
      if (!each.samples) continue;
      each.sequence->generated.push_back(static_cast<int32_t>(random_() % 100'000));
      if (std::ssize(each.sequence->generated) == each.sequence->max_generated)
        ended_.push_back(each.sequence);
    }
    for (size_t i = 0; i < ended_.size(); ++i) prepare();
    const int64_t drawn = thread_cpu_ns();
    for (const Sequence* sequence : ended_) {
      scheduler_.finish(*sequence);
      scheduler_.remove(*sequence);
    }
    for (size_t i = asked_.size() - ended_.size(); i < asked_.size(); ++i)
      scheduler_.add(asked_[i]->sequence);
    const int64_t end = thread_cpu_ns();
    std::erase_if(asked_, [](const auto& each) {
      return std::ssize(each->sequence.generated) == each->sequence.max_generated;
    });
    return static_cast<double>((planned - begin) + (end - drawn)) * 1e-9;
  }

  const engine::Scheduler& scheduler() const { return scheduler_; }

 private:
  static constexpr int64_t kQueue = 64;

  void submit() {
    prepare();
    scheduler_.add(asked_.back()->sequence);
  }

  /// Makes a request that is not yet submitted.
  void prepare() {
    auto asked = std::make_unique<Asked>(sequences_);
    const auto kind = static_cast<int32_t>(random_() % 10);
    for (size_t n = 100 + random_() % 801; asked->prompt.size() < n;) {
      const bool shared = std::ssize(asked->prompt) < case_.shared_tokens;
      asked->prompt.push_back(shared ? kind : static_cast<int32_t>(random_() % 100'000));
    }
    asked->sequence.request_id = next_id_++;
    asked->sequence.prompt = asked->prompt;
    asked->sequence.max_generated = 1 + static_cast<int64_t>(random_() % 399);
    asked->sequence.generated.reserve(static_cast<size_t>(asked->sequence.max_generated));
    asked->sequence.arrival_us = now_us_;
    asked_.push_back(std::move(asked));
  }

  const Case case_;
  std::mt19937 random_{7};
  int64_t now_us_ = 0;
  int64_t next_id_ = 0;
  engine::SequencePool sequences_;
  std::vector<std::unique_ptr<Asked>> asked_;  // what has not ended
  std::vector<const Sequence*> ended_;
  engine::Scheduler scheduler_;
};

void bench_steps(benchmark::State& state, const Case& which) {
  Load load(which);
  const auto before = load.scheduler().prefix_stats();
  for (auto _ : state) state.SetIterationTime(load.step());
  const auto& after = load.scheduler().prefix_stats();
  state.counters["running"] = static_cast<double>(load.scheduler().num_running());
  const auto queried = static_cast<double>(after.num_queried - before.num_queried);
  state.counters["hits"] =
      queried > 0 ? static_cast<double>(after.num_hits - before.num_hits) / queried : 0;
  state.counters["preempted"] = static_cast<double>(after.num_preempted - before.num_preempted);
}

int run(int /*argc*/, char** /*argv*/) {
  for (const int32_t max_batch : {32, 256, 2048}) {
    const auto add = [&](const char* name, const Case& which) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + std::to_string(max_batch)).c_str(),
                                   [which](benchmark::State& state) { bench_steps(state, which); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    };
    add("without prefix cache", {.max_batch = max_batch, .prefix_cache = false});
    add("nothing in common", {.max_batch = max_batch});
    add("300 tokens in common", {.max_batch = max_batch, .shared_tokens = 300});
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return hasten::bench::run_bench(argc, argv, run); }
