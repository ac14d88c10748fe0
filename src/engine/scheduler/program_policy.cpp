// SPDX-License-Identifier: Apache-2.0
// Programs: what is expected to remain of a whole program decides, not what remains of one call.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/scheduler/policy.h"

namespace hasten::engine {
namespace {

/// Service up to which a program is on the first level; each further one reaches twice as far. 64
/// units are an answer of 32 tokens by the default weights: a sentence.
constexpr double kFirstReach = 64;

/// The mean service of the program's calls before that of a sequence; `otherwise` where there are
/// none. What the call itself has had so far is not yet all of what it takes.
double service_of_a_call(const Sequence& sequence, const ProgramService& had,
                         const ServiceWeights& weights, double otherwise) {
  const bool has_run = sequence.num_cached >= 0;
  const int64_t num_others = had.num_calls - (has_run ? 1 : 0);
  if (num_others <= 0) return otherwise;
  const double own =
      has_run ? weights.input * static_cast<double>(sequence.num_prompt() - sequence.num_cached) +
                    weights.output * static_cast<double>(sequence.generated.size())
              : 0;
  return std::max(0.0, had.units - own) / static_cast<double>(num_others);
}

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
    return own + service_of_a_call(sequence, had, view.weights, own) * sequence.program_calls_left;
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
