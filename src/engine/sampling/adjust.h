// SPDX-License-Identifier: Apache-2.0
// Changes to logits before a token is chosen: bias, penalties, tokens that are out of the question.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hasten/request.h"

namespace hasten::engine {

/// One thread; keeps room for counting.
class LogitAdjuster {
 public:
  explicit LogitAdjuster(int64_t vocab_size) : counts_(static_cast<size_t>(vocab_size), 0) {}

  /// Applies, in this order: logit bias; the repetition penalty to tokens of the prompt and of the
  /// answer (Keskar et al., CTRL, 2019: positive logits are divided, others multiplied); presence
  /// and frequency penalties to tokens of the answer (as in OpenAI's API); -inf for `banned`
  /// tokens. Results stay below +inf. All ids are in the vocabulary.
  void adjust(std::span<float> logits, const Sampling& sampling, std::span<const int32_t> prompt,
              std::span<const int32_t> generated, std::span<const int32_t> banned);
  /// Whether a logit may become larger.
  static bool may_raise(const Sampling& sampling);

 private:
  std::vector<int32_t> counts_;  // by token id; all zero between calls
};

}  // namespace hasten::engine
