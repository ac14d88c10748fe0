// SPDX-License-Identifier: Apache-2.0
// Monotonic time as plain integers, so that a simulator can inject its own.
#pragma once

#include <chrono>
#include <cstdint>

namespace hasten {

/// Microseconds of the monotonic clock; only differences mean anything.
[[nodiscard]] inline int64_t monotonic_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace hasten
