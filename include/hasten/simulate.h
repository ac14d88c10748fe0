// SPDX-License-Identifier: Apache-2.0
// The engine's scheduler in virtual time: what a step costs, fitted to measured ones, and what a
// workload would meet with on a machine of such costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/step_record.h"

namespace hasten {

/// The time of a step, in microseconds, by its work. The first `free_tokens` are computed while the
/// weights are read, which is what `base_us` is for the most part.
struct StepCosts {
  double base_us = 0;
  double free_tokens = 0;
  double us_per_token = 0;        // beyond the free ones
  double us_per_sequence = 0;     // choosing a token, its text, its delivery
  double us_per_key_read = 0;     // memory: each sequence reads its keys and values once a step
  double us_per_key_product = 0;  // arithmetic: each token with each key that it sees
};

/// At least a microsecond.
double step_us(const StepCosts& costs, const StepRecord& step);

struct StepCostFit {
  StepCosts costs;
  double mean_error = 0;  // mean of |predicted - measured| / measured
};

/// Least squares of the relative error over measured steps; costs are not negative. The tenth of
/// the steps that fits worst is left out, because a shared machine interrupts some; then all costs
/// are scaled so that the steps take as long together as was measured, those left out included,
/// each with at most eight times its prediction. Throws Error{invalid_argument} for fewer than 16
/// steps.
StepCostFit fit_step_costs(std::span<const StepRecord> steps);

/// The simulator keeps some bytes for each block.
inline constexpr int64_t kMaxSimulatedKvBlocks = int64_t{1} << 26;

struct SimulatorOptions {
  StepCosts costs;
  std::string policy = "fcfs";
  bool prefix_cache = true;       // sequences begin with what others have left in the cache
  int64_t aging_us = 60'000'000;  // waiting that moves a request up by one class of its policy
  std::string length_predictor = "limit";  // with that one, policies know the lengths of answers;
                                           // with the others, only what those have learnt
  int32_t block_size = 16;                 // tokens in a cache block
  int64_t num_kv_blocks = 0;               // enough for one sequence of the whole context
  int64_t context = 0;                     // tokens that one sequence may reach
  int64_t step_tokens = 512;               // tokens in a step at most
  int32_t max_batch = 32;                  // sequences in a step at most
  int64_t target_tbt_us = 0;        // between tokens of an answer, held by shorter chunks; 0: none
  int64_t max_queue = 0;            // requests that may wait; 0: any number
  double held_share = 0.25;         // as EngineOptions'
  double tenant_cache_share = 0.5;  // likewise
  std::string batching = "continuous";  // as EngineOptions', like all below
  int64_t preferred_batch = 0;
  std::optional<int64_t> batch_wait_us = {};
  bool chunked_prefill = true;
  bool reserve_context = false;
};

struct SimulatedRequest {
  int64_t prompt_tokens = 1;  // at least one
  int64_t output_tokens = 1;  // that it will generate, at least one
  std::string tenant = {};
  int32_t priority = 0;
  int64_t deadline_us = 0;  // as Request::deadline_us
  std::string program_id = {};
  int32_t program_calls_left = -1;  // as Request's
};

/// A request that comes when another one has ended.
struct SimulatedPause {
  int64_t after = -1;    // index of that one, smaller than its own; -1: of none
  int64_t pause_us = 0;  // between its end and this one's coming
};

/// Which requests come, and who is told of them. All functions are called on the calling thread
/// with virtual times that start at 0 and never go back.
struct SimulatedWorkload {
  size_t num_requests = 0;
  std::vector<int64_t> times_us;  // when each comes, ascending; empty: closed loop
  int64_t users = 1;              // of a closed loop: requests under way at the same time
  // Of each request, in an open loop; empty: none waits for another. One that waits for a request
  // which fails does not come, and fails as well.
  std::vector<SimulatedPause> pauses = {};
  std::function<SimulatedRequest(size_t index)> request;
  /// The `prompt_tokens` token ids of a request; not asked for where they do not fit the context.
  std::function<std::vector<int32_t>(size_t index)> prompt;
  std::function<void(size_t index, int64_t now_us)> on_arrival;
  std::function<void(size_t index, int64_t now_us)> on_token;
  std::function<void(const StepRecord&)> on_step = {};  // after each step; may be empty
  /// Of each request once. `failure` is empty when all its tokens came; `cached_tokens` of its
  /// prompt were in the prefix cache.
  std::function<void(size_t index, int64_t now_us, int64_t cached_tokens, std::string_view failure)>
      on_end;
};

struct Simulation {
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t end_us = 0;           // virtual time
  double busy_us = 0;           // of it, in steps
  double mean_batch = 0;        // sequences in a step
  double mean_blocks_used = 0;  // over the time in steps
};

/// Runs the workload to its end. The same arguments give the same result. Throws
/// Error{invalid_argument} for options that do not fit together, for an unknown policy, and for
/// costs that lead beyond 285 years.
Simulation simulate(const SimulatorOptions& options, const SimulatedWorkload& workload);

}  // namespace hasten
