// SPDX-License-Identifier: Apache-2.0
// hasten bench replay: a workload through the engine of this process, with the machine's limits.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/command.h"
#include "cli/machine_model.h"
#include "cli/replay.h"
#include "cli/roofline.h"
#include "cli/words.h"
#include "cli/workload_flags.h"
#include "hasten/machine.h"

namespace hasten::cli {
namespace {

struct ReplayOptions {
  EngineOptions engine;
  WorkloadOptions workload;
  std::filesystem::path calibrate;  // empty: nothing is written
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
  warm_up(engine);
  const workload::Statistics statistics = replay(engine, workload, options.workload);
  const ModelInfo model = engine.model();
  int64_t concurrency = std::min<int64_t>(model.max_batch, statistics.num_finished());
  if (workload.users > 0) concurrency = std::min(concurrency, workload.users);
  workload::BestCase best = workload_limit(model, ceilings, statistics, concurrency);
  best.is_open_loop = workload.users == 0;
  const Stats stats = engine.stats();
  loaded.reset();
  std::optional<StepCostFit> fit;
  std::exception_ptr unfit;  // thrown after the results, which a failed fit must not take along
  if (!options.calibrate.empty()) {
    try {
      steps.erase(steps.begin(),
                  steps.begin() + std::min<int64_t>(kNumWarmUpSteps, std::ssize(steps)));
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
                           {"length_predictor", options.engine.length_predictor},
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
  if (statistics.num_finished() > 0)
    fmt::print("\n{} steps, {} preemptions\n", stats.steps, stats.preemptions);
  if (fit)
    fmt::print("{}: costs of a step, fitted with a mean error of {:.1f} %\n",
               options.calibrate.string(), 100 * fit->mean_error);
  if (unfit) std::rethrow_exception(unfit);
  return statistics.num_finished() > 0 ? 0 : 1;
}

}  // namespace

void add_bench_replay(Command bench) {
  const Command command = bench.add(
      "replay", "Run a workload through the engine of this process: latencies and throughput");
  auto options = std::make_shared<ReplayOptions>();
  add_engine_flags(command, options->engine);
  add_queue_flag(command, options->engine);
  command.option("--calibrate FILE", options->calibrate,
                 "Writes what steps cost here to FILE, for 'hasten simulate --machine FILE'");
  add_workload_flags(command, options->workload);
  command.footer(
      "Answers have the length that the trace says (end tokens are ignored); latencies count from\n"
      "the time at which a request was due. Limits are those of this machine for the same work.\n"
      "  hasten bench replay --users 8 --prompt 512 --gen 64\n"
      "  hasten bench replay MODEL --trace azure.csv --requests 200 --rate 0.5\n"
      "  hasten bench replay MODEL --trace mooncake.jsonl --scale-lengths 0.03125 --speed 2");
  command.run([options] { return bench_replay(*options); });
}

}  // namespace hasten::cli
