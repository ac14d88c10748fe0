// SPDX-License-Identifier: Apache-2.0
// A queue of jobs under a policy in virtual time, with no model: what tests of policies run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
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
};

/// Jobs under a policy; each step takes a millisecond of virtual time, whatever runs in it.
class Line {
 public:
  Line(const Policy& policy, const SchedulerOptions& given, int64_t num_blocks = 100'000)
      : scheduler_(with(policy, given), std::vector<GroupBlocks>{{.num_blocks = num_blocks}}) {}

  /// Returns the job's index.
  size_t add(const Job& job) {
    Sequence& sequence = *sequences_.emplace_back(std::make_unique<Sequence>());
    sequence.request_id = std::ssize(sequences_);
    sequence.cache_domain.low = sequences_.size();  // the prompts are alike, but not shared
    sequence.prompt = std::span(prompt_).first(static_cast<size_t>(job.num_prompt));
    sequence.max_generated = job.length;
    sequence.predicted_generated = job.predicted;
    sequence.priority = job.priority;
    sequence.tenant = job.tenant;
    sequence.arrival_us = std::max(job.arrival_step * kStepUs, now_us);
    finished_step.push_back(-1);
    scheduler_.add(sequence);
    return sequences_.size() - 1;
  }

  /// False when there was nothing to run.
  bool step() {
    const StepPlan& plan = scheduler_.plan(now_us);
    if (plan.empty()) return false;
    now_us += kStepUs;
    preemptions += plan.num_preemptions;
    scheduler_.advance();
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

  int64_t now_us = 0;
  int64_t preemptions = 0;
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

}  // namespace hasten::engine
