// SPDX-License-Identifier: Apache-2.0
// Flags of workloads, and what they mean together.
#include "cli/workload_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"
#include "cli/command.h"

namespace hasten::cli {
namespace {

constexpr int64_t kDefaultRequests = 100;
constexpr int64_t kDefaultUsers = 8;

}  // namespace

void add_workload_flags(CLI::App& command, WorkloadOptions& options) {
  command
      .add_option("--trace", options.trace,
                  "Requests with times and lengths: Azure's CSV, Mooncake's JSON lines, or lines "
                  "of our own (docs/benchmarking.md); left out: requests of equal lengths")
      ->type_name("FILE");
  command.add_option("--prompt", options.prompt, "Tokens of each prompt, without a trace")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 24))
      ->type_name("N");
  command
      .add_option("--gen", options.gen,
                  "Tokens to generate for each request, where no trace says how many")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 24))
      ->type_name("N");
  command
      .add_option("--requests", options.requests,
                  "The first N requests only (default: all of the trace, or 100)")
      ->check(whole_number(1, 10'000'000))
      ->type_name("N");
  command
      .add_option("--scale-lengths", options.scale_lengths,
                  "Multiplies the trace's lengths, so that it fits a smaller machine")
      ->capture_default_str()
      ->check(number_within(1e-6, 1024))
      ->type_name("F");
  command
      .add_option("--rate", options.arrivals.rate,
                  "Open loop: requests per second on average, Poisson arrivals (default: the "
                  "trace's own times)")
      ->check(number_within(1e-6, 1e6))
      ->type_name("R");
  command
      .add_option("--cv", options.arrivals.cv,
                  "Coefficient of variation of the gaps of --rate: 1 Poisson, 0 regular, more: "
                  "bursts (gamma)")
      ->capture_default_str()
      ->check(number_within(0, 20))
      ->type_name("C");
  command
      .add_option("--speed", options.arrivals.speed, "Runs the trace's own times X times as fast")
      ->capture_default_str()
      ->check(number_within(1e-6, 1e6))
      ->type_name("X");
  command
      .add_option("--users", options.users,
                  "Closed loop: N users, each of whom asks again as soon as the answer is there "
                  "(default without a trace's times and --rate: 8)")
      ->check(whole_number(1, 100'000))
      ->type_name("N");
  command
      .add_option("--seed", options.arrivals.seed, "Of arrivals and prompts; same seed, same run")
      ->capture_default_str()
      ->check(whole_number(0, INT64_MAX))
      ->type_name("N");
  command
      .add_option("--target-ttft-ms", options.targets.ttft_ms,
                  "Goodput counts requests whose first token comes within so long …")
      ->check(number_within(0, 1e9))
      ->type_name("MS");
  command
      .add_option("--target-tpot-ms", options.targets.tpot_ms,
                  "… whose further tokens take no longer than this on average …")
      ->check(number_within(0, 1e9))
      ->type_name("MS");
  command
      .add_option("--target-e2e-ms", options.targets.e2e_ms,
                  "… and which end within this time (default of each: any time is good)")
      ->check(number_within(0, 1e9))
      ->type_name("MS");
  command.add_flag("--json", options.json, "Print one JSON object");
}

Workload load_workload(const WorkloadOptions& options) {
  Workload workload;
  if (options.trace.empty()) {
    const int64_t count = options.requests > 0 ? options.requests : kDefaultRequests;
    workload.trace.requests.resize(static_cast<size_t>(count));
    for (workload::TraceRequest& request : workload.trace.requests)
      request.prompt_tokens = options.prompt;
  } else {
    workload.trace = workload::read_trace(options.trace);
    if (options.requests > 0) workload::keep_first(workload.trace, options.requests);
    workload::scale_lengths(workload.trace, options.scale_lengths);
  }
  for (workload::TraceRequest& request : workload.trace.requests)
    if (request.output_tokens == 0) request.output_tokens = options.gen;

  const bool has_rate = options.arrivals.rate > 0;
  if (options.users > 0 && has_rate)
    fail_param("users", "--users makes a closed loop and --rate an open one: give one of them");
  const auto follows = [](const auto& request) { return request.follows >= 0; };
  if (options.users > 0 && std::ranges::any_of(workload.trace.requests, follows))
    fail_param("users",
               "--users makes a closed loop, but requests of this trace come after others by "
               "themselves (pause_ms): leave it out");
  if (options.arrivals.cv != 1 && !has_rate)
    fail_param("cv", "--cv says how the arrivals of a --rate vary: give a --rate, too");
  if (options.arrivals.speed != 1 && (has_rate || options.users > 0 || !workload.trace.has_times))
    fail_param("speed",
               "--speed is for the trace's own times: leave it out with --rate, with --users, and "
               "where the trace has no times");
  if (options.users > 0 || (!has_rate && !workload.trace.has_times)) {
    workload.users = options.users > 0 ? options.users : kDefaultUsers;
  } else {
    workload.times_us = workload::arrival_times_us(workload.trace, options.arrivals);
  }
  return workload;
}

json::Object to_json(const WorkloadOptions& options, const Workload& workload) {
  json::Object object = {{"requests", workload.trace.requests.size()},
                         {"seed", options.arrivals.seed}};
  if (options.trace.empty()) {
    object["prompt"] = options.prompt;
    object["gen"] = options.gen;
  } else {
    object["trace"] = options.trace.filename().string();
    object["scale_lengths"] = options.scale_lengths;
  }
  if (workload.users > 0) {
    object["users"] = workload.users;
  } else if (options.arrivals.rate > 0) {
    object["rate"] = options.arrivals.rate;
    object["cv"] = options.arrivals.cv;
  } else {
    object["speed"] = options.arrivals.speed;
  }
  return object;
}

std::string describe(const WorkloadOptions& options, const Workload& workload) {
  std::string text = counted(std::ssize(workload.trace.requests), "request");
  text += options.trace.empty() ? fmt::format(" of {} + {} tokens", options.prompt, options.gen)
                                : fmt::format(" of {}", options.trace.filename().string());
  if (!options.trace.empty() && options.scale_lengths != 1)
    text += fmt::format(", lengths × {}", options.scale_lengths);
  if (workload.users > 0)
    return text + fmt::format(", closed loop of {}", counted(workload.users, "user"));
  if (options.arrivals.rate == 0)
    return text + fmt::format(", at the trace's times × {}", options.arrivals.speed);
  return text + fmt::format(", {} a second, coefficient of variation {}", options.arrivals.rate,
                            options.arrivals.cv);
}

}  // namespace hasten::cli
