// SPDX-License-Identifier: Apache-2.0
// The table of length predictors, and the one that knows nothing but the limit.
#include "engine/scheduler/predictor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/scheduler/find_named.h"

namespace hasten::engine {
namespace {

class LimitPredictor : public LengthPredictor {
 public:
  int64_t predict(const Sequence& /*sequence*/) const override { return 0; }
  void learn(const Sequence& /*sequence*/) override {}
};

}  // namespace

const PredictorKind kLimitPredictor = {
    .name = "limit",
    .summary = "an answer is taken to become as long as max_tokens allows",
    .make = []() -> std::unique_ptr<LengthPredictor> {
      return std::make_unique<LimitPredictor>();
    }};

std::span<const PredictorKind* const> predictors() {
  static constexpr std::array kPredictors = {&kLimitPredictor, &kHistoryPredictor,
                                             &kOnlinePredictor};
  return kPredictors;
}

const PredictorKind& find_predictor(std::string_view name) {
  return find_named(predictors(), name, "length_predictor", "--length-predictor");
}

int64_t tokens_of_log(double log_tokens) {
  constexpr double kMaxLog = 24 * std::numbers::ln2;  // 16 million tokens
  return std::max<int64_t>(1, std::llround(std::exp(std::clamp(log_tokens, 0.0, kMaxLog))));
}

}  // namespace hasten::engine
