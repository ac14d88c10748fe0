// SPDX-License-Identifier: Apache-2.0
// Finds the tokens that the last layer is computed for.
#include "models/layers/wanted_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace hasten::models {

void WantedTokens::reserve(int64_t max_tokens, int64_t max_sequences, size_t num_groups) {
  const auto tokens = static_cast<size_t>(max_tokens);
  for (auto* values : {&rows_, &token_ids_, &positions_, &logit_rows_}) values->reserve(tokens);
  query_start_.reserve(static_cast<size_t>(max_sequences) + 1);
  slots_.resize(num_groups);
  for (auto& slots : slots_) slots.reserve(tokens);
  batches_.reserve(num_groups);
}

bool WantedTokens::leave_some(const ForwardInput& step) {
  if (step.logit_rows.size() == step.token_ids.size()) return false;  // decodes
  const auto starts = step.batches.front().query_start;
  HASTEN_CHECK(!starts.empty() && starts.front() == 0 &&
               starts.back() == std::ssize(step.token_ids));
  for (auto* values : {&rows_, &token_ids_, &positions_, &logit_rows_, &query_start_})
    values->clear();
  query_start_.push_back(0);
  auto next = step.logit_rows.begin();
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int32_t end = starts[s + 1];
    int32_t row = next == step.logit_rows.end() ? end : std::min(*next, end);
    for (; row < end; ++row) {
      if (next != step.logit_rows.end() && *next == row) {
        logit_rows_.push_back(static_cast<int32_t>(rows_.size()));
        ++next;
      }
      rows_.push_back(row);
      token_ids_.push_back(step.token_ids[static_cast<size_t>(row)]);
      positions_.push_back(step.positions[static_cast<size_t>(row)]);
    }
    query_start_.push_back(static_cast<int32_t>(rows_.size()));
  }
  HASTEN_CHECK(next == step.logit_rows.end());
  caches_ = step.caches;
  batches_.clear();
  for (size_t g = 0; g < slots_.size(); ++g) {
    slots_[g].clear();
    for (const int32_t row : rows_)
      slots_[g].push_back(step.batches[g].slots[static_cast<size_t>(row)]);
    batches_.push_back(step.batches[g]);
    batches_[g].query_start = query_start_;
    batches_[g].slots = slots_[g];
  }
  return rows_.size() < step.token_ids.size();
}

ForwardInput WantedTokens::input() const {
  return {.token_ids = token_ids_,
          .positions = positions_,
          .batches = batches_,
          .caches = caches_,
          .logit_rows = logit_rows_};
}

}  // namespace hasten::models
