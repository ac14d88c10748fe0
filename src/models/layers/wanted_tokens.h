// SPDX-License-Identifier: Apache-2.0
// Which tokens of a step the last layer is computed for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace hasten::models {

/// Of each sequence of a step, the tokens from the first one on whose logits are wanted: those of a
/// batch are the last ones of their sequences. Others leave keys and values in the last layer, and
/// nothing else of them is ever read: a prompt needs the rest of it for its last token alone, and a
/// chunk before that for none.
class WantedTokens {
 public:
  /// For steps up to these sizes, so that no step allocates.
  void reserve(int64_t max_tokens, int64_t max_sequences, size_t num_groups);
  /// Looks at a step, which must outlive what input() returns, and returns whether some of its
  /// tokens are not wanted. Only then is there more to know.
  [[nodiscard]] bool leave_some(const ForwardInput& step);

  /// Token indices of the step, ascending.
  [[nodiscard]] std::span<const int32_t> rows() const { return rows_; }
  /// A step of these tokens alone, whose keys and values are written: with the same sequences, of
  /// which some may have no token left, and the same logits.
  [[nodiscard]] ForwardInput input() const;

 private:
  std::span<ops::KvCache* const> caches_;
  std::vector<int32_t> rows_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> logit_rows_;
  std::vector<int32_t> query_start_;
  std::vector<std::vector<int32_t>> slots_;  // of each cache group
  std::vector<ops::PagedBatch> batches_;     // likewise
};

}  // namespace hasten::models
