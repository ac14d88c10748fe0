// SPDX-License-Identifier: Apache-2.0
// Shortest job first: the sequence that needs the least service is admitted next, and then runs to
// its end.
#include "engine/scheduler/policy.h"

namespace hasten::engine {

const Policy kSjfPolicy = {.name = "sjf",
                           .summary = "the shortest job by its prompt and predicted length first",
                           .rank = aged_remaining_service,
                           .displaces = nullptr,
                           .by_length = true};

}  // namespace hasten::engine
