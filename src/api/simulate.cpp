// SPDX-License-Identifier: Apache-2.0
// Implements hasten/simulate.h.
#include "hasten/simulate.h"

#include "api/option_conflicts.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/simulator.h"

namespace hasten {

double step_us(const StepCosts& costs, const StepRecord& step) {
  return engine::predict_step_us(costs, step);
}

StepCostFit fit_step_costs(std::span<const StepRecord> steps) { return engine::fit_costs(steps); }

Simulation simulate(const SimulatorOptions& options, const SimulatedWorkload& workload) {
  api::check_conflicts(options);
  return engine::run_simulation(options, workload);
}

}  // namespace hasten
