// SPDX-License-Identifier: Apache-2.0
// What a scheduling policy decides, as pure functions of a queue view.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// Sequences that compete for something; never empty when a policy is asked.
using QueueView = std::span<const Sequence* const>;

/// Both functions return an index into the view and depend on nothing but what it shows, so that a
/// run can be replayed and a simulator schedules like the engine.
struct Policy {
  std::string_view name;
  size_t (*next)(QueueView waiting);    // who is admitted next
  size_t (*victim)(QueueView running);  // who gives its blocks back; in order of admission
};

/// First come, first served; the latest admitted is the victim.
extern const Policy kFcfsPolicy;

/// The policy of that name. Throws Error{invalid_argument} that lists the known ones.
const Policy& find_policy(std::string_view name);

}  // namespace hasten::engine
