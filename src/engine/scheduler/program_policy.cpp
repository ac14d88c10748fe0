// SPDX-License-Identifier: Apache-2.0
// Programs: what is expected to remain of a whole program decides, not what remains of one call.
#include <cmath>

#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// Service up to which a program is on the first level; each further one reaches twice as far. 64
/// units are an answer of 32 tokens by the default weights: a sentence.
constexpr double kFirstReach = 64;

/// The service that the program of a sequence is expected to need still. Where its client says how
/// many calls are to come, each like those before. Otherwise as much again as it has had: so it is
/// where lengths have heavy tails (that of Pareto's distribution is in proportion), and the least
/// attained service first (Luo et al., Autellix, 2025) is the least remaining service first. A
/// sequence without a program is one by itself.
double remaining_program(const Sequence& sequence, const QueueView& view) {
  const bool known = sequence.program_index >= 0;
  const ProgramService had =
      known ? view.programs[static_cast<size_t>(sequence.program_index)] : ProgramService();
  if (sequence.program_calls_left >= 0) {
    const double own = remaining_service(sequence, view);
    const double each = had.num_calls > 1 ? had.units / static_cast<double>(had.num_calls) : own;
    return own + each * sequence.program_calls_left;
  }
  if (known && had.units > 0) return had.units;
  return view.weights.input * static_cast<double>(sequence.num_prompt()) +
         view.weights.output * static_cast<double>(sequence.generated.size());
}

/// Levels are coarse, so that programs that are about as far do not take turns. Each `aging_us` of
/// waiting raise a sequence by one level, for good.
double aged_program_level(const Sequence& sequence, const QueueView& view) {
  int level = 0;
  const double remaining = remaining_program(sequence, view);
  for (double reach = kFirstReach; reach < remaining; reach *= 2) ++level;
  return level - std::floor(static_cast<double>(waited_us(sequence, view)) /
                            static_cast<double>(view.aging_us));
}

}  // namespace

const Policy kProgramPolicy = {
    .name = "program",
    .summary = "the program (the calls with the same program_id) with the least left to do first",
    .rank = aged_program_level,
    .displaces = nullptr};

}  // namespace hasten::engine
