// SPDX-License-Identifier: Apache-2.0
// Programs are served by what remains of all their calls.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/policy.h"
#include "engine/scheduler/policy_line_test.h"

namespace hasten::engine {
namespace {

/// Runs one call of a program to its end.
void call(Line& line, std::string_view program, int64_t length, std::string_view tenant = {}) {
  line.add({.num_prompt = 4, .length = length, .tenant = tenant, .program = program});
  line.run();
}

TEST(ProgramPolicy, ServesFirstWhatHasHadLeast) {
  Line line(kProgramPolicy, one_at_a_time());
  call(line, "old", 300);
  call(line, "young", 40);
  line.add({.length = 5});  // has the one place when the others come
  line.steps(1);
  const size_t old = line.add({.num_prompt = 4, .length = 5, .program = "old"});
  const size_t young = line.add({.num_prompt = 4, .length = 90, .program = "young"});
  const size_t fresh = line.add({.num_prompt = 4, .length = 200, .program = "fresh"});
  const size_t alone = line.add({.num_prompt = 4, .length = 200});
  line.run();
  EXPECT_LT(line.finished_step[fresh], line.finished_step[alone]);  // alike, so as they came
  EXPECT_LT(line.finished_step[alone], line.finished_step[young]);
  EXPECT_LT(line.finished_step[young], line.finished_step[old]);
}

TEST(ProgramPolicy, GoesByTheCallsThatAreToCome) {
  Line line(kProgramPolicy, one_at_a_time());
  call(line, "many", 30);
  call(line, "many", 30);
  call(line, "last", 300);
  line.add({.length = 5});
  line.steps(1);
  const size_t many =
      line.add({.num_prompt = 4, .length = 30, .program = "many", .calls_left = 40});
  const size_t last = line.add({.num_prompt = 4, .length = 30, .program = "last", .calls_left = 0});
  line.run();
  EXPECT_LT(line.finished_step[last], line.finished_step[many]);
}

TEST(ProgramPolicy, ExpectsOfEachCallToComeWhatThoseBeforeHaveTaken) {
  // 104 units for each call of both; one call more is another level, if none is taken for less.
  for (const int num_before : {1, 2, 4}) {
    Line line(kProgramPolicy, one_at_a_time());
    for (int i = 0; i < num_before; ++i) call(line, "many", 50);
    line.add({.length = 5});
    line.steps(1);
    const size_t many =
        line.add({.num_prompt = 4, .length = 50, .program = "many", .calls_left = 2});
    const size_t alone = line.add({.num_prompt = 4, .length = 126, .calls_left = 0});
    line.run();
    EXPECT_LT(line.finished_step[alone], line.finished_step[many]) << num_before;
  }
}

TEST(ProgramPolicy, ExpectsNoLessOfTheOthersOnceACallRuns) {
  const std::vector<int32_t> prompt(4, 1);
  Sequence sequence;
  sequence.prompt = prompt;
  sequence.max_generated = 50;
  sequence.program_index = 0;
  sequence.program_calls_left = 2;
  const auto rank = [&](const ProgramService& had) {
    return kProgramPolicy.rank(sequence, {.programs = std::span(&had, 1)});
  };
  const double waiting = rank({.units = 104, .num_calls = 1});
  sequence.num_cached = 0;
  EXPECT_EQ(rank({.units = 104 + 4, .num_calls = 2}), waiting);
}

TEST(ProgramPolicy, OfAnotherTenantIsAnotherProgram) {
  Line line(kProgramPolicy, one_at_a_time());
  call(line, "agent", 300, "a");
  line.add({.length = 5});
  line.steps(1);
  const size_t first = line.add({.num_prompt = 4, .length = 5, .tenant = "a", .program = "agent"});
  const size_t second =
      line.add({.num_prompt = 4, .length = 200, .tenant = "b", .program = "agent"});
  line.run();
  EXPECT_LT(line.finished_step[second], line.finished_step[first]);
}

TEST(ProgramPolicy, DisplacesNobody) {
  Line line(kProgramPolicy, one_at_a_time());
  const size_t old = line.add({.num_prompt = 4, .length = 500, .program = "old"});
  line.steps(400);
  line.add({.length = 1});
  line.steps(50);
  EXPECT_TRUE(line.runs(old));
  line.run();
  EXPECT_EQ(line.preemptions, 0);
}

TEST(ProgramPolicy, WaitingMakesUpForService) {
  SchedulerOptions options = one_at_a_time();
  options.aging_us = 20 * kStepUs;
  Line line(kProgramPolicy, options);
  call(line, "old", 300);
  const size_t old = line.add({.num_prompt = 4, .length = 5, .program = "old"});
  for (int i = 0; i < 100; ++i) {
    line.add({.length = 10});
    line.steps(10);
  }
  EXPECT_GE(line.finished_step[old], 0);
}

}  // namespace
}  // namespace hasten::engine
