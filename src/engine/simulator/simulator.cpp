// SPDX-License-Identifier: Apache-2.0
// The loop of the engine with a cost model where the forward pass would be.
#include "engine/simulator/simulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "base/siphash.h"
#include "engine/scheduler/predictor.h"
#include "engine/scheduler/scheduler.h"
#include "engine/simulator/cost_model.h"

namespace hasten::engine {
namespace {

constexpr double kMaxTimeUs = 0x1p53;  // whole microseconds of a double end here

constexpr std::string_view kHopeless = "its deadline could not be met";

constexpr int64_t kBatchWaitUs = 100'000;  // as an engine's

/// A request under way. Does not move: its sequence looks into it.
struct Live {
  SimulatedRequest request;
  std::vector<int32_t> prompt;
  Sequence sequence;
};

void check(const SimulatorOptions& options, const SimulatedWorkload& workload) {
  if (options.block_size < 1 || !std::has_single_bit(static_cast<uint32_t>(options.block_size)))
    fail_param("block_size", "--block-size is {}; it must be a power of two", options.block_size);
  if (options.max_batch < 1 || options.max_batch > options.step_tokens)
    fail_param("max_batch", "--max-batch is {}; it must be from 1 to --step-tokens, which is {}",
               options.max_batch, options.step_tokens);
  if (options.num_kv_blocks < 1 || options.num_kv_blocks > kMaxSimulatedKvBlocks)
    fail_param("num_kv_blocks",
               "the cache has {} blocks of {} tokens; it must have from 1 to {}: see --kv-cache",
               options.num_kv_blocks, options.block_size, kMaxSimulatedKvBlocks);
  if (options.preferred_batch < 0 || options.preferred_batch > options.max_batch)
    fail_param("preferred_batch",
               "--preferred-batch is {}; it must be from 0 to --max-batch, which is {}",
               options.preferred_batch, options.max_batch);
  if (options.batch_wait_us && *options.batch_wait_us < 0)
    fail_param("batch_wait_us", "--batch-wait-ms is {} us; it must not be negative",
               *options.batch_wait_us);
  if (options.target_tbt_us < 0)
    fail_param("target_tbt_us", "--target-tbt-ms is {} us; it must not be negative",
               options.target_tbt_us);
  if (!options.chunked_prefill && options.step_tokens < options.context)
    fail_param("step_tokens",
               "--step-tokens is {}; with --no-chunked-prefill it must be at least --ctx, which is "
               "{}, as prompts run whole",
               options.step_tokens, options.context);
  if (options.context < 1 || ceil_div(options.context, options.block_size) > options.num_kv_blocks)
    fail_param(
        "context",
        "a context of {} tokens does not fit {} blocks of {}: lower --ctx or raise --kv-cache",
        options.context, options.num_kv_blocks, options.block_size);
  HASTEN_CHECK(workload.times_us.empty() || workload.times_us.size() == workload.num_requests);
  HASTEN_CHECK(!workload.times_us.empty() || workload.users > 0 || workload.num_requests == 0);
  HASTEN_CHECK(workload.pauses.empty() || (workload.pauses.size() == workload.num_requests &&
                                           workload.times_us.size() == workload.num_requests));
  for (size_t i = 0; i < workload.pauses.size(); ++i)
    HASTEN_CHECK(workload.pauses[i].after < static_cast<int64_t>(i) &&
                 workload.pauses[i].pause_us >= 0);
  if (!(options.held_share >= 0 && options.held_share <= 1))
    fail_param("held_share", "--held-share is {}; it must be from 0 to 1", options.held_share);
  if (!(options.tenant_cache_share >= kMinTenantCacheShare && options.tenant_cache_share <= 1))
    fail_param("tenant_cache_share", "--tenant-cache-share is {}; it must be from {} to 1",
               options.tenant_cache_share, kMinTenantCacheShare);
}

class Simulator {
 public:
  Simulator(const SimulatorOptions& options, const SimulatedWorkload& workload)
      : options_(options),
        workload_(workload),
        scheduler_({.block_size = options.block_size,
                    .step_tokens = options.step_tokens,
                    .max_batch = options.max_batch,
                    .target_step_us = options.target_tbt_us,
                    .prefix_cache = options.prefix_cache,
                    .policy = &find_policy(options.policy),
                    .aging_us = options.aging_us,
                    .batching = find_batching(options.batching),
                    .preferred_batch = options.preferred_batch,
                    .batch_wait_us = options.batch_wait_us.value_or(kBatchWaitUs),
                    .chunked_prefill = options.chunked_prefill,
                    .reserve_tokens = options.reserve_context ? options.context : 0,
                    .held_share = options.held_share,
                    .tenant_cache_share = options.tenant_cache_share},
                   std::vector<GroupBlocks>{{.num_blocks = options.num_kv_blocks}}),
        predictor_(find_predictor(options.length_predictor).make()),
        lengths_known_(options.length_predictor == kLimitPredictor.name),
        followers_(workload.pauses.size()) {
    for (size_t i = 0; i < workload.pauses.size(); ++i)
      if (waits_for_another(i))
        followers_[static_cast<size_t>(workload.pauses[i].after)].push_back(i);
  }

  Simulation run() {
    for (;;) {
      arrive();
      end_hopeless();
      const StepPlan& plan = scheduler_.plan(now_us());
      if (!plan.empty()) {
        step(plan);
      } else if (!wait()) {
        break;
      }
    }
    result_.end_us = now_us();
    if (result_.steps > 0) result_.mean_batch /= static_cast<double>(result_.steps);
    if (result_.busy_us > 0) result_.mean_blocks_used /= result_.busy_us;
    return result_;
  }

 private:
  int64_t now_us() const { return std::llround(time_us_); }

  /// Goes to the time at which the next request comes or a batch waits no longer. False: the end.
  bool wait() {
    int64_t until = scheduler_.next_step_us();
    if (!paused_.empty()) until = std::min(until, paused_.top().first);
    if (next_ < workload_.num_requests && !workload_.times_us.empty())
      until = std::min(until, workload_.times_us[next_]);
    if (until == INT64_MAX) return false;
    time_us_ = static_cast<double>(until);
    return true;
  }

  /// Queues what has come by now.
  void arrive() {
    const bool is_open = !workload_.times_us.empty();
    while (!paused_.empty() && paused_.top().first <= now_us()) {
      const auto [time_us, index] = paused_.top();
      paused_.pop();
      add(index, time_us);
    }
    for (skip_followers(); next_ < workload_.num_requests; skip_followers()) {
      if (is_open ? workload_.times_us[next_] > now_us() : std::ssize(live_) >= workload_.users)
        return;
      const size_t index = next_++;
      add(index, is_open ? workload_.times_us[index] : now_us());
    }
  }

  bool waits_for_another(size_t index) const {
    return !workload_.pauses.empty() && workload_.pauses[index].after >= 0;
  }

  /// Goes on to the next request that comes by itself.
  void skip_followers() {
    while (next_ < workload_.num_requests && waits_for_another(next_)) ++next_;
  }

  /// A request is over; those that wait for its end come, each in its time, or fail with it.
  void end(size_t index, int64_t cached_tokens, std::string_view failure) {
    workload_.on_end(index, now_us(), cached_tokens, failure);
    if (followers_.empty()) return;
    std::vector<size_t> failed;
    for (const size_t follower : followers_[index]) {
      if (failure.empty())
        paused_.emplace(now_us() + workload_.pauses[follower].pause_us, follower);
      else
        failed.push_back(follower);
    }
    while (!failed.empty()) {
      const size_t next = failed.back();
      failed.pop_back();
      workload_.on_arrival(next, now_us());
      workload_.on_end(next, now_us(), 0, "the call before it failed");
      failed.insert(failed.end(), followers_[next].begin(), followers_[next].end());
    }
  }

  void add(size_t index, int64_t arrival_us) {
    auto live = std::make_unique<Live>();
    live->request = workload_.request(index);
    workload_.on_arrival(index, arrival_us);
    const int64_t num_prompt = live->request.prompt_tokens;
    HASTEN_CHECK(num_prompt > 0 && live->request.output_tokens > 0);
    if (num_prompt > options_.context - live->request.output_tokens)
      return end(index, 0, "longer than the context of " + counted(options_.context, "token"));
    if (options_.max_queue > 0 && scheduler_.num_waiting() >= options_.max_queue)
      return end(index, 0, "the queue was full");
    live->prompt = workload_.prompt(index);
    HASTEN_CHECK(std::ssize(live->prompt) == num_prompt);
    Sequence& sequence = live->sequence;
    sequence.request_id = static_cast<int64_t>(index);
    sequence.prompt = live->prompt;
    sequence.max_generated =
        lengths_known_ ? live->request.output_tokens : options_.context - num_prompt;
    sequence.priority = live->request.priority;
    sequence.tenant = live->request.tenant;
    sequence.program = live->request.program_id;
    sequence.program_calls_left = live->request.program_calls_left;
    sequence.cache_domain = siphash(live->request.tenant, {});
    sequence.arrival_us = arrival_us;
    sequence.predicted_generated = predictor_->predict(sequence);
    sequence.min_generated = lengths_known_ ? sequence.max_generated : 1;
    if (live->request.deadline_us > 0)
      sequence.deadline_us = arrival_us + live->request.deadline_us;
    sequence.generated.reserve(static_cast<size_t>(live->request.output_tokens));
    if (scheduler_.is_hopeless_behind_queue(sequence, now_us())) return end(index, 0, kHopeless);
    scheduler_.add(sequence);
    live_.emplace(index, std::move(live));
  }

  /// Ends what cannot meet its deadline any more.
  void end_hopeless() {
    for (const Sequence* const sequence : scheduler_.hopeless(now_us())) {
      const auto index = static_cast<size_t>(sequence->request_id);
      scheduler_.remove(*sequence);
      end(index, 0, kHopeless);
      live_.erase(index);
    }
  }

  void step(const StepPlan& plan) {
    StepRecord record = describe(plan);
    const double duration_us = predict_step_us(options_.costs, record);
    time_us_ += duration_us;
    if (!(time_us_ < kMaxTimeUs))
      fail(ErrorCode::invalid_argument,
           "step {} of {} tokens ends after {} us, which is beyond 285 years: its costs are no "
           "machine's",
           result_.steps + 1, plan.num_tokens, time_us_);
    record.duration_us = std::llround(duration_us);
    scheduler_.advance(record.duration_us);
    if (workload_.on_step) workload_.on_step(record);
    ++result_.steps;
    result_.preemptions += plan.num_preemptions;
    result_.busy_us += duration_us;
    result_.mean_batch += static_cast<double>(plan.sequences.size());
    result_.mean_blocks_used +=
        duration_us * static_cast<double>(scheduler_.num_blocks() - scheduler_.num_free_blocks());
    const int64_t now = now_us();
    for (const PlannedSequence& planned : plan.sequences) {
      if (!planned.samples) continue;
      Sequence& sequence = *planned.sequence;
      const auto index = static_cast<size_t>(sequence.request_id);
      // Some token, but no other request's, so that no answer is a prefix of another prompt.
      const uint64_t hash = mix64(mix64(index) + sequence.generated.size());
      sequence.generated.push_back(static_cast<int32_t>(hash >> 33));
      workload_.on_token(index, now);
      if (std::ssize(sequence.generated) < live_.at(index)->request.output_tokens) continue;
      scheduler_.finish(sequence);
      predictor_->learn(sequence);
      end(index, std::max<int64_t>(0, sequence.num_cached), {});
      live_.erase(index);
    }
  }

  const SimulatorOptions& options_;
  const SimulatedWorkload& workload_;
  Scheduler scheduler_;
  const std::unique_ptr<LengthPredictor> predictor_;
  const bool lengths_known_;  // or else max_generated does not tell them
  std::unordered_map<size_t, std::unique_ptr<Live>> live_;  // by index
  size_t next_ = 0;                                         // request to come
  std::vector<std::vector<size_t>> followers_;  // of each request, those that wait for its end
  using Due = std::pair<int64_t, size_t>;       // when, index
  std::priority_queue<Due, std::vector<Due>, std::greater<>> paused_;  // whose time is known
  double time_us_ = 0;
  Simulation result_;
};

}  // namespace

Simulation run_simulation(const SimulatorOptions& options, const SimulatedWorkload& workload) {
  check(options, workload);
  return Simulator(options, workload).run();
}

}  // namespace hasten::engine
