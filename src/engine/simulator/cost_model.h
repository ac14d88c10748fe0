// SPDX-License-Identifier: Apache-2.0
// The time of a step by its work, and the fit of it to measured steps.
#pragma once

#include <span>

#include "hasten/simulate.h"

namespace hasten::engine {

/// See hasten::step_us and hasten::fit_step_costs.
double predict_step_us(const StepCosts& costs, const StepRecord& step);
StepCostFit fit_costs(std::span<const StepRecord> steps);

}  // namespace hasten::engine
