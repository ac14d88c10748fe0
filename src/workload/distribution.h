// SPDX-License-Identifier: Apache-2.0
// Distribution: quantiles of any number of values in little memory.
#pragma once

#include <cstdint>
#include <vector>

namespace hasten::workload {

/// A histogram whose buckets are as wide as 1/128 of their values (as HdrHistogram's): quantiles
/// are exact below 256 and within 0.4 % above, in at most 58 KB. Count, mean, least and greatest
/// are exact. One thread.
class Distribution {
 public:
  /// `value` from 0 on.
  void add(int64_t value);

  int64_t count() const { return count_; }
  int64_t min() const { return min_; }  // 0 when empty, as all below
  int64_t max() const { return max_; }
  double mean() const;
  /// The least value that at least the fraction `q` in (0, 1] of all does not exceed.
  int64_t quantile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
};

}  // namespace hasten::workload
