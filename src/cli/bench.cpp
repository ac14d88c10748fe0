// SPDX-License-Identifier: Apache-2.0
// hasten bench: prefill and decode speed, with the machine's limit for the same work beside it.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/median.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "cli/words.h"
#include "hasten/machine.h"
#include "workload/prompts.h"

namespace hasten::cli {
namespace {

struct BenchOptions {
  EngineOptions engine;
  int64_t prompt = 512;
  int64_t gen = 64;
  std::vector<int64_t> batches{1};
  int32_t repeat = 5;
  bool json = false;
};

struct MachineOptions {
  int32_t threads = 0;
  bool json = false;
};

/// One test's speed, beside the limit that the machine had around it.
struct Round {
  double rate;  // tokens per second
  Limit limit;
  size_t num_readings = 0;  // of memory while it ran
};

struct Result {
  bool prefill = false;
  int64_t batch = 1;
  std::vector<Round> rounds{};

  template <class F>
  double median_of(F&& number) const {
    std::vector<double> values;
    values.reserve(rounds.size());
    for (const Round& round : rounds) values.push_back(number(round));
    return median(std::move(values));
  }
  double rate() const {
    return median_of([](const Round& round) { return round.rate; });
  }
  double limit() const {
    return median_of([](const Round& round) { return round.limit.tokens_per_second; });
  }
  double fraction() const { return median_of(fraction_of); }
  /// In most rounds.
  bool memory_bound() const {
    return median_of([](const Round& round) { return round.limit.memory_bound ? 1.0 : 0.0; }) > 0.5;
  }
  static double fraction_of(const Round& round) {
    return round.rate / round.limit.tokens_per_second;
  }
};

/// Runs `batch` equal requests at the same time and looks only at the stretch in which all of them
/// decode: from the moment that the last one has its first token until each has `gen` more.
class BatchRun {
 public:
  /// Now and then decoding waits while `meter`, if there is one, reads memory.
  BatchRun(Engine& engine, const BenchOptions& options, int64_t batch, uint64_t seed,
           CeilingMeter* meter = nullptr)
      : gen_(options.gen),
        meter_(meter),
        first_us_(static_cast<size_t>(batch)),
        later_(first_us_.size()) {
    std::vector<Request> requests;
    for (size_t i = 0; i < first_us_.size(); ++i) {
      Request request;
      request.prompt =
          workload::random_tokens(options.prompt, engine.model().vocab_size, seed * 4096 + i);
      request.sampling.temperature = 0;
      request.ignore_eos = true;
      request.max_tokens = engine.model().context - options.prompt;
      requests.push_back(std::move(request));
    }
    std::vector<Generation> generations;
    // No chunk is taken, so the engine cannot run ahead, before the last request is submitted.
    std::unique_lock lock(mutex_);
    const int64_t started = monotonic_us();
    for (size_t i = 0; i < requests.size(); ++i)
      generations.push_back(
          engine.submit(std::move(requests[i]), [this, i](const Chunk& chunk) { take(i, chunk); }));
    changed_.wait(lock, [&] { return done_ || !error_.empty(); });
    lock.unlock();
    for (Generation& generation : generations) generation.cancel();
    for (Generation& generation : generations) generation.wait();
    if (!error_.empty()) throw Error(ErrorCode::internal, error_);
    prefill_seconds_ = static_cast<double>(begin_us_ - started) * 1e-6;
    decode_seconds_ = static_cast<double>(end_us_ - begin_us_ - reading_us_) * 1e-6;
  }

  double prefill_seconds() const { return prefill_seconds_; }  // until every request has one token
  double decode_tokens_per_second() const {
    return static_cast<double>(counted_) / std::max(decode_seconds_, 1e-9);
  }
  /// Bytes per second of each reading.
  const std::vector<double>& readings() const { return readings_; }

 private:
  // Decoding for so long, then one reading: often enough to meet the same neighbours, seldom enough
  // that what it leaves behind, sleeping threads and caches without the model, costs little.
  static constexpr int64_t kReadEveryUs = 40'000;

  void take(size_t index, const Chunk& chunk) {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (chunk.finish != Finish::none) {
      error_ = chunk.finish == Finish::error
                   ? chunk.error
                   : "a request ended before the measurement did; give a larger --ctx";
      changed_.notify_all();
      return;
    }
    const int64_t now = monotonic_us();
    for (size_t i = 0; i < chunk.tokens.size(); ++i) {
      if (first_us_[index] == 0) {
        first_us_[index] = now;
        if (++started_ == first_us_.size()) begin_us_ = now;
      } else if (begin_us_ != 0) {
        ++counted_;
        if (++later_[index] == gen_ && ++finished_ == later_.size()) {
          end_us_ = now;
          done_ = true;
          changed_.notify_all();
        }
      }
    }
    if (meter_ != nullptr && begin_us_ != 0 && !done_) read_if_due(now);
  }

  /// The engine, whose thread this is, waits meanwhile: nobody else has requests.
  void read_if_due(int64_t now) {
    if (now - std::max(begin_us_, read_us_) < kReadEveryUs) return;
    readings_.push_back(meter_->read_bytes_per_second());
    read_us_ = monotonic_us();
    reading_us_ += read_us_ - now;
  }

  const int64_t gen_;
  CeilingMeter* const meter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> first_us_;  // of each request's first token; 0: none yet
  std::vector<int64_t> later_;     // tokens of each request after begin_us_
  size_t started_ = 0;
  size_t finished_ = 0;
  int64_t begin_us_ = 0;
  int64_t end_us_ = 0;
  int64_t counted_ = 0;
  int64_t read_us_ = 0;     // when the last reading ended
  int64_t reading_us_ = 0;  // that all of them took
  std::vector<double> readings_;
  bool done_ = false;
  std::string error_;
  double prefill_seconds_ = 0;
  double decode_seconds_ = 0;
};

json::Object to_json(const Result& result, const BenchOptions& options) {
  json::Array fractions;
  size_t num_readings = 0;
  for (const Round& round : result.rounds) {
    fractions.push_back(Result::fraction_of(round));
    num_readings += round.num_readings;
  }
  return {{"test", result.prefill ? "prefill" : "decode"},
          {"batch", result.batch},
          {"prompt", options.prompt},
          {"gen", result.prefill ? 0 : options.gen},
          {"tokens_per_second", result.rate()},
          {"limit_tokens_per_second", result.limit()},
          {"fraction", result.fraction()},
          {"fractions", std::move(fractions)},
          {"memory_readings", static_cast<int64_t>(num_readings)},
          {"bound", result.memory_bound() ? "memory" : "compute"},
          {"bytes_per_token", result.rounds.back().limit.bytes_per_token},
          {"operations_per_token", result.rounds.back().limit.ops_per_token}};
}

json::Object to_json(const Ceilings& ceilings, int32_t threads) {
  return {{"threads", threads},
          {"read_bytes_per_second", ceilings.read_bytes_per_second},
          {"best_read_bytes_per_second", ceilings.best_read_bytes_per_second},
          {"int8_ops_per_second", ceilings.int8_ops_per_second},
          {"int4_ops_per_second", ceilings.int4_ops_per_second},
          {"bf16_flops_per_second", ceilings.bf16_flops_per_second},
          {"f32_flops_per_second", ceilings.f32_flops_per_second}};
}

void print_machine(const Ceilings& ceilings, const Machine& machine, int32_t threads) {
  fmt::print(
      "{}, {}, {} threads: read {:.1f} GB/s ({:.1f} at best), int8 {:.0f} Gop/s, int4 {:.0f} "
      "Gop/s, bf16 {:.0f} Gflop/s, f32 {:.0f} Gflop/s\n",
      machine.cpu, machine.isa, threads, ceilings.read_bytes_per_second * 1e-9,
      ceilings.best_read_bytes_per_second * 1e-9, ceilings.int8_ops_per_second * 1e-9,
      ceilings.int4_ops_per_second * 1e-9, ceilings.bf16_flops_per_second * 1e-9,
      ceilings.f32_flops_per_second * 1e-9);
}

/// Each number as `of(its member)` has it.
template <class F>
Ceilings combined(F&& of) {
  return {.read_bytes_per_second = of(&Ceilings::read_bytes_per_second),
          .best_read_bytes_per_second = of(&Ceilings::best_read_bytes_per_second),
          .int8_ops_per_second = of(&Ceilings::int8_ops_per_second),
          .int4_ops_per_second = of(&Ceilings::int4_ops_per_second),
          .bf16_flops_per_second = of(&Ceilings::bf16_flops_per_second),
          .f32_flops_per_second = of(&Ceilings::f32_flops_per_second)};
}

/// The mean of two measurements, of the times that work takes: what the machine could do between
/// them.
Ceilings between(const Ceilings& a, const Ceilings& b) {
  return combined([&](double Ceilings::*number) {
    return a.*number > 0 && b.*number > 0 ? 2 / (1 / (a.*number) + 1 / (b.*number)) : 0;
  });
}

/// That of all readings together: the mean of the times they take, of which those around the work
/// are one.
double mean_rate(double around, const std::vector<double>& rates) {
  double times = 1 / around;
  for (const double rate : rates) times += 1 / rate;
  return static_cast<double>(rates.size() + 1) / times;
}

/// The median of each number.
Ceilings median_of(const std::vector<Ceilings>& all) {
  return combined([&](double Ceilings::*number) {
    std::vector<double> values;
    values.reserve(all.size());
    for (const Ceilings& ceilings : all) values.push_back(ceilings.*number);
    return median(std::move(values));
  });
}

int bench_model(BenchOptions& options) {
  log::set_level(log::Level::warn);
  check_model(options.engine.model);
  show_progress(options.engine);
  const Machine machine = describe_machine();
  const int32_t threads = options.engine.threads > 0 ? options.engine.threads : machine.num_threads;
  const int64_t largest = *std::max_element(options.batches.begin(), options.batches.end());
  if (options.engine.max_batch == 0) {
    options.engine.max_batch = static_cast<int32_t>(std::max<int64_t>(largest, 8));
  }
  if (options.engine.context == 0) {
    // The first request goes on decoding while the last one's prompt is read: at most one token
    // for each step that the prompts take, and a step holds at least 64 of their tokens.
    options.engine.context = options.prompt + 2 * options.gen + largest * options.prompt / 64 + 16;
  }
  options.engine.pretouch = true;  // new pages are part of no token's cost
  Engine engine(options.engine);
  const ModelInfo& model = engine.model();
  if (largest > model.max_batch) {
    fail_param("batch",
               "--batch is {}, but only {} requests run at the same time: raise --max-batch",
               largest, model.max_batch);
  }

  std::vector<Result> results;
  const BatchRun warm_up(engine, options, 1, 1);  // warm-up: pages in the weights
  // Neighbours come and go: the limit of a round is what was measured right before and after it,
  // and of memory meanwhile, too. The engine has its memory already, as without a meter.
  CeilingMeter meter(threads);
  std::vector<Ceilings> measured{meter.measure()};
  ProgressBar bar;
  int64_t done = 0;
  for (const int64_t batch : options.batches) {
    Result prefill{.prefill = true, .batch = batch};
    Result decode{.batch = batch};
    for (int32_t round = 0; round < options.repeat; ++round) {
      const BatchRun run(engine, options, batch, static_cast<uint64_t>(round + 2), &meter);
      const Ceilings before = measured.back();
      measured.push_back(meter.measure());
      const Ceilings ceilings = between(before, measured.back());
      Ceilings meanwhile = ceilings;
      meanwhile.read_bytes_per_second = mean_rate(ceilings.read_bytes_per_second, run.readings());
      prefill.rounds.push_back({static_cast<double>(options.prompt) / run.prefill_seconds(),
                                prefill_limit(model, ceilings, options.prompt)});
      decode.rounds.push_back(
          {run.decode_tokens_per_second(),
           decode_limit(model, meanwhile, batch, options.prompt + options.gen / 2),
           run.readings().size()});
      bar.show("bench", static_cast<double>(++done) / static_cast<double>(options.repeat) /
                            static_cast<double>(options.batches.size()));
    }
    // With several requests, decodes mix with the later prompts: only one alone is pure prefill.
    if (batch == 1) results.push_back(std::move(prefill));
    results.push_back(std::move(decode));
  }
  const Ceilings ceilings = median_of(measured);

  if (options.json) {
    json::Array list;
    for (const Result& result : results) list.push_back(to_json(result, options));
    json::Object machine_json = to_json(ceilings, threads);
    machine_json["cpu"] = machine.cpu;
    machine_json["isa"] = machine.isa;
    fmt::print("{}\n", json_text(json::Object{
                           {"machine", std::move(machine_json)},
                           {"model", json::Object{{"name", model.name},
                                                  {"family", model.family},
                                                  {"weight_types", model.weight_types},
                                                  {"parameters", model.num_parameters},
                                                  {"bytes_per_token", model.bytes_per_token},
                                                  {"operations_per_token", model.ops_per_token}}},
                           {"results", std::move(list)}}));
    return 0;
  }
  print_machine(ceilings, machine, threads);
  fmt::print("{}: {}, {} parameters, {} read and {} operations per token\n\n", model.name,
             model.weight_types, count_text(model.num_parameters), size_text(model.bytes_per_token),
             count_text(model.ops_per_token));
  fmt::print("{:<8} {:>6} {:>7} {:>5} {:>12} {:>12} {:>9}  {}\n", "test", "batch", "prompt", "gen",
             "tokens/s", "limit", "fraction", "bound by");
  for (const Result& result : results) {
    fmt::print("{:<8} {:>6} {:>7} {:>5} {:>12.1f} {:>12.1f} {:>7.0f} %  {}\n",
               result.prefill ? "prefill" : "decode", result.batch, options.prompt,
               result.prefill ? 0 : options.gen, result.rate(), result.limit(),
               100 * result.fraction(), result.memory_bound() ? "memory" : "compute");
  }
  if (std::any_of(results.begin(), results.end(),
                  [](const Result& result) { return result.fraction() > 1; })) {
    fmt::print(
        "\nAbove 100 %: the machine was busier while the limit was measured (then measure again),\n"
        "or the weights are read from its caches, which are faster than the memory.\n");
  }
  return 0;
}

/// Ceilings of a number of threads.
struct ThreadCeilings {
  int32_t threads = 1;
  Ceilings ceilings;
  double barrier_us = 0;
};

int bench_machine(const MachineOptions& options) {
  const Machine machine = describe_machine();
  const int32_t most = options.threads > 0 ? options.threads : machine.num_threads;
  std::vector<ThreadCeilings> rows;
  ProgressBar bar;
  for (int32_t threads = 1;; threads = std::min(2 * threads, most)) {
    CeilingMeter meter(threads);
    rows.push_back({threads, meter.measure(), meter.barrier_us()});
    bar.show("bench", static_cast<double>(threads) / most);
    if (threads == most) break;
  }
  if (options.json) {
    json::Object all = to_json(rows.back().ceilings, most);
    json::Array list;
    for (const ThreadCeilings& row : rows) {
      json::Object object = to_json(row.ceilings, row.threads);
      object["barrier_us"] = row.barrier_us;
      list.push_back(std::move(object));
    }
    all["barrier_us"] = rows.back().barrier_us;
    all["by_threads"] = std::move(list);
    fmt::print("{}\n", json_text(all));
    return 0;
  }
  fmt::print("{}, {}\n\n{:>7}  {:>9}  {:>7}  {:>10}  {:>10}  {:>12}  {:>12}  {:>7}\n", machine.cpu,
             machine.isa, "threads", "read GB/s", "at best", "int8 Gop/s", "int4 Gop/s",
             "bf16 Gflop/s", "f32 Gflop/s", "barrier");
  for (const ThreadCeilings& row : rows) {
    const Ceilings& ceilings = row.ceilings;
    fmt::print(
        "{:>7}  {:>9.1f}  {:>7.1f}  {:>10.0f}  {:>10.0f}  {:>12.0f}  {:>12.0f}  {:>4.2f} us\n",
        row.threads, ceilings.read_bytes_per_second * 1e-9,
        ceilings.best_read_bytes_per_second * 1e-9, ceilings.int8_ops_per_second * 1e-9,
        ceilings.int4_ops_per_second * 1e-9, ceilings.bf16_flops_per_second * 1e-9,
        ceilings.f32_flops_per_second * 1e-9, row.barrier_us);
  }
  return 0;
}

void add_bench_machine(Command bench) {
  const Command command = bench.add(
      "machine",
      "Measure the ceilings alone: memory bandwidth, arithmetic peaks and the threads' barrier");
  auto options = std::make_shared<MachineOptions>();
  add_threads_flag(command, options->threads);
  command.flag("--json", options->json, "Print one JSON object");
  command.run([options] { return bench_machine(*options); });
}

}  // namespace

void add_bench(Command program) {
  const Command command = program.add("bench", "Measure speed, with the machine's limit beside it");
  auto options = std::make_shared<BenchOptions>();
  add_engine_flags(command, options->engine);
  command.option("--prompt N", options->prompt, whole_number(1, 1 << 20),
                 "Tokens of each prompt (default: {})");
  command.option("--gen N", options->gen, whole_number(1, 1 << 20),
                 "Tokens to decode for each request (default: {})");
  command.option("--batch LIST", options->batches, whole_number(1, 4096),
                 "Requests at the same time, such as 1,8,32 (default: {})");
  command.option(
      "--repeat N", options->repeat, whole_number(1, 1000),
      "Rounds, each beside the limit that the machine has around it; medians are reported "
      "(default: {})");
  command.flag("--json", options->json, "Print one JSON object");
  add_bench_replay(command);
  add_bench_serve(command);
  add_bench_ladder(command);
  add_bench_load(command);
  add_bench_machine(command);
  // Last, or else commands below would repeat it.
  command.footer(
      "Without --ctx, the context is prompt + 2 × gen + batch × prompt / 64 + 16 tokens: the\n"
      "first request goes on decoding while the prompts of the others are read. All memory of\n"
      "steps and for keys and values is there before anything is measured, as --pretouch has it\n"
      "elsewhere. Decoding stops every 40 ms to read memory, which is not counted: that is the\n"
      "limit it had.");
  command.run([options] { return bench_model(*options); });
}

}  // namespace hasten::cli
