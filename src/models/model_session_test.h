// SPDX-License-Identifier: Apache-2.0
// One sequence on one model on the reference backend, for tests: paged caches and a scattered
// table.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "ops/reference/reference_backend.h"

namespace hasten::models {

/// Feeds tokens to a model and keeps its caches. Blocks of the sequence lie in no order, and a
/// group with a window is not given those that lie wholly before it.
class ModelSession {
 public:
  static constexpr int64_t kMaxTokens = 512;
  static constexpr int64_t kBlockSize = 16;

  /// `served`: tokens that a sequence may reach, 0 for those of the options, or the model's own.
  ModelSession(const weights::Checkpoint& checkpoint, const LoadOptions& options = {},
               std::unique_ptr<ops::Backend> backend = ops::make_reference_backend(),
               int64_t served = 0)
      : backend_(std::move(backend)), model_(load_model(checkpoint, *backend_, options)) {
    if (served == 0) served = options.context;
    model_->reserve(kMaxTokens, 4, served > 0 ? served : model_->info().max_context);
    for (const CacheGroup& group : model_->cache_groups()) {
      caches_.push_back(
          backend_->make_kv_cache({.num_layers = group.num_layers,
                                   .num_blocks = kNumBlocks,
                                   .block_size = kBlockSize,
                                   .num_kv_heads = group.num_kv_heads,
                                   .head_dim = group.head_dim,
                                   .types = {.keys = DType::f32, .values = DType::f32}}));
      cache_pointers_.push_back(caches_.back().get());
    }
    for (int32_t i = 0; i < kNumBlocks; ++i) block_table_.push_back((i * 7 + 3) % kNumBlocks);
  }

  Model& model() { return *model_; }
  int64_t vocab_size() const { return model_->info().vocab_size; }

  /// Starts an empty sequence.
  void reset() { length_ = 0; }

  /// Appends `ids` and returns the logits of those among them that `rows` names.
  std::vector<float> feed(std::span<const int32_t> ids, std::span<const int32_t> rows) {
    std::vector<int32_t> positions, slots;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t position = length_++;
      positions.push_back(position);
      slots.push_back(block_table_[static_cast<size_t>(position / kBlockSize)] *
                          static_cast<int32_t>(kBlockSize) +
                      position % static_cast<int32_t>(kBlockSize));
    }
    const std::vector<int32_t> query_start = {0, static_cast<int32_t>(ids.size())};
    std::vector<std::vector<int32_t>> tables;
    for (const CacheGroup& group : model_->cache_groups())
      tables.push_back(visible_blocks(group, positions.front()));
    std::vector<ops::PagedBatch> batches;
    for (const std::vector<int32_t>& table : tables) {
      batches.push_back({.query_start = query_start,
                         .context_len = {&length_, 1},
                         .block_tables = table,
                         .block_table_stride = kNumBlocks,
                         .slots = slots});
    }
    std::vector<float> logits(rows.size() * static_cast<size_t>(vocab_size()));
    model_->forward({.token_ids = ids,
                     .positions = positions,
                     .batches = batches,
                     .caches = cache_pointers_,
                     .logit_rows = rows},
                    logits);
    return logits;
  }

  /// Logits of every token of a new sequence, fed `chunk` at a time: [ids.size(), vocab_size].
  std::vector<float> logits(std::span<const int32_t> ids, size_t chunk = kMaxTokens) {
    reset();
    std::vector<float> result;
    for (size_t begin = 0; begin < ids.size(); begin += chunk) {
      const auto piece = ids.subspan(begin, std::min(chunk, ids.size() - begin));
      std::vector<int32_t> rows(piece.size());
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
      const std::vector<float> part = feed(piece, rows);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  /// The first `count` tokens that follow the prompt when the likeliest is always taken; fewer when
  /// one of `stop` comes.
  std::vector<int32_t> greedy(std::span<const int32_t> prompt, size_t count,
                              std::span<const int32_t> stop = {}) {
    reset();
    std::vector<int32_t> result;
    const int32_t last_row = static_cast<int32_t>(prompt.size()) - 1;
    std::vector<float> last = feed(prompt, {&last_row, 1});
    while (true) {
      const auto next =
          static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
      if (std::find(stop.begin(), stop.end(), next) != stop.end()) return result;
      result.push_back(next);
      if (result.size() == count) return result;
      const int32_t row = 0;
      last = feed({&next, 1}, {&row, 1});
    }
  }

 private:
  /// The block table with -1 for blocks that no query from `first_position` on can see.
  std::vector<int32_t> visible_blocks(const CacheGroup& group, int64_t first_position) const {
    std::vector<int32_t> table = block_table_;
    if (group.window > 0) {
      const int64_t first_visible = std::max<int64_t>(0, first_position - group.window + 1);
      std::fill_n(table.begin(), first_visible / kBlockSize, -1);
    }
    return table;
  }

  static constexpr int32_t kNumBlocks = 40;  // no multiple of 7, so that 7 i + 3 meets all

  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<ops::KvCache>> caches_;
  std::vector<ops::KvCache*> cache_pointers_;
  std::vector<int32_t> block_table_;
  int32_t length_ = 0;  // tokens in the cache
};

}  // namespace hasten::models
