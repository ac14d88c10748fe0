// SPDX-License-Identifier: Apache-2.0
// What a scheduling policy decides, as pure functions of a sequence and a view of the queue.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/scheduler/programs.h"
#include "engine/scheduler/step_time_model.h"
#include "engine/scheduler/tenant_service.h"
#include "engine/sequence/sequence.h"

namespace hasten::engine {

/// What there is to know beside a sequence, when a policy is asked.
struct QueueView {
  int64_t now_us = 0;             // by the clock of Sequence::arrival_us
  int64_t aging_us = 60'000'000;  // waiting that moves a sequence up by one class, see each policy
  ServiceWeights weights{};
  std::span<const double> tenant_service = {};    // units that each has had, by their tenant_index
  std::span<const ProgramService> programs = {};  // by their program_index
  const StepTimeModel* step_time = nullptr;       // null: not known yet
  bool idle = true;                               // nothing runs
};

/// Who runs before whom. All functions are pure: they depend on nothing but their arguments, so
/// that a run can be replayed and a simulator schedules like the engine.
///
/// Nothing starves: under each policy, all sequences that arrive from some time on, of tenants that
/// are known by then, rank behind one that waits already.
struct Policy {
  std::string_view name;
  std::string_view summary;  // for users, one line

  /// The sequence with the smallest rank is admitted first, and the one with the largest gives its
  /// blocks back when they run out; equal ranks go by order of arrival.
  double (*rank)(const Sequence& sequence, const QueueView& view);

  /// Whether `waiting` takes the place of `running` when there is no room for both. Asked only when
  /// `waiting` ranks first. Null: what runs is never displaced by what waits.
  bool (*displaces)(const Sequence& waiting, const Sequence& running, const QueueView& view);

  /// Whether `waiting`, which has not run yet, cannot be of use any more and shall end. Null: all
  /// can. Step times are learnt for such policies.
  bool (*hopeless)(const Sequence& waiting, const QueueView& view) = nullptr;

  /// Whether ranks go by QueueView::tenant_service, which is kept for such policies only. Admitting
  /// a sequence may move those of its tenant back, nothing else of a step does.
  bool by_tenant = false;
  /// Whether it goes by how long answers become, as predicted.
  bool by_length = false;
  /// Whether it goes by QueueView::aging_us.
  bool ages = true;
};

extern const Policy kFcfsPolicy;
extern const Policy kPriorityPolicy;
extern const Policy kSjfPolicy;
extern const Policy kSrtfPolicy;
extern const Policy kMlfqPolicy;
extern const Policy kVtcPolicy;
extern const Policy kEdfPolicy;
extern const Policy kProgramPolicy;

/// Those that there are, the default first.
std::span<const Policy* const> policies();

/// The policy of that name. Throws Error{invalid_argument} that lists the known ones.
const Policy& find_policy(std::string_view name);

/// How long a sequence has waited in all, in microseconds.
int64_t waited_us(const Sequence& sequence, const QueueView& view);

/// The service that a sequence still needs: what it must compute (anew, if it was preempted) beyond
/// what the cache was found to have of it, and what it is expected to generate. One that has
/// outlived its prediction is taken to be half way, again and again, as lengths have heavy tails.
/// At least one generated token.
double remaining_service(const Sequence& sequence, const QueueView& view);

/// How long a sequence still takes once it runs, in microseconds, as steps would be with nothing
/// else in them: with the fewest tokens that it may generate, or half of those predicted, as
/// predictions are that far off. 0: not known yet.
double least_remaining_us(const Sequence& sequence, const QueueView& view);

/// A rank by remaining service, where waiting for `aging_us` makes up for 256 units of it.
double aged_remaining_service(const Sequence& sequence, const QueueView& view);

}  // namespace hasten::engine
