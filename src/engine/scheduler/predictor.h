// SPDX-License-Identifier: Apache-2.0
// LengthPredictor: how long an answer will be, learnt from those that have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// Guesses lengths for policies that go by them. What it says decides order and never a token.
/// Everything it keeps is of a fixed size, whatever tenants and prompts come. One thread.
class LengthPredictor {
 public:
  virtual ~LengthPredictor() = default;

  /// Sequence::generated.size() at the end, as expected; 0: nothing is known but max_generated.
  virtual int64_t predict(const Sequence& sequence) const = 0;
  /// A sequence has ended, with all that it generated: by itself, or at its limit, which is then
  /// taken for its length. Not where it failed or nobody wanted it any more.
  virtual void learn(const Sequence& sequence) = 0;
};

/// A way to predict, as users choose it.
struct PredictorKind {
  std::string_view name;
  std::string_view summary;  // one line
  std::unique_ptr<LengthPredictor> (*make)();
};

extern const PredictorKind kLimitPredictor;
extern const PredictorKind kHistoryPredictor;
extern const PredictorKind kOnlinePredictor;

/// Those that there are, the default first.
std::span<const PredictorKind* const> predictors();

/// The predictor of that name. Throws Error{invalid_argument} that lists the known ones.
const PredictorKind& find_predictor(std::string_view name);

/// exp of a predicted logarithm, as a number of tokens: at least 1, and no more than a sequence may
/// ever have, whatever was learnt.
int64_t tokens_of_log(double log_tokens);

}  // namespace hasten::engine
