// SPDX-License-Identifier: Apache-2.0
// hasten simulate: a workload through the engine's own scheduler, in virtual time.
#include "hasten/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "cli/command.h"
#include "cli/machine_model.h"
#include "cli/roofline.h"
#include "cli/simulated_replay.h"
#include "cli/words.h"
#include "cli/workload_flags.h"
#include "weights/synth.h"
#include "workload/reuse.h"

namespace hasten::cli {
namespace {

struct SimulateOptions {
  std::string machine = "here";
  std::string shape = "llama-3.2-1b";
  std::string type = "q4_0";
  double efficiency = 0.6;
  EngineOptions engine;  // the sizes and the policy of it
  WorkloadOptions workload;
};

MachineModel find_machine(const SimulateOptions& options) {
  std::error_code ignored;
  MachineModel machine = std::filesystem::is_regular_file(options.machine, ignored)
                             ? read_calibration(options.machine)
                             : peak_machine({.machine = options.machine,
                                             .shape = options.shape,
                                             .type = options.type,
                                             .efficiency = options.efficiency});
  const EngineOptions& asked = options.engine;
  SimulatorOptions& sizes = machine.options;
  sizes.policy = asked.policy;
  sizes.prefix_cache = asked.prefix_cache;
  sizes.aging_us = asked.aging_us;
  sizes.length_predictor = asked.length_predictor;
  sizes.target_tbt_us = asked.target_tbt_us;
  sizes.max_queue = asked.max_queue;
  sizes.held_share = asked.held_share;
  sizes.tenant_cache_share = asked.tenant_cache_share;
  sizes.batching = asked.batching;
  sizes.preferred_batch = asked.preferred_batch;
  sizes.batch_wait_us = asked.batch_wait_us;
  sizes.chunked_prefill = asked.chunked_prefill;
  sizes.reserve_context = asked.reserve_context;
  if (asked.step_tokens > 0) sizes.step_tokens = asked.step_tokens;
  if (asked.max_batch > 0) sizes.max_batch = asked.max_batch;
  if (asked.max_batch > 0 && asked.step_tokens == 0)
    sizes.step_tokens = std::max<int64_t>(sizes.step_tokens, sizes.max_batch);
  if (asked.kv_cache_bytes > 0)
    sizes.num_kv_blocks =
        asked.kv_cache_bytes / (machine.model.kv_bytes_per_token * sizes.block_size);
  if (asked.context > 0) {
    sizes.context = asked.context;
  } else {
    sizes.context = std::min(sizes.context, sizes.num_kv_blocks * sizes.block_size);
  }
  if (!sizes.chunked_prefill && asked.step_tokens == 0)
    sizes.step_tokens = std::max(sizes.step_tokens, sizes.context);
  return machine;
}

/// Of all prompt tokens those that came from the cache.
double cached_fraction(const workload::Statistics& statistics) {
  return statistics.mean_cached_tokens() / std::max(1.0, statistics.mean_prompt_tokens());
}

int simulate(const SimulateOptions& options) {
  const Workload workload = load_workload(options.workload);
  const MachineModel machine = find_machine(options);
  const SimulatedReplay replayed = simulate_replay(machine, workload, options.workload);
  const workload::Statistics& statistics = replayed.statistics;
  const Simulation& simulation = replayed.simulation;

  int64_t concurrency = std::min<int64_t>(machine.options.max_batch, statistics.num_finished());
  if (workload.users > 0) concurrency = std::min(concurrency, workload.users);
  const workload::BestCase best =
      workload_limit(machine.model, machine.ceilings, statistics, concurrency);
  const double busy = simulation.busy_us / std::max(1.0, static_cast<double>(simulation.end_us));
  const double used = simulation.mean_blocks_used /
                      static_cast<double>(std::max<int64_t>(1, machine.options.num_kv_blocks));
  const double reusable = workload::reusable_fraction(workload.trace, machine.options.block_size);
  if (options.workload.json) {
    fmt::print("{}\n", json_text(json::Object{
                           {"workload", to_json(options.workload, workload)},
                           {"machine", machine.machine},
                           {"basis", machine.basis},
                           {"model", json::Object{{"name", machine.model.name},
                                                  {"weight_types", machine.model.weight_types}}},
                           {"policy", machine.options.policy},
                           {"length_predictor", machine.options.length_predictor},
                           {"steps", simulation.steps},
                           {"preemptions", simulation.preemptions},
                           {"mean_batch", simulation.mean_batch},
                           {"busy_fraction", busy},
                           {"kv_blocks", machine.options.num_kv_blocks},
                           {"kv_used_fraction", used},
                           {"cached_fraction", cached_fraction(statistics)},
                           {"reusable_fraction", reusable},
                           {"wall_seconds", replayed.wall_seconds},
                           {"result", statistics.to_json(best)}}));
    return statistics.num_finished() > 0 ? 0 : 1;
  }
  fmt::print("SIMULATED: {}, {} on {}\nsteps cost {}\n{}, policy {}\n\n{}", machine.model.name,
             machine.model.weight_types, machine.machine, machine.basis,
             describe(options.workload, workload), machine.options.policy,
             statistics.to_text(best));
  fmt::print(
      "\n{} steps of {:.1f} sequences on average, {} preemptions; busy {:.0f} % of the time; "
      "{:.0f} % of {} used\n",
      simulation.steps, simulation.mean_batch, simulation.preemptions, 100 * busy, 100 * used,
      counted(machine.options.num_kv_blocks, "cache block"));
  if (reusable > 0)
    fmt::print(
        "{:.1f} % of the prompt tokens came from the cache; one without bounds, each answer ending "
        "before the next request comes, has {:.1f} %\n",
        100 * cached_fraction(statistics), 100 * reusable);
  fmt::print("simulated in {:.2f} s: {:.2f} million requests an hour\n", replayed.wall_seconds,
             static_cast<double>(workload.trace.requests.size()) /
                 std::max(replayed.wall_seconds, 1e-6) * 3600e-6);
  return statistics.num_finished() > 0 ? 0 : 1;
}

}  // namespace

void add_simulate(Command program) {
  const Command command = program.add(
      "simulate", "Predict latencies of a workload: the real scheduler, in virtual time");
  auto options = std::make_shared<SimulateOptions>();
  command.option("--machine NAME|FILE", options->machine,
                 "here (its measured ceilings), a100 or h200 (like those, by published peaks), or "
                 "a FILE that 'hasten bench replay --calibrate FILE' wrote (default: {})");
  command.option(
      "--shape NAME", options->shape,
      fmt::format("Model, unless a FILE has one: {}", fmt::join(weights::synth_shapes(), " ")) +
          " (default: {})");
  command.option("--type TYPE", options->type,
                 "Type of its weights, such as bf16, q8_0 or q4_0 (default: {})");
  command.option("--efficiency F", options->efficiency, number_within(0.01, 1),
                 "Fraction of the peaks that steps reach; a FILE knows better (default: {})");
  add_scheduling_flags(command, options->engine);
  add_queue_flag(command, options->engine);
  add_workload_flags(command, options->workload);
  command.footer(
      "  hasten simulate --trace azure.csv --machine h200 --shape llama-3.1-8b --type bf16\n"
      "  hasten bench replay MODEL --trace azure.csv --requests 50 --calibrate here.json\n"
      "  hasten simulate --trace azure.csv --machine here.json --policy srtf");
  command.run([options] { return simulate(*options); });
}

}  // namespace hasten::cli
