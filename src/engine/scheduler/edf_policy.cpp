// SPDX-License-Identifier: Apache-2.0
// Earliest deadline first, for those deadlines that can still be met.
#include <cmath>

#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// Given up is only what would be late even if the rest took so much of the time expected: speeds
/// change as the batch does.
constexpr double kCertain = 0.8;

bool is_due(const Sequence& sequence, const QueueView& view) {
  return sequence.deadline_us != kNoDeadline && sequence.deadline_us >= view.now_us;
}

/// What has no deadline, or is late already, ranks like what is due `aging_us` after it came, or
/// after it was due. So it waits for a bounded time.
double rank(const Sequence& sequence, const QueueView& view) {
  if (is_due(sequence, view)) return static_cast<double>(sequence.deadline_us);
  const int64_t since =
      sequence.deadline_us == kNoDeadline ? sequence.arrival_us : sequence.deadline_us;
  return static_cast<double>(since) + static_cast<double>(view.aging_us);
}

/// Only what nobody waits for by a time gives way: displacing costs time that others have not got.
bool displaces(const Sequence& waiting, const Sequence& running, const QueueView& view) {
  return is_due(waiting, view) && !is_due(running, view);
}

/// Answers that have begun are brought to their end: their clients have a part of them. While
/// nothing runs, no estimate gives anything up: running costs nobody anything then, and is what
/// teaches better if the estimate is wrong.
bool hopeless(const Sequence& waiting, const QueueView& view) {
  if (waiting.deadline_us == kNoDeadline || waiting.num_cached >= 0) return false;
  const double least_us = view.idle ? 0 : kCertain * least_remaining_us(waiting, view);
  const double end_us = static_cast<double>(view.now_us) + least_us;
  return end_us > static_cast<double>(waiting.deadline_us);
}

}  // namespace

const Policy kEdfPolicy = {
    .name = "edf",
    .summary = "the earliest deadline first; what cannot meet its own is refused",
    .rank = rank,
    .displaces = displaces,
    .hopeless = hopeless,
    .by_length = true};

}  // namespace hasten::engine
