// SPDX-License-Identifier: Apache-2.0
// What one pass over a row of logits tells: its largest value, and whether it is sound.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace hasten::ops {

struct RowScan {
  int64_t likeliest = 0;  // where the first of the largest is; 0 where nothing is above -inf
  float most = -std::numeric_limits<float>::infinity();  // the largest, but for NaN
  int64_t num_not_finite = 0;  // NaN or +inf; -inf is a model's way to rule a token out

  /// Makes this scan of a row's first elements one of those of `next`, too, which begin at `first`.
  void join(const RowScan& next, int64_t first) {
    if (next.most > most) {
      most = next.most;
      likeliest = first + next.likeliest;
    }
    num_not_finite += next.num_not_finite;
  }
};

/// On the calling thread.
RowScan scan_row(std::span<const float> row);

}  // namespace hasten::ops
