// SPDX-License-Identifier: Apache-2.0
// hasten bench ladder: one workload with the ideas of serving switched on one after the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/ladder.h"
#include "cli/machine_model.h"
#include "cli/model_file.h"
#include "cli/progress.h"
#include "cli/replay.h"
#include "cli/roofline.h"
#include "cli/simulated_replay.h"
#include "cli/words.h"
#include "cli/workload_flags.h"
#include "hasten/machine.h"
#include "tensor/dtype.h"
#include "tensor/kv_types.h"
#include "weights/synth/shapes.h"

namespace hasten::cli {
namespace {

struct LadderOptions {
  EngineOptions engine;
  std::filesystem::path quantized;  // empty: no rung of quantised weights
  std::string quantized_kv = "q8_0";
  std::string simulate;  // a machine; empty: the engine of this process
  // Of a simulation; empty and 0: the defaults below.
  std::string shape;
  std::string type;
  std::string quantized_type;
  double efficiency = 0;
  int32_t kv_contexts = 0;  // that the memory holds; 0: the defaults
  int32_t rounds = 1;
  WorkloadOptions workload;
};

constexpr std::string_view kDefaultShape = "llama-3.1-8b";
constexpr std::string_view kDefaultType = "bf16";
constexpr std::string_view kDefaultQuantizedType = "q4_0";

std::string_view or_default(std::string_view text, std::string_view otherwise) {
  return text.empty() ? otherwise : text;
}

/// Types of keys and values on the last rung.
std::pair<DType, DType> quantized_kv_types(const LadderOptions& options) {
  return kv_types_from_name(options.quantized_kv, DType::bf16, "--quantized-kv");
}

/// Throws Error{invalid_argument} where a head's keys or values are no whole blocks of their type.
void check_kv_blocks(const LadderOptions& options, int64_t head_dim) {
  const auto [keys, values] = quantized_kv_types(options);
  for (const DType type : {keys, values})
    if (head_dim % info(type).block_size != 0)
      fail_param("quantized_kv",
                 "--quantized-kv {} has blocks of {} elements, but keys and values of a head have "
                 "{}: choose f32, f16, bf16 or fp8",
                 options.quantized_kv, info(type).block_size, head_dim);
}

/// Of a simulation whose memory does not hold one context.
std::string_view ways_out(const LadderOptions& options) {
  if (options.engine.kv_cache_bytes > 0) return "lower --ctx or raise --kv-cache";
  if (options.kv_contexts > 0) return "lower --ctx: no more can be simulated";
  return "lower --ctx, or take a --type of fewer bits or a smaller --shape";
}

/// Refuses flags that a simulation, or the engine, would not look at.
void check_flags(const LadderOptions& options) {
  struct Flag {
    std::string_view name;
    bool is_given;
  };
  (void)quantized_kv_types(options);
  if (options.kv_contexts > 0 && options.engine.kv_cache_bytes > 0)
    fail_param("kv_contexts",
               "--kv-contexts and --kv-cache both say how much memory keys and values have: give "
               "one of them");
  if (options.simulate.empty()) {
    for (const Flag& flag :
         {Flag{"--shape", !options.shape.empty()}, Flag{"--type", !options.type.empty()},
          Flag{"--quantized-type", !options.quantized_type.empty()},
          Flag{"--efficiency", options.efficiency > 0}})
      if (flag.is_given)
        fail_param("simulate", "{} is of simulations: add --simulate MACHINE, or leave it out",
                   flag.name);
    return;
  }
  if (!options.engine.model.empty())
    fail_param("model",
               "a simulation reads no MODEL, and {} is one: name its model with --shape, or leave "
               "out --simulate",
               options.engine.model.string());
  if (!options.quantized.empty())
    fail_param("quantized",
               "a simulation reads no --quantized MODEL: give --quantized-type TYPE, or leave out "
               "--simulate");
  if (options.engine.threads > 0)
    fail_param("threads", "--threads is of the engine of this process: leave out it or --simulate");
}

/// What a rung met with.
struct Outcome {
  Rung rung;
  Prediction prediction = {};
  workload::Statistics statistics{};
  int64_t preemptions = 0;
  double kv_unused = 0;  // of the memory set aside for sequences, over the time in steps
};

/// Memory that sequences were given, over the time that steps took, but for the first ones.
class KvUse {
 public:
  explicit KvUse(int64_t num_left_out) : num_left_out_(num_left_out) {}

  void add(const StepRecord& step) {
    if (num_left_out_ > 0) {
      --num_left_out_;
      return;
    }
    const auto time = static_cast<double>(step.duration_us);
    allocated_ += time * static_cast<double>(step.kv_tokens_allocated);
    used_ += time * static_cast<double>(step.kv_tokens_used);
  }
  double unused_fraction() const { return allocated_ > 0 ? 1 - used_ / allocated_ : 0; }

 private:
  int64_t num_left_out_;
  double allocated_ = 0;  // token microseconds
  double used_ = 0;
};

/// Contexts that the memory of this process's engine holds, unless a flag says how much.
constexpr int64_t kDefaultKvContexts = 4;

/// Runs rungs through the engine of this process.
class RealLadder {
 public:
  RealLadder(const LadderOptions& options, const Workload& workload, const WorkloadShape& shape)
      : options_(options), workload_(workload), shape_(shape) {
    check_model(options.engine.model);
    check_model(options.quantized);
    const auto model = open_model_file(options.engine.model);
    check_kv_blocks(options, head_dim_of(*model));
    if (!options.quantized.empty()) check_same_model(*model, *open_model_file(options.quantized));
    const Machine machine = describe_machine();
    machine_ = machine.cpu;
    const int32_t threads =
        options.engine.threads > 0 ? options.engine.threads : machine.num_threads;
    ceilings_ = measure_ceilings(threads);
    base_ = options.engine;
    base_.max_queue = std::ssize(workload.trace.requests);
    if (base_.context == 0) base_.context = workload.longest + 1;
    base_.context = ceil_to_block(base_.context);
    if (base_.max_batch == 0) base_.max_batch = 32;
    if (base_.kv_cache_bytes == 0) {
      EngineOptions probe = base_;
      probe.kv_cache_bytes = 0;
      probe.max_batch = 1;
      const int64_t contexts = options.kv_contexts > 0 ? options.kv_contexts : kDefaultKvContexts;
      base_.kv_cache_bytes = contexts * base_.context * load(probe)->model().kv_bytes_per_token;
    }
  }

  std::string basis() const { return machine_; }

  Outcome run(const Rung& rung) {
    EngineOptions engine_options = base_;
    engine_options.batching = rung.batching;
    engine_options.reserve_context = rung.reserve_context;
    engine_options.chunked_prefill = rung.chunked_prefill;
    engine_options.prefix_cache = rung.prefix_cache;
    if (!rung.chunked_prefill)
      engine_options.step_tokens = std::max<int64_t>(base_.context, base_.max_batch);
    if (rung.quantized_weights) engine_options.model = options_.quantized;
    if (rung.quantized_kv) engine_options.kv_type = options_.quantized_kv;
    KvUse use(kNumWarmUpSteps);  // of the engine's thread until it has gone
    engine_options.on_step = [&use](const StepRecord& step) { use.add(step); };
    Outcome outcome{.rung = rung};
    {
      const std::unique_ptr<Engine> loaded = load(engine_options);
      Engine& engine = *loaded;
      outcome.prediction = predict({.rung = rung,
                                    .model = engine.model(),
                                    .ceilings = ceilings_,
                                    .block_size = engine_options.block_size},
                                   shape_);
      warm_up(engine);
      outcome.statistics = replay(engine, workload_, options_.workload);
      outcome.preemptions = engine.stats().preemptions;
    }
    outcome.kv_unused = use.unused_fraction();
    return outcome;
  }

 private:
  /// What is doubtful of a model is said when it is loaded first.
  std::unique_ptr<Engine> load(EngineOptions options) {
    const bool is_new = loaded_.insert(options.model).second;
    show_progress(options);
    log::set_level(is_new ? log::Level::warn : log::Level::error);
    auto engine = std::make_unique<Engine>(options);
    log::set_level(log::Level::warn);
    return engine;
  }

  int64_t ceil_to_block(int64_t tokens) const {
    const int64_t block = std::max<int32_t>(1, base_.block_size);
    return (tokens + block - 1) / block * block;
  }

  const LadderOptions& options_;
  const Workload& workload_;
  const WorkloadShape& shape_;
  std::string machine_;
  Ceilings ceilings_;
  EngineOptions base_;
  std::set<std::filesystem::path> loaded_;
};

/// Runs rungs through the scheduler in virtual time.
class SimulatedLadder {
 public:
  SimulatedLadder(const LadderOptions& options, const Workload& workload,
                  const WorkloadShape& shape)
      : options_(options),
        workload_(workload),
        shape_(shape),
        plain_(machine_with("--type", or_default(options.type, kDefaultType))),
        quantized_(machine_with("--quantized-type",
                                or_default(options.quantized_type, kDefaultQuantizedType))) {
    check_kv_blocks(options, weights::synthetic::find_shape(shape_name()).head_dim);
    for (const Rung& rung : ladder_rungs(/*with_quantized_weights=*/true)) {
      const MachineModel machine = machine_of(rung);
      const int64_t asked = options.engine.kv_cache_bytes;
      check_memory(machine, machine.options.context, asked, ways_out(options));
    }
  }

  std::string basis() const {
    return fmt::format("SIMULATED: {}, {}, steps cost {}", plain_.model.name, plain_.machine,
                       plain_.basis);
  }

  Outcome run(const Rung& rung) const {
    const MachineModel machine = machine_of(rung);
    KvUse use(0);
    Outcome outcome{.rung = rung};
    outcome.prediction = predict({.rung = rung,
                                  .model = machine.model,
                                  .ceilings = machine.ceilings,
                                  .block_size = machine.options.block_size},
                                 shape_);
    SimulatedReplay replayed = simulate_replay(machine, workload_, options_.workload,
                                               [&use](const StepRecord& step) { use.add(step); });
    outcome.statistics = std::move(replayed.statistics);
    outcome.preemptions = replayed.simulation.preemptions;
    outcome.kv_unused = use.unused_fraction();
    return outcome;
  }

 private:
  std::string_view shape_name() const { return or_default(options_.shape, kDefaultShape); }

  MachineModel machine_with(std::string_view type_flag, std::string_view type) const {
    return peak_machine(
        {.machine = options_.simulate,
         .shape = shape_name(),
         .type = type,
         .efficiency = options_.efficiency > 0 ? options_.efficiency : kDefaultEfficiency,
         .machine_flag = "--simulate",
         .type_flag = type_flag});
  }

  /// Bytes of keys and values on the last rung for each byte of bf16.
  double quantized_kv_share() const {
    const auto [keys, values] = quantized_kv_types(options_);
    const auto bytes = [](DType type) {  // of an element
      return static_cast<double>(info(type).block_bytes) / info(type).block_size;
    };
    return (bytes(keys) + bytes(values)) / (2 * bytes(DType::bf16));
  }

  /// Blocks of so many contexts, or one more than can be simulated, which is refused as such.
  static int64_t blocks_of(int64_t contexts, const SimulatorOptions& sizes) {
    constexpr int64_t kTooMany = kMaxSimulatedKvBlocks + 1;
    const int64_t blocks = ceil_div(sizes.context, sizes.block_size);
    return std::min(checked_mul(contexts, blocks).value_or(kTooMany), kTooMany);
  }

  MachineModel machine_of(const Rung& rung) const {
    MachineModel machine = rung.quantized_weights ? quantized_ : plain_;
    SimulatorOptions& sizes = machine.options;
    ModelInfo& model = machine.model;
    const EngineOptions& asked = options_.engine;
    if (asked.max_batch > 0) sizes.max_batch = asked.max_batch;
    if (asked.step_tokens > 0) sizes.step_tokens = asked.step_tokens;
    sizes.context = asked.context > 0 ? asked.context : workload_.longest + 1;
    if (asked.kv_cache_bytes > 0)
      sizes.num_kv_blocks = asked.kv_cache_bytes / (model.kv_bytes_per_token * sizes.block_size);
    else if (options_.kv_contexts > 0)
      sizes.num_kv_blocks = blocks_of(options_.kv_contexts, sizes);
    if (rung.quantized_kv) {
      const double share = quantized_kv_share();
      sizes.num_kv_blocks = static_cast<int64_t>(static_cast<double>(sizes.num_kv_blocks) / share);
      sizes.costs.us_per_key_read *= share;
      model.kv_bytes_per_token =
          static_cast<int64_t>(static_cast<double>(model.kv_bytes_per_token) * share);
    }
    sizes.batching = rung.batching.empty() ? sizes.batching : std::string(rung.batching);
    sizes.reserve_context = rung.reserve_context;
    sizes.chunked_prefill = rung.chunked_prefill;
    sizes.prefix_cache = rung.prefix_cache;
    if (!rung.chunked_prefill)
      sizes.step_tokens = std::max(sizes.context, int64_t{sizes.max_batch});
    model.max_batch = sizes.max_batch;
    model.context = sizes.context;
    model.step_tokens = sizes.step_tokens;
    model.num_kv_blocks = sizes.num_kv_blocks;
    return machine;
  }

  const LadderOptions& options_;
  const Workload& workload_;
  const WorkloadShape& shape_;
  const MachineModel plain_;
  const MachineModel quantized_;
};

double seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }

/// How many times as much as `before`; 1 where there is nothing to compare with.
double gain(double now, double before) { return before > 0 ? now / before : 1; }

double predicted_gain(const Outcome& outcome, const Outcome* before) {
  if (before == nullptr) return 1;
  return gain(outcome.prediction.tokens_per_second, before->prediction.tokens_per_second);
}

double measured_gain(const Outcome& outcome, const Outcome* before) {
  if (before == nullptr) return 1;
  return gain(outcome.statistics.output_tokens_per_second(),
              before->statistics.output_tokens_per_second());
}

/// Tokens a second of each round, ascending.
json::Array speeds_of(const std::vector<Outcome>& rounds) {
  std::vector<double> speeds;
  speeds.reserve(rounds.size());
  for (const Outcome& outcome : rounds)
    speeds.push_back(outcome.statistics.output_tokens_per_second());
  std::ranges::sort(speeds);
  json::Array list;
  for (const double speed : speeds) list.push_back(speed);
  return list;
}

json::Object to_json(const Outcome& outcome, const Outcome* before, json::Array speeds) {
  return {{"rung", outcome.rung.name},
          {"reason", outcome.prediction.reason},
          {"sequences_at_a_time", outcome.prediction.concurrency},
          {"predicted_gain", predicted_gain(outcome, before)},
          {"gain", measured_gain(outcome, before)},
          {"tokens_per_second_of_rounds", std::move(speeds)},
          {"kv_unused_fraction", outcome.kv_unused},
          {"preemptions", outcome.preemptions},
          {"result", outcome.statistics.to_json()}};
}

void print_header() {
  fmt::print("{:<23} {:>9} {:>7} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9}\n", "", "predicted", "gain",
             "tokens/s", "p50 s", "p99 s", "TTFT p99", "TBT p99", "KV unused");
}

/// Of all rounds: what is left out of the figures is said beside them, and why.
void print_failures(const std::vector<Outcome>& rounds) {
  int64_t failed = 0;
  std::map<std::string, int64_t> kinds;
  for (const Outcome& outcome : rounds) {
    failed += outcome.statistics.num_failed();
    for (const auto& [kind, count] : outcome.statistics.failures()) kinds[kind] += count;
  }
  if (failed == 0) return;
  std::vector<std::string> reasons;
  reasons.reserve(kinds.size());
  for (const auto& [kind, count] : kinds) reasons.push_back(fmt::format("{} ({})", kind, count));
  fmt::print("  {} failed{}: {}\n", counted(failed, "request"),
             rounds.size() > 1 ? fmt::format(" in {} rounds", rounds.size()) : "",
             fmt::join(reasons, ", "));
}

void print_row(const Outcome& outcome, const Outcome* before) {
  const workload::Statistics& seen = outcome.statistics;
  if (seen.num_finished() == 0) {
    fmt::print("{:<23} nothing answered\n", outcome.rung.name);
    return;
  }
  fmt::print(
      "{:<23} {:>8.2f}x {:>6.2f}x {:>9.1f} {:>8.2f} {:>8.2f} {:>7.2f} s {:>6.0f} ms {:>7.1f} %\n",
      outcome.rung.name, predicted_gain(outcome, before), measured_gain(outcome, before),
      seen.output_tokens_per_second(), seconds(seen.e2e_us().quantile(0.5)),
      seconds(seen.e2e_us().quantile(0.99)), seconds(seen.ttft_us().quantile(0.99)),
      1e3 * seconds(seen.tbt_us().quantile(0.99)), 100 * outcome.kv_unused);
  fmt::print("  {}\n", outcome.prediction.reason);
}

/// That of the rounds' outcomes with the median of tokens a second, of an even number the lower.
const Outcome& median_of(std::vector<Outcome>& rounds) {
  const auto middle = rounds.begin() + (std::ssize(rounds) - 1) / 2;
  std::ranges::nth_element(rounds, middle, {}, [](const Outcome& outcome) {
    return outcome.statistics.output_tokens_per_second();
  });
  return *middle;
}

/// Climbs as often as asked, so that what disturbs the machine for a while is not taken for what a
/// rung is worth.
template <class Ladder>
int climb(Ladder ladder, const LadderOptions& options, const Workload& workload) {
  const bool with_weights = !options.quantized.empty() || !options.simulate.empty();
  const std::vector<Rung> rungs = ladder_rungs(with_weights);
  const bool is_text = !options.workload.json;
  if (is_text) {
    fmt::print("{}\n{}\n", ladder.basis(), describe(options.workload, workload));
    if (options.rounds > 1)
      fmt::print("of {} rounds, for each rung the one with the median of tokens/s\n",
                 options.rounds);
    fmt::print("\n");
    print_header();
  }
  std::vector<std::vector<Outcome>> outcomes(rungs.size());  // by rung and round
  std::vector<const Outcome*> medians(rungs.size());
  json::Array list;
  ProgressBar progress;
  for (int32_t round = 1; round <= options.rounds; ++round) {
    for (size_t i = 0; i < rungs.size(); ++i) {
      if (round < options.rounds)
        progress.show(fmt::format("round {} of {}: {}", round, options.rounds, rungs[i].name),
                      static_cast<double>(i) / static_cast<double>(rungs.size()));
      outcomes[i].push_back(ladder.run(rungs[i]));
      if (round < options.rounds) continue;
      progress.show("", 1);
      medians[i] = &median_of(outcomes[i]);
      const Outcome* before = i > 0 ? medians[i - 1] : nullptr;
      if (!is_text) {
        list.push_back(to_json(*medians[i], before, speeds_of(outcomes[i])));
        continue;
      }
      print_row(*medians[i], before);
      print_failures(outcomes[i]);
      std::fflush(stdout);
    }
  }
  const Outcome& first = *medians.front();
  const Outcome& last = *medians.back();
  if (!is_text) {
    fmt::print("{}\n", json_text(json::Object{{"workload", to_json(options.workload, workload)},
                                              {"basis", ladder.basis()},
                                              {"simulated", !options.simulate.empty()},
                                              {"rungs", std::move(list)}}));
    return last.statistics.num_finished() > 0 ? 0 : 1;
  }
  fmt::print("speculation             not there yet\n");
  if (!with_weights) fmt::print("quantised weights       left out: --quantized MODEL adds them\n");
  if (first.statistics.num_finished() > 0 && last.statistics.num_finished() > 0)
    fmt::print("\nFrom the first rung to the last: {:.2f} times the tokens, p99 {:+.0f} %\n",
               measured_gain(last, &first),
               100 * (gain(static_cast<double>(last.statistics.e2e_us().quantile(0.99)),
                           static_cast<double>(first.statistics.e2e_us().quantile(0.99))) -
                      1));
  return last.statistics.num_finished() > 0 ? 0 : 1;
}

int bench_ladder(const LadderOptions& options) {
  log::set_level(log::Level::warn);
  check_flags(options);
  const Workload workload = load_workload(options.workload);
  check_lengths(workload, "the ladder's arithmetic needs lengths");
  const WorkloadShape shape = shape_of(workload.trace);
  if (options.simulate.empty())
    return climb(RealLadder(options, workload, shape), options, workload);
  return climb(SimulatedLadder(options, workload, shape), options, workload);
}

}  // namespace

void add_bench_ladder(Command bench) {
  const Command command = bench.add(
      "ladder", "Switch on batching, paging, chunks, prefix reuse, quantisation, one by one");
  auto options = std::make_shared<LadderOptions>();
  EngineOptions& engine = options->engine;
  command.option("model MODEL", engine.model, "As for bench: a .gguf file or a folder");
  command.option("--quantized MODEL", options->quantized,
                 "The same model in fewer bits, for the rung of quantised weights");
  command.option("--quantized-kv TYPE", options->quantized_kv,
                 "How the last rung keeps keys and values: see --kv-type of bench (default: {})");
  add_threads_flag(command, engine.threads);
  add_size_flags(command, engine,
                 {.context = "the trace's longest request, --requests or not",
                  .kv_cache = "that of four contexts; simulated: what the weights leave"});
  command.option("--kv-contexts N", options->kv_contexts, whole_number(1, 1024),
                 "Memory for keys and values of so many contexts: how scarce it is decides what\n"
                 "paging is worth (default: as of --kv-cache)");
  command.option("--simulate NAME", options->simulate,
                 "In virtual time on a machine of 'hasten simulate': here, a100 or h200");
  command.option(
      "--shape NAME", options->shape,
      fmt::format("Model of the simulation, as synth names them (default: {})", kDefaultShape));
  command.option("--type TYPE", options->type,
                 fmt::format("Type of its weights (default: {})", kDefaultType));
  command.option("--quantized-type TYPE", options->quantized_type,
                 fmt::format("Type of its weights where they are quantised (default: {})",
                             kDefaultQuantizedType));
  command.option("--efficiency F", options->efficiency, number_within(0.01, 1),
                 fmt::format("Fraction of the peaks that simulated steps reach (default: {})",
                             kDefaultEfficiency));
  command.option("--rounds N", options->rounds, whole_number(1, 99),
                 "Climb so many times and show medians: a machine is not alike from minute to\n"
                 "minute (default: {})");
  add_workload_flags(command, options->workload);
  command.footer(
      "Every rung has the same memory for keys and values: --kv-cache, or --kv-contexts, or that\n"
      "of four contexts (simulated: what its weights leave of the machine's). The context is\n"
      "--ctx, or the longest request of the whole trace, of which --requests may take a part:\n"
      "who serves such traffic promises that much to each. What ends in a static batch is\n"
      "delivered at once; its place stays empty. Predictions are by arithmetic on mean lengths\n"
      "and ceilings.\n"
      "  hasten bench ladder MODEL --quantized MODEL-q4 --trace azure.csv --requests 64\n"
      "      --scale-lengths 0.125 --speed 4\n"
      "  hasten bench ladder --simulate h200 --shape llama-3.1-8b --trace azure.csv");
  command.run([options] { return bench_ladder(*options); });
}

}  // namespace hasten::cli
