// SPDX-License-Identifier: Apache-2.0
// Recursive least squares with forgetting.
#include "engine/scheduler/step_time_model.h"

#include <algorithm>
#include <utility>

namespace hasten::engine {
namespace {

// A step fades to a third after as many steps: seconds of decoding.
constexpr double kForgetting = 1.0 - 1.0 / 200;
// Of coefficients about which nothing is known: 10 s. Features are about 1 for a large step.
constexpr double kVariance = 1e7 * 1e7;
// What the trace of the covariance is held to while steps tell nothing new, or it would grow
// without bound and one odd step throw the fit over (Astrom and Wittenmark, 1995, section 11.5).
constexpr double kMaxTrace = 4 * kVariance;

}  // namespace

StepTimeModel::Vector StepTimeModel::features(const StepWork& work) {
  return {1.0, static_cast<double>(work.tokens) * 0x1p-9, static_cast<double>(work.keys) * 0x1p-13,
          static_cast<double>(work.token_keys) * 0x1p-20};
}

double StepTimeModel::predict_us(const StepWork& work) const {
  const Vector x = features(work);
  double us = 0;
  for (size_t i = 0; i < kSize; ++i) us += coefficients_[i] * x[i];
  return std::max(0.0, us);
}

void StepTimeModel::compare(const StepWork& work, int64_t us) {
  const double predicted = predict_us(work);
  if (!ready() || predicted <= 0) return;
  ratios_[static_cast<size_t>(num_ratios_++) % kRecent] = static_cast<double>(us) / predicted;
  std::array<double, kRecent> sorted = ratios_;
  const std::ptrdiff_t count = std::min<int64_t>(num_ratios_, kRecent);
  const auto nearly_last = sorted.begin() + count * 19 / 20;
  std::nth_element(sorted.begin(), nearly_last, sorted.begin() + count);
  lateness_ = std::max(1.0, *nearly_last);
}

void StepTimeModel::observe(const StepWork& work, int64_t us) {
  compare(work, us);
  if (num_observed_ == 0) {
    for (size_t i = 0; i < kSize; ++i) covariance_[i][i] = kVariance;
    // Before more is known, all of the time is fixed.
    coefficients_[0] = static_cast<double>(us);
  }
  if (num_observed_++ % int64_t{kRecent} == 0) most_tokens_before_ = std::exchange(most_tokens_, 0);
  most_tokens_ = std::max(most_tokens_, work.tokens);
  // Divided by the time itself, an error is a relative one.
  Vector x = features(work);
  for (double& value : x) value /= static_cast<double>(std::max<int64_t>(us, 1));
  double error = 1;
  for (size_t i = 0; i < kSize; ++i) error -= coefficients_[i] * x[i];

  Vector projected{};  // covariance * x
  double variance = kForgetting;
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) projected[i] += covariance_[i][j] * x[j];
    variance += projected[i] * x[i];
  }
  double trace = 0;
  for (size_t i = 0; i < kSize; ++i) {
    coefficients_[i] += projected[i] / variance * error;
    for (size_t j = 0; j < kSize; ++j) covariance_[i][j] -= projected[i] * projected[j] / variance;
    trace += covariance_[i][i];
  }
  if (trace / kForgetting > kMaxTrace) return;
  for (Vector& row : covariance_)
    for (double& value : row) value /= kForgetting;
}

}  // namespace hasten::engine
