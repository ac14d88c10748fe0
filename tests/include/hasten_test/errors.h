// SPDX-License-Identifier: Apache-2.0
// How far numbers are from those that they should be.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace hasten::testing {

/// ‖found − expected‖ / ‖expected‖ over the length of `expected`; NaN where either has one, and
/// infinity where `found` is shorter.
template <class Found, class Expected>
double norm_error(const Found& found, const Expected& expected) {
  if (found.size() < expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    difference += error * error;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(difference / norm);
}

/// Largest |found − expected| over the largest |expected|; likewise.
template <class Found, class Expected>
double largest_error(const Found& found, const Expected& expected) {
  if (found.size() < expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = std::abs(static_cast<double>(expected[i]));
    const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (!(error <= difference)) difference = error;  // keeps NaN
    if (!(value <= largest)) largest = value;
  }
  return difference / largest;
}

}  // namespace hasten::testing
