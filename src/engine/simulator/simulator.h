// SPDX-License-Identifier: Apache-2.0
// The engine without a model: its scheduler and cache accounting in virtual time.
#pragma once

#include "hasten/simulate.h"

namespace hasten::engine {

/// See hasten::simulate.
Simulation run_simulation(const SimulatorOptions& options, const SimulatedWorkload& workload);

}  // namespace hasten::engine
