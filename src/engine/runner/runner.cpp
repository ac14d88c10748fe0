// SPDX-License-Identifier: Apache-2.0
// Laying out tokens, positions, slots and block tables, sequence by sequence.
#include "engine/runner/runner.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::engine {

ops::KvCacheSpec cache_spec(const models::CacheGroup& group, int64_t num_blocks, int64_t block_size,
                            ops::KvTypes kv_types) {
  return {.num_layers = group.num_layers,
          .num_blocks = num_blocks,
          .block_size = block_size,
          .num_kv_heads = group.num_kv_heads,
          .head_dim = group.head_dim,
          .types = kv_types};
}

Runner::Runner(std::unique_ptr<models::Model> model, ops::Backend& backend,
               const RunnerLimits& limits)
    : model_(std::move(model)), backend_(backend), block_size_(limits.block_size) {
  const auto& cache_groups = model_->cache_groups();
  HASTEN_CHECK(cache_groups.size() == limits.num_blocks.size());
  model_->reserve(limits.step_tokens, limits.max_sequences, limits.context);
  logits_ = OwnedTensor(DType::f32, {limits.max_logits, model_->info().vocab_size});
  if (limits.on_pretouch) {
    model_->bring_in();
    backend.bring_in_memory(logits_.view);
  }

  const auto max_tokens = static_cast<size_t>(limits.step_tokens);
  const auto max_sequences = static_cast<size_t>(limits.max_sequences);
  const auto max_blocks = static_cast<size_t>(ceil_div(limits.context, limits.block_size));
  for (size_t g = 0; g < cache_groups.size(); ++g) {
    Group& group = groups_.emplace_back();
    group.cache = backend.make_kv_cache(
        cache_spec(cache_groups[g], limits.num_blocks[g], limits.block_size, limits.kv_types));
    group.block_tables.reserve(max_sequences * max_blocks);
    group.slots.reserve(max_tokens);
    group.copies.reserve(max_sequences);
    caches_.push_back(group.cache.get());
    if (!limits.on_pretouch) continue;
    const auto num_groups = static_cast<double>(cache_groups.size());
    backend.bring_in(*group.cache, [&](double fraction) {
      limits.on_pretouch((static_cast<double>(g) + fraction) / num_groups);
    });
  }
  batches_.resize(groups_.size());
  token_ids_.reserve(max_tokens);
  positions_.reserve(max_tokens);
  logit_rows_.reserve(static_cast<size_t>(limits.max_logits));
  query_start_.reserve(max_sequences + 1);
  context_len_.reserve(max_sequences);
  scans_.reserve(static_cast<size_t>(limits.max_logits));
}

void Runner::move_blocks(const StepPlan& plan) {
  for (const BlockSave& save : plan.saves)
    backend_.export_block(*caches_[static_cast<size_t>(save.group)], save.block, save.to);
  for (const BlockLoad& load : plan.loads)
    backend_.import_block(*caches_[static_cast<size_t>(load.group)], load.block, load.from);
}

std::span<float> Runner::run(const StepPlan& plan) { return run(plan, 0, plan.sequences.size()); }

std::span<float> Runner::run_alone(const StepPlan& plan, size_t index) {
  return run(plan, index, index + 1);
}

/// Runs sequences [begin, end) of the plan.
std::span<float> Runner::run(const StepPlan& plan, size_t begin, size_t end) {
  clear();
  size_t stride = 0;
  for (size_t i = begin; i < end; ++i)
    for (size_t g = 0; g < groups_.size(); ++g)
      stride = std::max(stride, plan.block_table(i, g).size());
  for (size_t i = begin; i < end; ++i) add_sequence(plan, i, static_cast<int64_t>(stride));

  for (const BlockCopy& copy : plan.copies)
    if (static_cast<size_t>(copy.sequence) >= begin && static_cast<size_t>(copy.sequence) < end)
      groups_[static_cast<size_t>(copy.group)].copies.emplace_back(copy.from, copy.to);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (!group.copies.empty()) backend_.copy_blocks(*group.cache, group.copies);
    batches_[g] = {.query_start = query_start_,
                   .context_len = context_len_,
                   .block_tables = group.block_tables,
                   .block_table_stride = static_cast<int64_t>(stride),
                   .slots = group.slots};
  }

  const Tensor rows = logits_.view.slice(0, std::ssize(logit_rows_));
  const std::span<float> logits(rows.f32(), static_cast<size_t>(rows.num_elements()));
  model_->forward({.token_ids = token_ids_,
                   .positions = positions_,
                   .batches = batches_,
                   .caches = caches_,
                   .logit_rows = logit_rows_},
                  logits);
  return logits;
}

std::span<const ops::RowScan> Runner::scan(std::span<const float> logits, int64_t columns) {
  const int64_t stride = model_->info().vocab_size;
  scans_.resize(logits.size() / static_cast<size_t>(stride));
  backend_.scan_rows({.values = logits, .stride = stride, .columns = columns, .out = scans_});
  return scans_;
}

void Runner::clear() {
  for (auto* values : {&token_ids_, &positions_, &logit_rows_, &query_start_, &context_len_})
    values->clear();
  query_start_.push_back(0);
  for (Group& group : groups_) {
    group.block_tables.clear();
    group.slots.clear();
    group.copies.clear();
  }
}

/// Appends the tokens of one planned sequence to every table.
void Runner::add_sequence(const StepPlan& plan, size_t index, int64_t stride) {
  const PlannedSequence& planned = plan.sequences[index];
  for (int64_t position = planned.begin; position < planned.end(); ++position) {
    if (position >= planned.end() - planned.num_logits)
      logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()));
    token_ids_.push_back(planned.sequence->token(position));
    positions_.push_back(static_cast<int32_t>(position));
  }
  query_start_.push_back(static_cast<int32_t>(token_ids_.size()));
  context_len_.push_back(static_cast<int32_t>(planned.end()));

  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const auto table = plan.block_table(index, g);
    for (int64_t position = planned.begin; position < planned.end(); ++position) {
      const int32_t block = table[static_cast<size_t>(position / block_size_)];
      HASTEN_CHECK(block >= 0);
      group.slots.push_back(static_cast<int32_t>(block * block_size_ + position % block_size_));
    }
    group.block_tables.insert(group.block_tables.end(), table.begin(), table.end());
    group.block_tables.resize(
        group.block_tables.size() + static_cast<size_t>(stride) - table.size(), -1);
  }
}

}  // namespace hasten::engine
