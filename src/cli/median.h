// SPDX-License-Identifier: Apache-2.0
// What a benchmark reports of its rounds.
#pragma once

#include <algorithm>
#include <vector>

namespace hasten::cli {

/// The middle one, or the mean of the two in the middle; there is at least one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace hasten::cli
