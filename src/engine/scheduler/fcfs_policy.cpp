// SPDX-License-Identifier: Apache-2.0
// First come, first served.
#include <algorithm>
#include <utility>

#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

size_t earliest(QueueView waiting) {
  const auto arrival = [](const Sequence* s) { return std::pair(s->request_id, s->choice); };
  return static_cast<size_t>(std::ranges::min_element(waiting, {}, arrival) - waiting.begin());
}

size_t latest_admitted(QueueView running) { return running.size() - 1; }

}  // namespace

const Policy kFcfsPolicy = {"fcfs", earliest, latest_admitted};

}  // namespace hasten::engine
