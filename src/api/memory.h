// SPDX-License-Identifier: Apache-2.0
// How much memory this process may use.
#pragma once

#include <cstdint>

namespace hasten::api {

struct Memory {
  int64_t total_bytes = 0;      // of the machine, or of the control group if that is less
  int64_t available_bytes = 0;  // of it, without swapping; mapped files count as available
};

/// From /proc/meminfo and the limits of this process's control group (version 2).
Memory measure_memory();

}  // namespace hasten::api
