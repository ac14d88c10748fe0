// SPDX-License-Identifier: Apache-2.0
// Linear least squares for each of some places of the one bend, negative costs left out.
#include "engine/simulator/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/error.h"

namespace hasten::engine {
namespace {

constexpr size_t kMinSteps = 16;
constexpr size_t kNumBends = 48;  // places tried, evenly among the numbers of tokens measured
constexpr size_t kNumTerms = 5;
using Terms = std::array<double, kNumTerms>;  // base, tokens, sequences, key reads, key products

Terms terms_of(const StepRecord& step, double free_tokens) {
  return {1, std::max(0.0, static_cast<double>(step.tokens) - free_tokens),
          static_cast<double>(step.sequences), static_cast<double>(step.key_reads),
          static_cast<double>(step.key_products)};
}

double dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (size_t i = 0; i < kNumTerms; ++i) sum += a[i] * b[i];
  return sum;
}

/// Solves the normal equations for the terms in `use`; the others get 0. Terms that the steps
/// cannot tell apart share by the tiny ridge.
Terms solve(std::array<Terms, kNumTerms> matrix, Terms right,
            const std::array<bool, kNumTerms>& use) {
  for (size_t i = 0; i < kNumTerms; ++i) {
    if (use[i]) {
      matrix[i][i] *= 1 + 1e-9;
      continue;
    }
    for (size_t j = 0; j < kNumTerms; ++j) matrix[i][j] = matrix[j][i] = 0;
    matrix[i][i] = 1;
    right[i] = 0;
  }
  // Gauss; symmetric and positive, so without exchanging rows.
  for (size_t i = 0; i < kNumTerms; ++i) {
    if (!(matrix[i][i] > 0)) {  // a term that is 0 in every step
      matrix[i].fill(0);
      matrix[i][i] = 1;
      right[i] = 0;
    }
    for (size_t row = i + 1; row < kNumTerms; ++row) {
      const double factor = matrix[row][i] / matrix[i][i];
      for (size_t j = i; j < kNumTerms; ++j) matrix[row][j] -= factor * matrix[i][j];
      right[row] -= factor * right[i];
    }
  }
  Terms result{};
  for (size_t i = kNumTerms; i-- > 0;) {
    double value = right[i];
    for (size_t j = i + 1; j < kNumTerms; ++j) value -= matrix[i][j] * result[j];
    result[i] = value / matrix[i][i];
  }
  return result;
}

/// The costs that are not negative and fit best for one place of the bend.
Terms fit_terms(std::span<const StepRecord> steps, double free_tokens) {
  std::array<Terms, kNumTerms> matrix{};
  Terms right{};
  Terms scale{};  // of each term, or products with keys would drown the base in rounding
  for (const StepRecord& step : steps) {
    const Terms terms = terms_of(step, free_tokens);
    for (size_t i = 0; i < kNumTerms; ++i) scale[i] = std::max(scale[i], terms[i]);
  }
  for (double& value : scale) value = value > 0 ? value : 1;
  for (const StepRecord& step : steps) {
    Terms terms = terms_of(step, free_tokens);
    const double measured = std::max(1.0, static_cast<double>(step.duration_us));
    for (size_t i = 0; i < kNumTerms; ++i) terms[i] /= scale[i] * measured;
    for (size_t i = 0; i < kNumTerms; ++i) {
      for (size_t j = 0; j < kNumTerms; ++j) matrix[i][j] += terms[i] * terms[j];
      right[i] += terms[i];
    }
  }
  std::array<bool, kNumTerms> use{};
  use.fill(true);
  for (;;) {
    Terms result = solve(matrix, right, use);
    const auto least = std::min_element(result.begin(), result.end());
    if (*least >= 0) {
      for (size_t i = 0; i < kNumTerms; ++i) result[i] /= scale[i];
      return result;
    }
    use[static_cast<size_t>(least - result.begin())] = false;
  }
}

StepCosts costs_of(const Terms& terms, double free_tokens) {
  return {.base_us = terms[0],
          .free_tokens = free_tokens,
          .us_per_token = terms[1],
          .us_per_sequence = terms[2],
          .us_per_key_read = terms[3],
          .us_per_key_product = terms[4]};
}

double relative_error(const StepCosts& costs, const StepRecord& step) {
  const double measured = std::max(1.0, static_cast<double>(step.duration_us));
  return std::abs(predict_step_us(costs, step) - measured) / measured;
}

/// The best fit over all places of the bend.
StepCosts fit_bend(std::span<const StepRecord> steps) {
  std::vector<int64_t> tokens;
  tokens.reserve(steps.size());
  for (const StepRecord& step : steps) tokens.push_back(step.tokens);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  StepCosts best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k <= kNumBends; ++k) {
    const double bend =
        k == 0 ? 0 : static_cast<double>(tokens[(k - 1) * (tokens.size() - 1) / (kNumBends - 1)]);
    const StepCosts costs = costs_of(fit_terms(steps, bend), bend);
    double squares = 0;
    for (const StepRecord& step : steps) squares += std::pow(relative_error(costs, step), 2);
    if (squares >= least) continue;
    least = squares;
    best = costs;
  }
  return best;
}

/// What takes longer than so many times its prediction counts as that: the interruptions of a
/// shared machine are part of it, a pause of seconds is not.
constexpr double kMostInterrupted = 8;

/// Where times spread, relative errors are least for what is below the mean, and what was left out
/// is above it; but a queue is as long as the sum of the steps before it.
void scale_to_total(StepCosts& costs, std::span<const StepRecord> steps) {
  double measured = 0;
  double predicted = 0;
  for (const StepRecord& step : steps) {
    const double us = predict_step_us(costs, step);
    measured += std::min(static_cast<double>(step.duration_us), kMostInterrupted * us);
    predicted += us;
  }
  const double factor = measured / predicted;
  for (double* const cost : {&costs.base_us, &costs.us_per_token, &costs.us_per_sequence,
                             &costs.us_per_key_read, &costs.us_per_key_product})
    *cost *= factor;
}

}  // namespace

double predict_step_us(const StepCosts& costs, const StepRecord& step) {
  const Terms terms = terms_of(step, costs.free_tokens);
  return std::max(1.0, dot(terms, {costs.base_us, costs.us_per_token, costs.us_per_sequence,
                                   costs.us_per_key_read, costs.us_per_key_product}));
}

StepCostFit fit_costs(std::span<const StepRecord> steps) {
  if (steps.size() < kMinSteps)
    fail(ErrorCode::invalid_argument, "{} steps were measured; a fit takes at least {}",
         steps.size(), kMinSteps);
  const StepCosts first = fit_bend(steps);
  std::vector<StepRecord> kept(steps.begin(), steps.end());
  // Of what was predicted: of what was measured, slow steps would never be far off.
  const auto distance = [&](const StepRecord& step) {
    return std::abs(static_cast<double>(step.duration_us) / predict_step_us(first, step) - 1);
  };
  std::ranges::sort(kept, {}, distance);
  kept.resize(kept.size() - kept.size() / 10);
  StepCostFit fit{.costs = fit_bend(kept)};
  scale_to_total(fit.costs, steps);
  for (const StepRecord& step : steps) fit.mean_error += relative_error(fit.costs, step);
  fit.mean_error /= static_cast<double>(steps.size());
  return fit;
}

}  // namespace hasten::engine
