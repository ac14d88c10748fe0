// SPDX-License-Identifier: Apache-2.0
// Runner: turns a step plan into the inputs of a forward pass, and runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence/step.h"
#include "models/model.h"
#include "tensor/tensor.h"

namespace hasten::engine {

/// The largest step, for which everything is allocated beforehand, though the system gives large
/// memory page by page as steps use it.
struct RunnerLimits {
  std::vector<int64_t> num_blocks;  // of each cache group of the model
  int64_t block_size = 16;          // tokens in a block
  ops::KvTypes kv_types = {};
  int64_t context = 0;  // tokens of one sequence
  int64_t step_tokens = 0;
  int64_t max_sequences = 0;
  int64_t max_logits = 0;  // rows
  // If there, all of it is brought in before the first step; called meanwhile.
  std::function<void(double fraction)> on_pretouch = {};
};

/// How the backend stores one cache group.
ops::KvCacheSpec cache_spec(const models::CacheGroup& group, int64_t num_blocks, int64_t block_size,
                            ops::KvTypes kv_types);

/// Owns the model, its caches and the buffers of a step. One thread.
class Runner {
 public:
  /// Throws Error{resource_exhausted} when the system refuses memory. `backend` must outlive the
  /// runner.
  Runner(std::unique_ptr<models::Model> model, ops::Backend& backend, const RunnerLimits& limits);

  /// Does the plan's saves, then its loads. Throws what the backend throws.
  void move_blocks(const StepPlan& plan);
  /// Runs a whole plan within the limits. Returns its logits [plan.num_logits, vocab_size], which
  /// the caller may overwrite, valid until the next call. Throws what the model throws.
  std::span<float> run(const StepPlan& plan);
  /// Runs one sequence of the plan, its block copies included, and returns its logits. What a run
  /// writes to the cache depends on the plan alone, so a plan may be run again.
  std::span<float> run_alone(const StepPlan& plan, size_t index);

  /// Looks through the first `columns` logits of each row of a run, [num_logits, vocab_size]. Valid
  /// until the next call.
  std::span<const ops::RowScan> scan(std::span<const float> logits, int64_t columns);

  const models::Model& model() const { return *model_; }

 private:
  /// Device tables of one cache group.
  struct Group {
    std::unique_ptr<ops::KvCache> cache;
    std::vector<int32_t> block_tables;                // [num_sequences, stride]
    std::vector<int32_t> slots;                       // [num_tokens]
    std::vector<std::pair<int32_t, int32_t>> copies;  // (from, to)
  };

  std::span<float> run(const StepPlan& plan, size_t begin, size_t end);
  void clear();
  void add_sequence(const StepPlan& plan, size_t index, int64_t stride);

  std::unique_ptr<models::Model> model_;
  ops::Backend& backend_;
  const int64_t block_size_;
  std::vector<Group> groups_;
  std::vector<ops::KvCache*> caches_;     // of groups_
  std::vector<ops::PagedBatch> batches_;  // likewise
  std::vector<int32_t> token_ids_;        // [num_tokens]
  std::vector<int32_t> positions_;        // [num_tokens]
  std::vector<int32_t> logit_rows_;       // [num_logits]
  std::vector<int32_t> query_start_;      // [num_sequences + 1]
  std::vector<int32_t> context_len_;      // [num_sequences]
  OwnedTensor logits_;                    // [max_logits, vocab_size]
  std::vector<ops::RowScan> scans_;       // [num_logits]
};

}  // namespace hasten::engine
