// SPDX-License-Identifier: Apache-2.0
// First come, first served.
#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

double no_rank(const Sequence& /*sequence*/, const QueueView& /*view*/) {
  return 0;  // equal ranks go by order of arrival
}

}  // namespace

const Policy kFcfsPolicy = {.name = "fcfs",
                            .summary = "first come, first served",
                            .rank = no_rank,
                            .displaces = nullptr,
                            .ages = false};

}  // namespace hasten::engine
