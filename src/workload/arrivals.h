// SPDX-License-Identifier: Apache-2.0
// When the requests of an open-loop workload come: at a trace's times or by a random process.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/trace.h"

namespace hasten::workload {

struct Arrivals {
  double rate = 0;    // requests per second on average; 0: the trace's own times
  double cv = 1;      // coefficient of variation of the gaps: 0 regular, 1 Poisson, more: bursts
  double speed = 1;   // of the trace's own times: 2 makes them come twice as fast
  uint64_t seed = 0;  // the same seed gives the same times
};

/// Microseconds of each request of the trace, in order; the first comes at 0. One that follows
/// another has the time of the one before it, which means nothing. Gaps are gamma
/// distributed with mean 1 / rate and the given coefficient of variation; each depends on its seed
/// and index alone. Throws Error{invalid_argument} for trace times that a trace has not,
/// and for times beyond kMaxSeconds.
std::vector<int64_t> arrival_times_us(const Trace& trace, const Arrivals& arrivals);

}  // namespace hasten::workload
