// SPDX-License-Identifier: Apache-2.0
// The table of policies, and the measures that several of them go by.
#include "engine/scheduler/policy.h"

#include <algorithm>
#include <array>

#include "engine/scheduler/find_named.h"

namespace hasten::engine {

std::span<const Policy* const> policies() {
  static constexpr std::array kPolicies = {&kFcfsPolicy, &kPriorityPolicy, &kSjfPolicy,
                                           &kSrtfPolicy, &kMlfqPolicy,     &kVtcPolicy,
                                           &kEdfPolicy,  &kProgramPolicy};
  return kPolicies;
}

const Policy& find_policy(std::string_view name) {
  return find_named(policies(), name, "policy", "--policy");
}

int64_t waited_us(const Sequence& sequence, const QueueView& view) {
  const int64_t now = sequence.queued_us < 0 ? 0 : view.now_us - sequence.queued_us;
  return sequence.waited_us + now;
}

double remaining_service(const Sequence& sequence, const QueueView& view) {
  const auto num_generated = static_cast<int64_t>(sequence.generated.size());
  int64_t length = sequence.max_generated;
  if (sequence.predicted_generated > 0) {
    int64_t predicted = sequence.predicted_generated;
    while (predicted <= num_generated) predicted *= 2;
    length = std::min(length, predicted);
  }
  const int64_t to_generate = std::max<int64_t>(1, length - num_generated);
  return view.weights.input * static_cast<double>(sequence.num_to_compute()) +
         view.weights.output * static_cast<double>(to_generate);
}

double least_remaining_us(const Sequence& sequence, const QueueView& view) {
  if (view.step_time == nullptr) return 0;
  const int64_t length = std::max(sequence.min_generated, sequence.predicted_generated / 2);
  const int64_t to_generate =
      std::min(length, sequence.max_generated) - static_cast<int64_t>(sequence.generated.size());
  StepWork rest;
  const int64_t to_compute = sequence.num_to_compute();
  rest.add(sequence.num_tokens() - to_compute, to_compute);
  StepWork token;
  token.add(sequence.num_tokens(), 1);
  return view.step_time->predict_us(rest) +
         // The first token comes with the last of the prompt.
         view.step_time->predict_us(token) *
             static_cast<double>(std::max<int64_t>(0, to_generate - 1));
}

double aged_remaining_service(const Sequence& sequence, const QueueView& view) {
  constexpr double kServiceOfAging = 256;
  return static_cast<double>(sequence.arrival_us) / static_cast<double>(view.aging_us) +
         remaining_service(sequence, view) / kServiceOfAging;
}

}  // namespace hasten::engine
