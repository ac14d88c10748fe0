// SPDX-License-Identifier: Apache-2.0
// Runs a workload through the engine's scheduler in virtual time.
#pragma once

#include <functional>
#include <vector>

#include "cli/machine_model.h"
#include "cli/workload_flags.h"
#include "hasten/simulate.h"
#include "workload/statistics.h"

namespace hasten::cli {

struct SimulatedReplay {
  workload::Statistics statistics{};
  Simulation simulation = {};
  std::vector<bool> answered = {};  // [requests]
  double wall_seconds = 0;          // that it took
};

/// `on_step` is called after each step; it may be empty. Shows a progress bar. Throws
/// Error{invalid_argument} for prompts that only a tokenizer could count, and as `simulate`.
SimulatedReplay simulate_replay(const MachineModel& machine, const Workload& workload,
                                const WorkloadOptions& options,
                                std::function<void(const StepRecord&)> on_step = {});

}  // namespace hasten::cli
