// SPDX-License-Identifier: Apache-2.0
// A queue of jobs under a policy in virtual time, with no model: what tests of policies run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace hasten::engine {

inline constexpr int64_t kStepUs = 1000;

/// A sequence of one choice that arrives at a time.
struct Job {
  int64_t arrival_step = 0;
  int64_t num_prompt = 1;
  int64_t length = 1;  // generated tokens
  int32_t priority = 0;
  int64_t predicted = 0;  // 0: the length is known
  std::string_view tenant = {};
  int64_t deadline_step = -1;  // -1: none
  std::string_view program = {};
  int32_t calls_left = -1;
  bool shares = false;  // its prompt's cached blocks with others that do
};

/// Jobs under a policy; each step takes a millisecond of virtual time, whatever runs in it, unless
/// `us_per_token` says otherwise.
class Line {
 public:
  Line(const Policy& policy, const SchedulerOptions& given, int64_t num_blocks = 100'000)
      : scheduler_(with(policy, given), std::vector<GroupBlocks>{{.num_blocks = num_blocks}}) {}

  /// Returns the job's index.
  size_t add(const Job& job) {
    Sequence& sequence = *sequences_.emplace_back(std::make_unique<Sequence>());
    sequence.request_id = std::ssize(sequences_);
    // The prompts are alike, but not shared.
    if (!job.shares) sequence.cache_domain.low = sequences_.size();
    sequence.prompt = std::span(prompt_).first(static_cast<size_t>(job.num_prompt));
    sequence.max_generated = job.length;
    sequence.predicted_generated = job.predicted;
    sequence.priority = job.priority;
    sequence.tenant = job.tenant;
    sequence.program = job.program;
    sequence.program_calls_left = job.calls_left;
    sequence.arrival_us = std::max(job.arrival_step * kStepUs, now_us);
    sequence.min_generated = job.predicted > 0 ? 1 : job.length;
    if (job.deadline_step >= 0) sequence.deadline_us = job.deadline_step * kStepUs;
    finished_step.push_back(-1);
    if (scheduler_.is_hopeless_behind_queue(sequence, now_us))
      ++num_refused;
    else
      scheduler_.add(sequence);
    return sequences_.size() - 1;
  }

  /// False when there was nothing to run.
  bool step() {
    for (const Sequence* const sequence : scheduler_.hopeless(now_us)) {
      scheduler_.remove(*sequence);
      ++num_refused;
    }
    const StepPlan& plan = scheduler_.plan(now_us);
    if (plan.empty()) return false;
    const int64_t step_us = kStepUs + us_per_token * plan.num_tokens;
    now_us += step_us;
    preemptions += plan.num_preemptions;
    scheduler_.advance(step_us);
    for (const PlannedSequence& planned : plan.sequences) {
      if (!planned.samples) continue;
      Sequence& sequence = *planned.sequence;
      sequence.generated.push_back(7);
      if (std::ssize(sequence.generated) < sequence.max_generated) continue;
      finished_step[static_cast<size_t>(sequence.request_id - 1)] = now_us / kStepUs;
      scheduler_.finish(sequence);
    }
    return true;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(step());
  }
  void run() {
    for (int64_t i = 0; step(); ++i) ASSERT_LT(i, 1'000'000) << "no end";
  }

  int64_t num_generated(size_t job) const { return std::ssize(sequences_[job]->generated); }
  /// Units of service that a tenant has had: its prompts since they were admitted, twice its
  /// tokens.
  int64_t service(std::string_view tenant) const {
    int64_t sum = 0;
    for (const auto& sequence : sequences_)
      if (sequence->tenant == tenant && sequence->num_cached >= 0)
        sum += sequence->num_prompt() + 2 * std::ssize(sequence->generated);
    return sum;
  }
  bool has_waiting(std::string_view tenant) const {
    return std::ranges::any_of(sequences_, [&](const auto& sequence) {
      return sequence->tenant == tenant && sequence->queued_us >= 0;
    });
  }
  bool runs(size_t job) const { return sequences_[job]->queued_us < 0 && finished_step[job] < 0; }

  int64_t us_per_token = 0;
  int64_t now_us = 0;
  int64_t preemptions = 0;
  int64_t num_refused = 0;             // their deadlines could not be met
  std::vector<int64_t> finished_step;  // of each job; -1: not yet

 private:
  static SchedulerOptions with(const Policy& policy, SchedulerOptions options) {
    options.policy = &policy;
    return options;
  }

  const std::vector<int32_t> prompt_ = std::vector<int32_t>(4096, 1);
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

inline SchedulerOptions one_at_a_time() {
  return {.block_size = 4, .step_tokens = 64, .max_batch = 1, .aging_us = 1'000'000'000};
}

/// Pareto lengths of mean about 24 and, for four places, arrivals at 1.2 times what can be served.
inline std::vector<Job> heavy_tailed_overload(size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(1e-9, 1.0);
  std::vector<Job> jobs;
  double arrival = 0;
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    const double pareto = 5.0 / std::pow(uniform(random), 1.0 / 1.2);
    jobs.push_back({.num_prompt = 1 + static_cast<int64_t>(random() % 60),
                    .length = static_cast<int64_t>(std::min(pareto, 2000.0))});
    total += static_cast<double>(jobs.back().length);
  }
  const double gap = total / static_cast<double>(count) / 4.0 / 1.2;
  for (Job& job : jobs) {
    job.arrival_step = static_cast<int64_t>(arrival);
    arrival -= gap * std::log(uniform(random));
  }
  return jobs;
}

inline SchedulerOptions four_at_a_time() {
  return {.block_size = 4, .step_tokens = 256, .max_batch = 4, .aging_us = 60'000'000};
}

/// Runs jobs that are sorted by arrival.
inline void run_as_they_come(Line& line, const std::vector<Job>& jobs) {
  size_t next = 0;
  bool busy = true;
  while (next < jobs.size() || busy) {
    while (next < jobs.size() && jobs[next].arrival_step * kStepUs <= line.now_us)
      line.add(jobs[next++]);
    busy = line.step();
    if (!busy) line.now_us += kStepUs;
  }
}

}  // namespace hasten::engine
