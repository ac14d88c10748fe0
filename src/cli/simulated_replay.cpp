// SPDX-License-Identifier: Apache-2.0
// A trace as the simulator asks for it, and statistics of what it tells.
#include "cli/simulated_replay.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/progress.h"
#include "workload/programs.h"
#include "workload/prompts.h"

namespace hasten::cli {

SimulatedReplay simulate_replay(const MachineModel& machine, const Workload& workload,
                                const WorkloadOptions& options,
                                std::function<void(const StepRecord&)> on_step) {
  const auto& requests = workload.trace.requests;
  check_lengths(workload, "a simulation has no tokenizer to count them");

  SimulatedReplay result{.statistics = workload::Statistics(options.targets)};
  workload::Statistics& statistics = result.statistics;
  std::vector<workload::Answer> answers(requests.size());
  workload::Programs programs(workload.trace);
  result.answered.resize(requests.size());
  ProgressBar bar;
  int64_t num_ended = 0;
  const auto end = [&](size_t i, int64_t now, int64_t cached, std::string_view failure) {
    answers[i].cached_tokens = cached;
    if (++num_ended % 256 == 0)
      bar.show("simulate", static_cast<double>(num_ended) / static_cast<double>(answers.size()));
    result.answered[i] = failure.empty();
    if (failure.empty()) {
      programs.finish(i, answers[i]);
      statistics.finish(answers[i], now);
    } else {
      statistics.fail(answers[i], now, failure);
    }
  };
  std::vector<SimulatedPause> pauses;
  pauses.reserve(requests.size());
  for (const workload::TraceRequest& request : requests)
    pauses.push_back({.after = request.follows, .pause_us = request.pause_us});
  if (workload.times_us.empty()) pauses.clear();
  const int64_t started = monotonic_us();
  result.simulation = hasten::simulate(
      machine.options,
      {.num_requests = requests.size(),
       .times_us = workload.times_us,
       .users = std::max<int64_t>(1, workload.users),
       .pauses = std::move(pauses),
       .request =
           [&](size_t i) {
             return SimulatedRequest{.prompt_tokens = requests[i].prompt_tokens,
                                     .output_tokens = requests[i].output_tokens,
                                     .tenant = requests[i].tenant,
                                     .priority = requests[i].priority,
                                     .deadline_us = requests[i].deadline_us,
                                     .program_id = requests[i].program_id,
                                     .program_calls_left = requests[i].program_calls_left};
           },
       .prompt =
           [&](size_t i) {
             return workload::make_prompt(workload.trace, i, machine.model.vocab_size,
                                          options.arrivals.seed);
           },
       .on_arrival =
           [&](size_t i, int64_t now) {
             answers[i].arrival_us = now;
             answers[i].prompt_tokens = requests[i].prompt_tokens;
             answers[i].deadline_us = requests[i].deadline_us;
             answers[i].tenant = requests[i].tenant;
             programs.arrive(i, answers[i]);
           },
       .on_token = [&](size_t i, int64_t now) { statistics.deliver(answers[i], now, 1); },
       .on_step = std::move(on_step),
       .on_end = end});
  result.wall_seconds = static_cast<double>(monotonic_us() - started) * 1e-6;
  bar.show("", 1.0);
  return result;
}

}  // namespace hasten::cli
