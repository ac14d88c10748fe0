// SPDX-License-Identifier: Apache-2.0
// Priority classes with aging: the most urgent first, where waiting makes everything more urgent.
#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// `aging_us` of waiting are worth one class. As both sides of a comparison age alike, only the
/// times of arrival count, and the order of two sequences never changes.
double aged_class(const Sequence& sequence, const QueueView& view) {
  return static_cast<double>(sequence.arrival_us) / static_cast<double>(view.aging_us) -
         sequence.priority;
}

/// A whole class, so that neighbours do not push each other out. What was displaced does not come
/// back before the one that displaced it.
bool is_class_above(const Sequence& waiting, const Sequence& running, const QueueView& view) {
  return aged_class(waiting, view) + 1 <= aged_class(running, view);
}

}  // namespace

const Policy kPriorityPolicy = {
    .name = "priority",
    .summary = "the most urgent class first; it displaces what runs; waiting makes more urgent",
    .rank = aged_class,
    .displaces = is_class_above};

}  // namespace hasten::engine
