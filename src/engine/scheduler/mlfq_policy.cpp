// SPDX-License-Identifier: Apache-2.0
// Skip-join multi-level feedback queue (Wu et al., FastServe, 2023): short answers first, although
// nobody knows their lengths.
#include <cmath>

#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// Service that the first level grants; each further one grants twice as much as the one before it.
/// 64 units are an answer of 32 tokens by the default weights: a sentence.
constexpr double kFirstQuantum = 64;

/// A sequence joins the first level whose quantum covers its prompt, and sinks a level whenever its
/// answer has used up a quantum.
int level(const Sequence& sequence, const QueueView& view) {
  double quantum = kFirstQuantum;
  int level = 0;
  const auto sink = [&] {
    quantum *= 2;
    ++level;
  };
  const double prompt = view.weights.input * static_cast<double>(sequence.num_prompt());
  while (quantum < prompt) sink();
  double answer = view.weights.output * static_cast<double>(sequence.generated.size());
  while (answer >= quantum) {
    answer -= quantum;
    sink();
  }
  return level;
}

/// Each `aging_us` of waiting raise a sequence by one level, for good.
double aged_level(const Sequence& sequence, const QueueView& view) {
  return level(sequence, view) - std::floor(static_cast<double>(waited_us(sequence, view)) /
                                            static_cast<double>(view.aging_us));
}

/// Levels are coarse enough to be their own hysteresis.
bool is_levels_above(const Sequence& waiting, const Sequence& running, const QueueView& view) {
  return aged_level(waiting, view) < aged_level(running, view);
}

}  // namespace

const Policy kMlfqPolicy = {
    .name = "mlfq",
    .summary = "short answers first without predictions: each sinks as it grows, and is displaced",
    .rank = aged_level,
    .displaces = is_levels_above};

}  // namespace hasten::engine
