// SPDX-License-Identifier: Apache-2.0
// Core: everything that the engine's thread owns, and its one step: plan, execute, commit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/job.h"
#include "engine/kv_cache/disk_tier.h"
#include "engine/runner/runner.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/predictor.h"
#include "engine/scheduler/scheduler.h"
#include "engine/sequence/step.h"

namespace hasten::engine {

/// Bytes that steps of these sizes take beside keys and values: activations and logits.
[[nodiscard]] int64_t step_bytes(const models::Model& model, const CoreOptions& options);

/// Bytes that blocks on their way to a disk and from it take, beside a cache of so many; 0 where
/// none is asked for or the device cannot use it. Throws Error{invalid_argument} for options that
/// the constructor of Core refuses.
[[nodiscard]] int64_t staging_bytes(const models::Model& model, const ops::Backend& backend,
                                    const CoreOptions& options, int64_t cache_bytes);

/// One thread. Each answer is the same whatever runs beside it, and under every policy.
class Core {
 public:
  /// Throws as the constructor of Engine.
  Core(std::unique_ptr<models::Model> model, ops::Backend& backend,
       std::shared_ptr<const text::Tokenizer> tokenizer, const CoreOptions& options);

  const Capacity& capacity() const { return capacity_; }
  const models::Model& model() const { return runner_->model(); }
  /// Token ids that a request may name: those that both the model and the tokenizer know.
  int64_t vocab_size() const { return vocab_size_; }

  /// Queues a validated request with a seed, submitted at `submit_us`, which keeps its `place`
  /// until it starts. One whose deadline cannot be met behind what waits already ends with the next
  /// step.
  void add(Request request, std::shared_ptr<Ticket> ticket, int64_t submit_us,
           Admission::Place place = {});
  /// Ends cancelled and hopeless jobs, then runs one step. False when there was nothing to run.
  bool step();
  /// When the next step is due, by monotonic_us, though nobody else comes: 0 but while a batch
  /// waits for more requests; INT64_MAX when there is no job.
  int64_t next_step_us() const { return scheduler_->next_step_us(); }
  /// Writes what the cache holds to disk, if there is a place, at most for so long. Afterwards the
  /// cache is empty. To be called when no job is left.
  void keep_cache(int64_t timeout_us);
  /// Ends every job with a last chunk.
  void end_all(Finish finish, std::string_view error);
  /// Lets go of whoever waits for a job, when not even `end_all` can be trusted. No step follows.
  void abandon();

  int64_t num_jobs() const { return static_cast<int64_t>(jobs_.size()); }
  /// All but `rejected`.
  Stats stats() const;

 private:
  void end_cancelled();
  void end_hopeless(int64_t now);
  void end_for_deadline(Job& job, int64_t now);
  void move_blocks(const StepPlan& plan);
  void execute(const StepPlan& plan);
  void read_logits(const PlannedSequence& planned, std::span<float> logits,
                   std::span<const ops::RowScan> scans, SequenceResult& result);
  void commit(const StepPlan& plan, int64_t step_us);
  void append(Job& job, Answer& answer, SequenceResult& result, int64_t now);
  void publish(Job& job, Answer& answer, int64_t now);
  Usage usage(const Job& job, int64_t now) const;
  void end(Job& job, Finish finish, std::string_view error);
  void deliver(Job& job, const Chunk& chunk);
  void retire(Job& job, Finish finish);
  void sweep();

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Capacity capacity_;
  int64_t vocab_size_ = 0;
  std::vector<int32_t> eos_tokens_;  // that end an answer of this model
  std::unique_ptr<DiskTier> disk_;   // null: none
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<LengthPredictor> predictor_;
  std::unique_ptr<Sampler> sampler_;
  const std::function<void(const StepRecord&)> on_step_;
  SequencePool sequences_;                        // of the jobs
  std::map<int64_t, std::unique_ptr<Job>> jobs_;  // by id
  int64_t next_id_ = 0;
  StepResult result_;
  std::string move_error_;  // of this step; empty: its blocks have moved
  Hash128 cache_key_;       // a secret, so that nobody can say who shares whose cache
  Stats totals_;
  std::vector<int64_t> refused_;  // ids of jobs whose deadline cannot be met
  int64_t num_waiting_ = 0;       // jobs that have not started
};

}  // namespace hasten::engine
