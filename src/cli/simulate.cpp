// SPDX-License-Identifier: Apache-2.0
// hasten simulate: a workload through the engine's own scheduler, in virtual time.
#include "hasten/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
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
  // Of machines by their peaks; empty and 0: the defaults below.
  std::string shape;
  std::string type;
  double efficiency = 0;
  EngineOptions engine;  // the sizes and the policy of it
  WorkloadOptions workload;
};

constexpr std::string_view kDefaultShape = "llama-3.2-1b";
constexpr std::string_view kDefaultType = "q4_0";

/// Refuses flags that a calibration answers itself.
void check_flags_beside_file(const SimulateOptions& options) {
  struct Flag {
    std::string_view name;
    bool is_given;
  };
  for (const Flag& flag :
       {Flag{"--shape", !options.shape.empty()}, Flag{"--type", !options.type.empty()},
        Flag{"--efficiency", options.efficiency > 0}})
    if (flag.is_given)
      fail_param("machine",
                 "{} is of machines by their peaks, and --machine {} is a file of measured steps "
                 "of its own model: leave out one of them",
                 flag.name, options.machine);
}

MachineModel read_machine(const SimulateOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.machine, ignored)) {
    check_flags_beside_file(options);
    return read_calibration(options.machine);
  }
  return peak_machine(
      {.machine = options.machine,
       .shape = options.shape.empty() ? kDefaultShape : options.shape,
       .type = options.type.empty() ? kDefaultType : options.type,
       .efficiency = options.efficiency > 0 ? options.efficiency : kDefaultEfficiency});
}

/// Throws Error{resource_exhausted} when memory has no room for the context that was asked for, or
/// for none of the requests that the machine's context has room for.
void check_memory_of(const MachineModel& machine, const EngineOptions& asked,
                     const workload::Trace& trace) {
  int64_t tokens = asked.context;
  if (tokens == 0 && !trace.requests.empty()) {
    tokens = INT64_MAX;
    for (const workload::TraceRequest& request : trace.requests)
      tokens = std::min(tokens, request.prompt_tokens + request.output_tokens);
    if (tokens > machine.options.context) return;  // fails for its length, whatever the memory
  }
  const bool has_bytes = asked.kv_cache_bytes > 0;
  const std::string_view ways_out =
      asked.context > 0
          ? (has_bytes ? "lower --ctx or raise --kv-cache" : "lower --ctx or give a --kv-cache")
          : (has_bytes ? "raise --kv-cache" : "give a --kv-cache");
  check_memory(machine, tokens, asked.kv_cache_bytes, ways_out);
}

MachineModel find_machine(const SimulateOptions& options, const workload::Trace& trace) {
  MachineModel machine = read_machine(options);
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
  check_memory_of(machine, asked, trace);
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
  check_lengths(workload, "a simulation has no tokenizer to count them");
  const MachineModel machine = find_machine(options, workload.trace);
  const SimulatedReplay replayed = simulate_replay(machine, workload, options.workload);
  const workload::Statistics& statistics = replayed.statistics;
  const Simulation& simulation = replayed.simulation;

  int64_t concurrency = std::min<int64_t>(machine.options.max_batch, statistics.num_finished());
  if (workload.users > 0) concurrency = std::min(concurrency, workload.users);
  workload::BestCase best =
      workload_limit(machine.model, machine.ceilings, statistics, concurrency);
  best.is_open_loop = workload.users == 0;
  const double busy = simulation.busy_us / std::max(1.0, static_cast<double>(simulation.end_us));
  const double used = simulation.mean_blocks_used /
                      static_cast<double>(std::max<int64_t>(1, machine.options.num_kv_blocks));
  const double reusable = workload::reusable_fraction(workload.trace, replayed.answered);
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
  if (statistics.num_finished() == 0) return 1;
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
  return 0;
}

}  // namespace

void add_simulate(Command program) {
  const Command command = program.add(
      "simulate", "Predict latencies of a workload: the real scheduler, in virtual time");
  auto options = std::make_shared<SimulateOptions>();
  command.option("--machine NAME|FILE", options->machine,
                 "here (its measured ceilings), a100 or h200 (like those, by published peaks), or "
                 "a FILE that 'hasten bench replay --calibrate FILE' wrote (default: {})");
  command.option("--shape NAME", options->shape,
                 fmt::format("Model, unless a FILE has one: {} (default: {})",
                             fmt::join(weights::synth_shapes(), " "), kDefaultShape));
  command.option(
      "--type TYPE", options->type,
      fmt::format("Type of its weights, such as bf16, q8_0 or q4_0 (default: {})", kDefaultType));
  command.option("--efficiency F", options->efficiency, number_within(0.01, 1),
                 fmt::format("Fraction of the peaks that steps reach, unless a FILE has measured "
                             "them (default: {})",
                             kDefaultEfficiency));
  add_scheduling_flags(command, options->engine,
                       {.context = "the model's, at most 8192 here and 32768 on cards; that of a "
                                   "FILE",
                        .kv_cache = "what the weights leave; that of a FILE"});
  add_queue_flag(command, options->engine);
  add_workload_flags(command, options->workload);
  command.footer(
      "  hasten simulate --trace azure.csv --machine h200 --shape llama-3.1-8b --type bf16\n"
      "  hasten bench replay MODEL --trace azure.csv --requests 50 --calibrate here.json\n"
      "  hasten simulate --trace azure.csv --machine here.json --policy srtf");
  command.run([options] { return simulate(*options); });
}

}  // namespace hasten::cli
