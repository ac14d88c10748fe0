// SPDX-License-Identifier: Apache-2.0
// One prompt through a model, without the engine: the logits of every token.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "models/model.h"

namespace hasten::testing {

/// Reads `tokens` in one step from an empty cache of `kv_types` and returns the logits
/// [num_tokens, vocab_size].
inline std::vector<float> all_logits(models::Model& model, ops::Backend& backend,
                                     const std::vector<int32_t>& tokens, ops::KvTypes kv_types) {
  constexpr int64_t kBlockSize = 16;
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const int64_t num_blocks = ceil_div(num_tokens, kBlockSize);
  model.reserve(num_tokens, num_tokens, num_blocks * kBlockSize);

  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  // Blocks in reverse, so that a table that is not used shows.
  std::vector<int32_t> table(static_cast<size_t>(num_blocks));
  std::iota(table.rbegin(), table.rend(), 0);
  std::vector<int32_t> slots(tokens.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = table[i / kBlockSize] * static_cast<int32_t>(kBlockSize) +
               static_cast<int32_t>(i % kBlockSize);
  }
  const std::vector<int32_t> query_start{0, static_cast<int32_t>(num_tokens)};
  const std::vector<int32_t> context_len{static_cast<int32_t>(num_tokens)};
  const ops::PagedBatch batch{.query_start = query_start,
                              .context_len = context_len,
                              .block_tables = table,
                              .block_table_stride = num_blocks,
                              .slots = slots};
  std::vector<ops::PagedBatch> batches;
  std::vector<std::unique_ptr<ops::KvCache>> owners;
  std::vector<ops::KvCache*> caches;
  for (const models::CacheGroup& group : model.cache_groups()) {
    owners.push_back(backend.make_kv_cache({.num_layers = group.num_layers,
                                            .num_blocks = num_blocks,
                                            .block_size = kBlockSize,
                                            .num_kv_heads = group.num_kv_heads,
                                            .head_dim = group.head_dim,
                                            .types = kv_types}));
    caches.push_back(owners.back().get());
    batches.push_back(batch);
  }
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model.info().vocab_size));
  model.forward({.token_ids = tokens,
                 .positions = positions,
                 .batches = batches,
                 .caches = caches,
                 .logit_rows = positions},
                logits);
  return logits;
}

}  // namespace hasten::testing
