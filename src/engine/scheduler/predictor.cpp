// SPDX-License-Identifier: Apache-2.0
// The table of length predictors, and the one that knows nothing but the limit.
#include "engine/scheduler/predictor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"

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
  std::string known;
  for (const PredictorKind* kind : predictors()) {
    if (kind->name == name) return *kind;
    known += (known.empty() ? "" : ", ") + std::string(kind->name);
  }
  fail_param("length_predictor", "unknown length predictor '{}'; known: {}", name, known);
}

int64_t tokens_of_log(double log_tokens) {
  constexpr double kMaxLog = 24 * std::numbers::ln2;  // 16 million tokens
  return std::max<int64_t>(1, std::llround(std::exp(std::clamp(log_tokens, 0.0, kMaxLog))));
}

}  // namespace hasten::engine
