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
/// much as long prefills. One thread.
class StepTimeModel {
 public:
  /// The step took `us` microseconds, at least 1.
  void observe(const StepWork& work, int64_t us);
  /// Microseconds, at least 0; 0 before the first observation.
  double predict_us(const StepWork& work) const;
  /// How much longer a step takes with more work in it, at least 0.
  double added_us(const StepWork& work) const {
    return std::max(0.0, predict_us(work) - predict_us({}));
  }
  /// Whether enough steps have been seen for a prediction to be worth anything.
  bool ready() const { return num_observed_ >= kMinObserved; }

 private:
  static constexpr size_t kSize = 4;
  static constexpr int64_t kMinObserved = 8;
  using Vector = std::array<double, kSize>;

  static Vector features(const StepWork& work);

  Vector coefficients_{};
  std::array<Vector, kSize> covariance_{};
  int64_t num_observed_ = 0;
};

}  // namespace hasten::engine
