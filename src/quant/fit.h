// SPDX-License-Identifier: Apache-2.0
// Rounding, and the least-squares searches for scales that the encoders share.
//
// Everything is double: an input of any finite size, subnormals included, neither overflows nor
// divides by zero on its way. Internal linkage, because files compiled for one instruction set
// include the block headers.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/half.h"

namespace hasten::quant {

/// Divides by a step and rounds to the nearest integer, ties to even.
struct Rounder {
  double inverse;
  /// A step of 0 takes everything to 0.
  explicit Rounder(double step) : inverse(step == 0 ? 0 : 1 / step) {}
  /// The integer in [low, high] nearest to value / step.
  int operator()(double value, int low, int high) const {
    // Where doubles are a whole number apart, adding rounds as the hardware does, without a call.
    constexpr double kWhole = 0x1.8p52;
    const double ratio = value * inverse;
    const double clamped = ratio > low ? (ratio < high ? ratio : high) : low;
    return static_cast<int>(clamped + kWhole - kWhole);
  }
};

/// The nearest finite binary16: what is too large saturates.
static inline uint16_t finite_f16(double value) {
  constexpr float kLargest = 65504.0F;
  const auto narrow = static_cast<float>(value);
  return f32_to_f16(narrow > kLargest ? kLargest : narrow < -kLargest ? -kLargest : narrow);
}

/// The element of largest magnitude, with its sign.
static inline double signed_peak(const float* x, int count) {
  double peak = 0;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(double{x[i]}) > std::fabs(peak)) peak = x[i];
  }
  return peak;
}

struct Range {
  double low;
  double high;
};

/// The least and the greatest element.
static inline Range range_of(const float* x, int count) {
  Range range{x[0], x[0]};
  for (int i = 1; i < count; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return range;
}

/// The scale s that minimises sum (x - s q)^2 with q = round(x / s) in [-limit, limit - 1], of some
/// twenty tried around the one that takes the peak to -limit. May be negative; 0 for zeros.
static inline double fit_scale(const float* x, int count, int limit) {
  const double peak = signed_peak(x, count);
  double best_scale = 0;
  double best_gain = 0;
  for (int trial = -9; trial <= 9; ++trial) {
    const Rounder round(peak / -(limit + 0.1 * trial));
    double sum_xq = 0;
    double sum_qq = 0;
    for (int i = 0; i < count; ++i) {
      const int q = round(x[i], -limit, limit - 1);
      sum_xq += double{x[i]} * q;
      sum_qq += q * q;
    }
    // With the best scale for these q the squared error is sum x^2 - sum_xq^2 / sum_qq.
    if (sum_qq > 0 && sum_xq / sum_qq * sum_xq > best_gain) {
      best_gain = sum_xq / sum_qq * sum_xq;
      best_scale = sum_xq / sum_qq;
    }
  }
  return best_scale;
}

/// An element is scale * q - offset, both at least 0.
struct ScaleOffset {
  double scale = 0;
  double offset = 0;
};

/// The scale and offset that minimise sum (x - (scale q - offset))^2 with q in [0, levels], of some
/// twenty tried around the ones that span [min(x, 0), max(x)].
static inline ScaleOffset fit_scale_offset(const float* x, int count, int levels) {
  const auto [least, high] = range_of(x, count);
  const double low = least < 0 ? least : 0;
  if (high <= low) return {0, -low};  // all equal and at most 0
  ScaleOffset best{(high - low) / levels, -low};
  double best_error = INFINITY;
  for (int trial = -10; trial <= 10; ++trial) {
    const Rounder round((high - low) / (levels + 0.1 * trial));
    double sum_q = 0;
    double sum_qq = 0;
    double sum_x = 0;
    double sum_xq = 0;
    double sum_xx = 0;
    for (int i = 0; i < count; ++i) {
      const double q = round(x[i] - low, 0, levels);
      sum_q += q;
      sum_qq += q * q;
      sum_x += x[i];
      sum_xq += x[i] * q;
      sum_xx += double{x[i]} * x[i];
    }
    // Normal equations of x ~ scale q - offset for these q; an offset below 0 is held at 0.
    const double determinant = count * sum_qq - sum_q * sum_q;
    if (determinant <= 0) continue;
    ScaleOffset fit{(count * sum_xq - sum_x * sum_q) / determinant,
                    (sum_q * sum_xq - sum_qq * sum_x) / determinant};
    if (fit.offset < 0) fit = {sum_xq / sum_qq, 0};
    const double error = sum_xx + fit.scale * fit.scale * sum_qq + fit.offset * fit.offset * count -
                         2 * fit.scale * sum_xq + 2 * fit.offset * sum_x -
                         2 * fit.scale * fit.offset * sum_q;
    if (fit.scale > 0 && error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

}  // namespace hasten::quant
