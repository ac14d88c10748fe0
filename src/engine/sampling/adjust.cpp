// SPDX-License-Identifier: Apache-2.0
// Bias and penalties: linear in the tokens that they touch, not in the vocabulary.
#include "engine/sampling/adjust.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace hasten::engine {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

float& at(std::span<float> logits, int32_t id) { return logits[static_cast<size_t>(id)]; }

}  // namespace

void LogitAdjuster::adjust(std::span<float> logits, const Sampling& sampling,
                           std::span<const int32_t> prompt, std::span<const int32_t> generated,
                           std::span<const int32_t> banned) {
  for (const auto& [id, bias] : sampling.logit_bias)
    at(logits, id) = std::min(at(logits, id) + bias, kLargest);

  // Each distinct token is handled at its first occurrence, when its mark is still zero.
  const float repetition = sampling.repetition_penalty;
  if (repetition != 1.0F) {
    const auto penalise = [&](int32_t id) {
      if (counts_[static_cast<size_t>(id)]++ > 0) return;
      float& logit = at(logits, id);
      logit = logit > 0.0F ? std::min(logit / repetition, kLargest) : logit * repetition;
    };
    std::ranges::for_each(prompt, penalise);
    std::ranges::for_each(generated, penalise);
    for (const int32_t id : prompt) counts_[static_cast<size_t>(id)] = 0;
    for (const int32_t id : generated) counts_[static_cast<size_t>(id)] = 0;
  }

  if (sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F) {
    for (const int32_t id : generated) ++counts_[static_cast<size_t>(id)];
    for (const int32_t id : generated) {
      int32_t& count = counts_[static_cast<size_t>(id)];
      if (count == 0) continue;
      at(logits, id) -=
          sampling.presence_penalty + sampling.frequency_penalty * static_cast<float>(count);
      count = 0;
    }
  }

  for (const int32_t id : banned) at(logits, id) = -std::numeric_limits<float>::infinity();
}

bool LogitAdjuster::may_raise(const Sampling& sampling) {
  return !sampling.logit_bias.empty() || sampling.repetition_penalty < 1.0F ||
         sampling.presence_penalty < 0.0F || sampling.frequency_penalty < 0.0F;
}

}  // namespace hasten::engine
