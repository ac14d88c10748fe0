// SPDX-License-Identifier: Apache-2.0
// hasten bench replay: a workload through the engine of this process, with the machine's limits.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/machine_model.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "cli/words.h"
#include "cli/workload_flags.h"
#include "hasten/machine.h"
#include "workload/prompts.h"

namespace hasten::cli {
namespace {

struct ReplayOptions {
  EngineOptions engine;
  WorkloadOptions workload;
  std::filesystem::path calibrate;  // empty: nothing is written
};

/// Submits the requests of a workload when they are due and gathers what comes back. The engine's
/// thread calls `take`; the one that made it, all else.
class Replay {
 public:
  Replay(Engine& engine, const Workload& workload, const WorkloadOptions& options)
      : engine_(engine),
        workload_(workload),
        seed_(options.arrivals.seed),
        statistics_(options.targets),
        answers_(workload.trace.requests.size()),
        generations_(answers_.size()) {}

  workload::Statistics run() {
    const int64_t start = monotonic_us();
    for (size_t i = 0; i < answers_.size(); ++i) {
      const bool is_open = !workload_.times_us.empty();
      Request request = make_request(i);
      if (is_open) {
        const int64_t due = start + workload_.times_us[i];
        wait([due] { return monotonic_us() >= due; }, due);
        submit(i, std::move(request), due);
      } else {
        wait([this] { return under_way_ < workload_.users; });
        submit(i, std::move(request), std::nullopt);
      }
    }
    wait([this] { return under_way_ == 0; });
    return std::move(statistics_);
  }

 private:
  Request make_request(size_t index) const {
    const workload::TraceRequest& asked = workload_.trace.requests[index];
    Request request;
    if (!asked.text.empty()) {
      request.prompt = engine_.tokenize(asked.text);
    } else if (asked.prompt_tokens + asked.output_tokens <= engine_.model().context) {
      request.prompt =
          workload::make_prompt(workload_.trace, index, engine_.model().vocab_size, seed_);
    }  // else submit refuses its length
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    request.max_tokens = asked.output_tokens;
    request.tenant = asked.tenant;
    request.priority = asked.priority;
    return request;
  }

  void submit(size_t index, Request request, std::optional<int64_t> due) {
    const int64_t now = monotonic_us();
    workload::Answer& answer = answers_[index];
    {
      const std::lock_guard lock(mutex_);
      answer.arrival_us = due.value_or(now);
      const workload::TraceRequest& asked = workload_.trace.requests[index];
      answer.prompt_tokens = asked.text.empty() ? asked.prompt_tokens : std::ssize(request.prompt);
      if (due) statistics_.sent_late(now - *due);
      if (answer.prompt_tokens + request.max_tokens > engine_.model().context)
        return give_up(answer, now, "longer than the context");
      ++under_way_;
    }
    try {
      generations_[index] = engine_.submit(
          std::move(request), [this, index](const Chunk& chunk) { take(index, chunk); });
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      --under_way_;
      give_up(answer, monotonic_us(),
              error.code() == ErrorCode::resource_exhausted ? "the queue was full" : error.what());
    }
  }

  /// Under the lock, as `take`'s own work.
  void give_up(const workload::Answer& answer, int64_t now, std::string_view kind) {
    statistics_.fail(answer, now, kind);
    ++num_ended_;
  }

  void take(size_t index, const Chunk& chunk) {
    const int64_t now = monotonic_us();
    const std::lock_guard lock(mutex_);
    workload::Answer& answer = answers_[index];
    if (!chunk.tokens.empty()) statistics_.deliver(answer, now, std::ssize(chunk.tokens));
    if (!chunk.last) return;
    --under_way_;
    answer.cached_tokens = chunk.usage.cached_tokens;
    if (chunk.finish == Finish::error || answer.output_tokens == 0) {
      give_up(answer, now, chunk.error.empty() ? "no token" : chunk.error);
    } else {
      statistics_.finish(answer, now);
      ++num_ended_;
    }
    changed_.notify_one();
  }

  /// Waits until `condition` holds, which only `take` and the time `until_us` change.
  template <class Condition>
  void wait(Condition condition, int64_t until_us = INT64_MAX) {
    constexpr int64_t kRedrawUs = 100'000;
    std::unique_lock lock(mutex_);
    while (!condition()) {
      bar_.show("replay", static_cast<double>(num_ended_) / static_cast<double>(answers_.size()));
      const int64_t left = std::min(until_us - monotonic_us(), kRedrawUs);
      changed_.wait_for(lock, std::chrono::microseconds(std::max<int64_t>(left, 0)));
    }
  }

  Engine& engine_;
  const Workload& workload_;
  const uint64_t seed_;
  ProgressBar bar_;
  std::mutex mutex_;  // guards what follows, but for generations_
  std::condition_variable changed_;
  workload::Statistics statistics_;
  std::vector<workload::Answer> answers_;  // [requests]
  int64_t under_way_ = 0;
  int64_t num_ended_ = 0;
  std::vector<Generation> generations_;  // last: goes first, and its sinks use what stands above
};

int bench_replay(ReplayOptions& options) {
  log::set_level(log::Level::warn);
  const Workload workload = load_workload(options.workload);
  check_model(options.engine.model);
  if (!options.calibrate.empty()) check_writable(options.calibrate);
  show_progress(options.engine);
  const Machine machine = describe_machine();
  const int32_t threads = options.engine.threads > 0 ? options.engine.threads : machine.num_threads;
  const Ceilings ceilings = measure_ceilings(threads);
  if (options.engine.max_queue == 0) options.engine.max_queue = std::ssize(workload.trace.requests);
  std::vector<StepRecord> steps;  // of the engine's thread until it has gone
  if (!options.calibrate.empty())
    options.engine.on_step = [&steps](const StepRecord& step) { steps.push_back(step); };
  std::optional<Engine> loaded(std::in_place, options.engine);
  Engine& engine = *loaded;
  Request warm_up;  // pages in the weights
  warm_up.prompt = {0};
  warm_up.max_tokens = 1;
  (void)engine.generate(std::move(warm_up));

  const workload::Statistics statistics = Replay(engine, workload, options.workload).run();
  const ModelInfo model = engine.model();
  int64_t concurrency = std::min<int64_t>(model.max_batch, statistics.num_finished());
  if (workload.users > 0) concurrency = std::min(concurrency, workload.users);
  const workload::BestCase best = workload_limit(model, ceilings, statistics, concurrency);
  const Stats stats = engine.stats();
  loaded.reset();
  std::optional<StepCostFit> fit;
  std::exception_ptr unfit;  // thrown after the results, which a failed fit must not take along
  if (!options.calibrate.empty()) {
    try {
      steps.erase(steps.begin(),
                  steps.begin() + std::min<int64_t>(1, std::ssize(steps)));  // warm-up
      fit = write_calibration(options.calibrate,
                              {.machine = machine.cpu,
                               .model = model,
                               .ceilings = ceilings,
                               .options = simulated_sizes(model, options.engine.block_size)},
                              steps);
    } catch (const Error&) {
      unfit = std::current_exception();
    }
  }
  if (options.workload.json) {
    json::Object object = {{"workload", to_json(options.workload, workload)},
                           {"model", json::Object{{"name", model.name},
                                                  {"weight_types", model.weight_types},
                                                  {"device", model.device}}},
                           {"policy", options.engine.policy},
                           {"steps", stats.steps},
                           {"preemptions", stats.preemptions},
                           {"result", statistics.to_json(best)}};
    if (fit) object["calibration_mean_error"] = fit->mean_error;
    fmt::print("{}\n", json_text(object));
    if (unfit) std::rethrow_exception(unfit);
    return statistics.num_finished() > 0 ? 0 : 1;
  }
  fmt::print("{}: {} on {}, policy {}\n{}\n\n{}", model.name, model.weight_types, model.device,
             options.engine.policy, describe(options.workload, workload), statistics.to_text(best));
  fmt::print("\n{} steps, {} preemptions\n", stats.steps, stats.preemptions);
  if (fit)
    fmt::print("{}: costs of a step, fitted with a mean error of {:.1f} %\n",
               options.calibrate.string(), 100 * fit->mean_error);
  if (unfit) std::rethrow_exception(unfit);
  return statistics.num_finished() > 0 ? 0 : 1;
}

}  // namespace

void add_bench_replay(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand(
      "replay", "Run a workload through the engine of this process: latencies and throughput");
  auto options = std::make_shared<ReplayOptions>();
  add_engine_flags(*command, options->engine);
  command
      ->add_option("--max-queue", options->engine.max_queue,
                   "Requests that may wait; more are refused (default: no limit)")
      ->check(whole_number(0))
      ->type_name("N");
  command
      ->add_option("--calibrate", options->calibrate,
                   "Writes what steps cost here to FILE, for 'hasten simulate --machine FILE'")
      ->type_name("FILE");
  add_workload_flags(*command, options->workload);
  command->footer(
      "Answers have the length that the trace says (end tokens are ignored); latencies count from\n"
      "the time at which a request was due. Limits are those of this machine for the same work.\n"
      "  hasten bench replay --users 8 --prompt 512 --gen 64\n"
      "  hasten bench replay MODEL --trace azure.csv --requests 200 --rate 0.5\n"
      "  hasten bench replay MODEL --trace mooncake.jsonl --scale-lengths 0.03125 --speed 2");
  command->callback([options, &action] { action = [options] { return bench_replay(*options); }; });
}

}  // namespace hasten::cli
