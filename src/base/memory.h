// SPDX-License-Identifier: Apache-2.0
// How much memory this process may use.
#pragma once

#include <cstdint>

#include "base/cgroup.h"

namespace hasten {

struct SystemMemory {
  int64_t total_bytes = 0;      // of the machine, or of a control group if that is less
  int64_t available_bytes = 0;  // of it, without swapping; cached and mapped files count as such
};

/// From /proc/meminfo and the limits of the control groups that hold this process.
[[nodiscard]] SystemMemory measure_memory(const ReadFile& read = read_system_file);

}  // namespace hasten
