// SPDX-License-Identifier: Apache-2.0
// Runs a workload through an engine of this process.
#pragma once

#include <cstdint>

#include "cli/workload_flags.h"
#include "hasten/engine.h"
#include "workload/statistics.h"

namespace hasten::cli {

/// Generates a token, which pages in the weights.
void warm_up(Engine& engine);
/// How many steps of an engine that is new that takes: its prompt's only token brings the answer's.
inline constexpr int64_t kNumWarmUpSteps = 1;

/// Submits each request when it is due and returns when all have ended; answers have the lengths
/// that the workload says. Shows a progress bar. Throws Error for texts that cannot be tokenized.
workload::Statistics replay(Engine& engine, const Workload& workload,
                            const WorkloadOptions& options);

}  // namespace hasten::cli
