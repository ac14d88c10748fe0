// SPDX-License-Identifier: Apache-2.0
// Random gaps by counter, so that request i comes at the same time however many follow.
#include "workload/arrivals.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"

namespace hasten::workload {
namespace {

/// Uniform numbers in (0, 1] of one request.
class Draws {
 public:
  Draws(uint64_t seed, size_t index) : seed_(seed), index_(static_cast<int64_t>(index)) {}
  double next() { return 1.0 - uniform(seed_, stream_++, index_); }

 private:
  const uint64_t seed_;
  const int64_t index_;
  int32_t stream_ = 0;
};

/// Gamma distributed with that shape and scale 1 (Marsaglia and Tsang, 2000).
double gamma(double shape, Draws& draws) {
  if (shape < 1) {
    const double boost = std::pow(draws.next(), 1 / shape);
    return gamma(shape + 1, draws) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    // Normally distributed (Box and Muller, 1958).
    const double radius = std::sqrt(-2 * std::log(draws.next()));
    const double x = radius * std::cos(2 * std::numbers::pi * draws.next());
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(draws.next()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

/// A gap with mean 1.
double unit_gap(double cv, Draws draws) {
  if (cv == 0) return 1;
  if (cv == 1) return -std::log(draws.next());
  const double shape = 1 / (cv * cv);
  return gamma(shape, draws) / shape;
}

}  // namespace

std::vector<int64_t> arrival_times_us(const Trace& trace, const Arrivals& arrivals) {
  HASTEN_CHECK(arrivals.rate >= 0 && arrivals.cv >= 0 && arrivals.speed > 0);
  if (arrivals.rate == 0 && !trace.has_times)
    fail(ErrorCode::invalid_argument,
         "the trace has no times: give a --rate of requests per second, or a number of --users");
  std::vector<int64_t> times(trace.requests.size());
  double time_us = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (arrivals.rate == 0) {
      time_us = static_cast<double>(trace.requests[i].time_us) / arrivals.speed;
    } else if (i > 0 && trace.requests[i].follows < 0) {
      time_us += unit_gap(arrivals.cv, Draws(arrivals.seed, i)) * 1e6 / arrivals.rate;
    }
    if (!(time_us <= static_cast<double>(kMaxSeconds) * 1e6))
      fail(ErrorCode::invalid_argument,
           "request {} would come after {:.4g} seconds; {} are the most: ask for fewer requests, a "
           "higher --rate or a higher --speed",
           i + 1, time_us * 1e-6, kMaxSeconds);
    times[i] = std::llround(time_us);
  }
  return times;
}

}  // namespace hasten::workload
