// SPDX-License-Identifier: Apache-2.0
// Lengths by regression that learns with each answer, on features of a prompt that cost nothing.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "engine/scheduler/predictor.h"

namespace hasten::engine {
namespace {

constexpr size_t kNumWeights = 1 << 14;  // of hashed features (0.25 MB); a power of two
constexpr double kLearningRate = 0.1;
constexpr double kFirstGuess = 4.85;  // of the logarithm: 128 tokens
// Larger errors count as so large, as those of the heavy tail would drag all else along (Huber).
constexpr double kMaxError = 0.5;
constexpr size_t kPrefixTokens = 16;  // by which prompts of one template know each other

/// The logarithm of the length as a sum of weights, one for each feature: the length of the prompt
/// from coarse to exact, its tenant, how it begins and ends, and the stated limit. Features are
/// hashed into one table (Weinberger et al., Feature hashing, 2009), each weight has its own rate
/// (Duchi et al., AdaGrad, 2011).
class OnlinePredictor : public LengthPredictor {
 public:
  int64_t predict(const Sequence& sequence) const override {
    return num_learnt_ == 0 ? 0 : tokens_of_log(sum(features(sequence)));
  }

  void learn(const Sequence& sequence) override {
    ++num_learnt_;
    const Features active = features(sequence);
    const double value =
        std::log(static_cast<double>(std::max<size_t>(1, sequence.generated.size())));
    const double error = std::clamp(value - sum(active), -kMaxError, kMaxError);
    for (const size_t feature : active) {
      Weight& weight = weights_[feature];
      weight.squares += error * error;
      if (weight.squares > 0) weight.value += kLearningRate * error / std::sqrt(weight.squares);
    }
  }

 private:
  struct Weight {
    double value = 0;
    double squares = 0;  // of the errors that it was part of
  };
  static constexpr size_t kNumFeatures = 12;
  using Features = std::array<size_t, kNumFeatures>;  // indices in weights_

  static Features features(const Sequence& sequence) {
    const double doublings = std::log2(static_cast<double>(sequence.num_prompt()));
    const auto step = [doublings](double per_doubling) {
      return static_cast<uint64_t>(per_doubling * doublings);
    };
    uint64_t prefix = 0;
    for (const int32_t token :
         sequence.prompt.first(std::min(sequence.prompt.size(), kPrefixTokens)))
      prefix = mix64(prefix ^ static_cast<uint32_t>(token));
    const uint64_t tenant = hash_bytes(sequence.tenant);
    const auto last = static_cast<uint64_t>(static_cast<uint32_t>(sequence.prompt.back()));
    const auto limit = static_cast<uint64_t>(
        4 * std::log2(static_cast<double>(std::max<int64_t>(1, sequence.max_generated))));
    const std::array<uint64_t, kNumFeatures> values = {
        0,        step(1), step(2), step(4), step(8), step(16),
        step(32), tenant,  prefix,  last,    limit,   tenant ^ step(4),
    };
    Features indices{};
    for (size_t i = 0; i < kNumFeatures; ++i)
      indices[i] = mix64(values[i] ^ mix64(i + 1)) & (kNumWeights - 1);
    return indices;
  }

  double sum(const Features& active) const {
    double total = kFirstGuess;
    for (const size_t feature : active) total += weights_[feature].value;
    return total;
  }

  std::vector<Weight> weights_ = std::vector<Weight>(kNumWeights);
  int64_t num_learnt_ = 0;
};

}  // namespace

const PredictorKind kOnlinePredictor = {
    .name = "online",
    .summary = "by a regression on the prompt that learns with each answer",
    .make = []() -> std::unique_ptr<LengthPredictor> {
      return std::make_unique<OnlinePredictor>();
    }};

}  // namespace hasten::engine
