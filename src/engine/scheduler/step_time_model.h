// SPDX-License-Identifier: Apache-2.0
// How long a step will take, learnt from those that ran.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hasten::engine {

/// What of a step takes time; windows are not counted on.
struct StepWork {
  int64_t tokens = 0;      // that run: multiplications with the weights
  int64_t keys = 0;        // of all sequences, once each: bytes read from the cache
  int64_t token_keys = 0;  // of every token those it sees: multiplications of attention

  /// Tokens [begin, begin + count) of a sequence run, too; with a sign of -1, no longer.
  void add(int64_t begin, int64_t count, int64_t sign = 1) {
    tokens += sign * count;
    keys += sign * (begin + count);
    token_keys += sign * (count * begin + count * (count + 1) / 2);
  }
};

/// time = fixed + a * tokens + b * keys + c * token_keys, fitted by recursive least squares that
/// forgets (Ljung, System Identification, 1999, section 11.2): old steps fade as contexts, batches
/// and the machine's load change. Weights are relative errors, so that short decode steps count as
/// much as long prefills. How far steps have been above their predictions lately tells what nearly
/// all of them keep to. One thread.
class StepTimeModel {
 public:
  /// The step took `us` microseconds, at least 1.
  void observe(const StepWork& work, int64_t us);
  /// Microseconds, at least 0; 0 before the first observation.
  double predict_us(const StepWork& work) const;
  /// What 19 of 20 steps with that work keep to, by how the last ones differed from predictions.
  double bound_us(const StepWork& work) const { return predict_us(work) * lateness_; }
  /// How much longer a step takes with more work in it, at least 0.
  double added_us(const StepWork& work) const {
    return std::max(0.0, predict_us(work) - predict_us({}));
  }
  /// Whether enough steps have been seen for a prediction to be worth anything.
  bool ready() const { return num_observed_ >= kMinObserved; }
  int64_t num_observed() const { return num_observed_; }
  /// Of the largest of the last steps, which the fit remembers. What tokens take is not known from
  /// steps of which all have few.
  int64_t most_tokens() const { return std::max(most_tokens_, most_tokens_before_); }

 private:
  static constexpr size_t kSize = 4;
  static constexpr int64_t kMinObserved = 8;
  static constexpr size_t kRecent = 128;  // steps: some seconds
  using Vector = std::array<double, kSize>;

  static Vector features(const StepWork& work);
  void compare(const StepWork& work, int64_t us);

  Vector coefficients_{};
  std::array<Vector, kSize> covariance_{};
  int64_t num_observed_ = 0;
  int64_t most_tokens_ = 0;               // of the steps since the last multiple of kRecent
  int64_t most_tokens_before_ = 0;        // of the kRecent steps before those
  std::array<double, kRecent> ratios_{};  // of the last steps, of their time to its prediction
  int64_t num_ratios_ = 0;                // ever
  double lateness_ = 1;                   // which one of twenty of them exceeds; at least 1
};

}  // namespace hasten::engine
