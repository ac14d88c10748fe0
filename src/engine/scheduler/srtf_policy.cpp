// SPDX-License-Identifier: Apache-2.0
// Shortest remaining time first: as sjf, but what is much shorter displaces what runs.
#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// A place changes hands for half of the service or less: below that, computing the displaced
/// sequence's tokens anew eats what is won, and predictions are not so exact.
constexpr double kGain = 2.0;

bool is_much_shorter(const Sequence& waiting, const Sequence& running, const QueueView& view) {
  return kGain * remaining_service(waiting, view) <= remaining_service(running, view);
}

}  // namespace

const Policy kSrtfPolicy = {
    .name = "srtf",
    .summary =
        "the shortest remaining work as predicted first; it displaces what needs twice as much",
    .rank = aged_remaining_service,
    .displaces = is_much_shorter,
    .by_length = true};

}  // namespace hasten::engine
