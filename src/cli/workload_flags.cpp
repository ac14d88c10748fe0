// SPDX-License-Identifier: Apache-2.0
// Flags of workloads, and what they mean together.
#include "cli/workload_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"
#include "cli/command.h"

namespace hasten::cli {
namespace {

constexpr int64_t kDefaultRequests = 100;
constexpr int64_t kDefaultUsers = 8;

}  // namespace

void add_workload_flags(Command command, WorkloadOptions& options) {
  const Option trace = command.option(
      "--trace FILE", options.trace,
      "Requests with times and lengths: Azure's CSV, Mooncake's JSON lines, or lines "
      "of our own (docs/benchmarking.md); left out: requests of equal lengths");
  command
      .option("--prompt N", options.prompt, whole_number(1, 1 << 24),
              "Tokens of each prompt, without a trace (default: {})")
      .never_with(trace);
  command.option("--gen N", options.gen, whole_number(1, 1 << 24),
                 "Tokens to generate for each request, where no trace says how many (default: {})");
  command.option("--requests N", options.requests, whole_number(1, 10'000'000),
                 "The first N requests only (default: all of the trace, or 100)");
  command.option("--scale-lengths F", options.scale_lengths, number_within(1e-6, 1024),
                 "Multiplies the trace's lengths, so that it fits a smaller machine (default: {})");
  command.option("--rate R", options.arrivals.rate, number_within(1e-6, 1e6),
                 "Open loop: requests per second on average, Poisson arrivals (default: the "
                 "trace's own times)");
  command.option("--cv C", options.arrivals.cv, number_within(0, 20),
                 "Coefficient of variation of the gaps of --rate: 1 Poisson, 0 regular, more: "
                 "bursts (gamma) (default: {})");
  command.option("--speed X", options.arrivals.speed, number_within(1e-6, 1e6),
                 "Runs the trace's own times X times as fast (default: {})");
  command.option("--users N", options.users, whole_number(1, 100'000),
                 "Closed loop: N users, each of whom asks again as soon as the answer is there "
                 "(default without a trace's times and --rate: 8)");
  command.option("--seed N", options.arrivals.seed, whole_number(0, INT64_MAX),
                 "Of arrivals and prompts; same seed, same run (default: {})");
  command.option("--target-ttft-ms MS", options.targets.ttft_ms, number_within(0, 1e9),
                 "Goodput counts requests whose first token comes within so long …");
  command.option("--target-tpot-ms MS", options.targets.tpot_ms, number_within(0, 1e9),
                 "… whose further tokens take no longer than this on average …");
  command.option("--target-e2e-ms MS", options.targets.e2e_ms, number_within(0, 1e9),
                 "… and which end within this time (default of each: any time is good)");
  command.flag("--json", options.json, "Print one JSON object");
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
    for (const std::string& doubt : workload.trace.doubts) log::warn("{}", doubt);
    workload::scale_lengths(workload.trace, options.scale_lengths);
  }
  for (workload::TraceRequest& request : workload.trace.requests) {
    if (request.output_tokens == 0) request.output_tokens = options.gen;
    workload.longest = std::max(workload.longest, request.prompt_tokens + request.output_tokens);
  }
  if (options.requests > 0) workload::keep_first(workload.trace, options.requests);

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

void check_lengths(const Workload& workload, std::string_view reason) {
  for (const workload::TraceRequest& request : workload.trace.requests)
    if (request.prompt_tokens == 0)
      fail(ErrorCode::invalid_argument,
           "line {} of the trace has a prompt without prompt_tokens: {}", request.line, reason);
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
