// SPDX-License-Identifier: Apache-2.0
// What is known of programs, within bounds, and what stays in the cache for their next calls.
#include "engine/scheduler/programs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

Sequence call_of(std::string_view tenant, std::string_view program, int64_t request_id = 0,
                 int64_t arrival_us = 0) {
  Sequence sequence;
  sequence.request_id = request_id;
  sequence.tenant = tenant;
  sequence.program = program;
  sequence.arrival_us = arrival_us;
  return sequence;
}

TEST(Programs, AreOfTheirTenants) {
  Programs programs;
  const int32_t one = programs.join(call_of("a", "x"));
  EXPECT_NE(programs.join(call_of("b", "x")), one);
  EXPECT_NE(programs.join(call_of("", "ax")), one);
  EXPECT_NE(programs.join(call_of("ax", "")), one);
  EXPECT_EQ(programs.join(call_of("a", "x")), one);
  EXPECT_EQ(programs.num_programs(), 4);
}

TEST(Programs, SumUpTheServiceOfTheirCalls) {
  Programs programs;
  Sequence first = call_of("", "x", 1);
  first.program_index = programs.join(first);
  programs.begin(first);
  programs.charge(first.program_index, 10, 0);
  programs.charge(first.program_index, 0, 5);
  Sequence choice = first;
  choice.choice = 1;
  programs.join(choice);
  programs.begin(choice);
  programs.leave(first, 0);
  programs.leave(first, 0);
  Sequence second = call_of("", "x", 2);
  second.program_index = programs.join(second);
  EXPECT_EQ(second.program_index, first.program_index);
  const auto had = [&] { return programs.services()[static_cast<size_t>(second.program_index)]; };
  EXPECT_EQ(had().units, 20);
  EXPECT_EQ(had().num_calls, 1);  // the second waits
  programs.begin(second);
  EXPECT_EQ(had().num_calls, 2);

  second.program_calls_left = 0;
  programs.leave(second, 0);
  EXPECT_EQ(programs.num_programs(), 0);
}

TEST(Programs, LearnHowLongTheyPause) {
  Programs programs;
  int64_t now_us = 0;
  const auto pause = [&](int64_t pause_us) {
    now_us += pause_us;
    Sequence sequence = call_of("", "x", now_us, now_us);
    sequence.program_index = programs.join(sequence);
    now_us += 7;
    programs.leave(sequence, now_us);
    return programs.pause_us(sequence.program_index);
  };
  EXPECT_EQ(pause(5), 0);  // not known yet
  EXPECT_NEAR(pause(1000), 1000, 1e-6);
  EXPECT_NEAR(pause(100'000), 10'000, 1e-6);
}

TEST(Programs, ThatPauseAreBoundedAndTheLongestIsForgotten) {
  Programs programs({}, 3);
  int64_t num_calls = 0;
  const auto come_and_go = [&](int64_t i) {
    const std::string name = std::to_string(i);
    Sequence sequence = call_of("", name, ++num_calls, i);
    sequence.program_index = programs.join(sequence);
    programs.begin(sequence);
    programs.charge(sequence.program_index, 1, 0);
    programs.leave(sequence, i);
    return sequence.program_index;
  };
  const Sequence live = call_of("", "live");
  const int32_t live_index = programs.join(live);
  for (int64_t i = 0; i < 100; ++i) EXPECT_LT(come_and_go(i), 5);
  EXPECT_EQ(programs.num_programs(), 4);
  EXPECT_EQ(programs.join(live), live_index);
  const auto index = static_cast<size_t>(come_and_go(98));
  EXPECT_EQ(programs.services()[index].num_calls, 2);
  EXPECT_EQ(programs.services()[static_cast<size_t>(come_and_go(1))].num_calls, 1);
}

/// Programs that ask with what they have been answered, and others that ask for something else
/// each time. The clock stands but where a test moves it: steps only tell how long they took.
class Talk {
 public:
  explicit Talk(double held_share, const Policy& policy = kFcfsPolicy, double tenant_share = 1)
      : scheduler_({.block_size = 4,
                    .step_tokens = 256,
                    .max_batch = 4,
                    .policy = &policy,
                    .held_share = held_share,
                    .tenant_cache_share = tenant_share},
                   std::vector<GroupBlocks>{{.num_blocks = 40}}) {}

  Sequence& add(std::string_view program, std::vector<int32_t> prompt, int64_t length,
                int32_t calls_left = -1) {
    prompts_.push_back(std::make_unique<std::vector<int32_t>>(std::move(prompt)));
    Sequence& sequence = *sequences_.emplace_back(std::make_unique<Sequence>());
    sequence.request_id = std::ssize(sequences_);
    sequence.prompt = *prompts_.back();
    sequence.max_generated = length;
    sequence.program = program;
    sequence.program_calls_left = calls_left;
    sequence.arrival_us = now_us;
    scheduler_.add(sequence);
    return sequence;
  }

  bool step() {
    const StepPlan& plan = scheduler_.plan(now_us);
    if (plan.empty()) return false;
    scheduler_.advance(1000 + 100 * plan.num_tokens);
    for (const PlannedSequence& planned : plan.sequences) {
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler_.finish(*planned.sequence);
    }
    return true;
  }
  void run() {
    for (int i = 0; step(); ++i) ASSERT_LT(i, 10'000);
  }

  /// A call with `num_prompt` tokens, those of the ones before it first. Returns how many of them
  /// were in the cache.
  int64_t call(std::string_view program, int64_t num_prompt, int32_t calls_left = -1) {
    std::vector<int32_t> prompt(static_cast<size_t>(num_prompt));
    std::iota(prompt.begin(), prompt.end(), 100);
    const Sequence& sequence = add(program, std::move(prompt), 10, calls_left);
    run();
    return sequence.num_cached;
  }

  /// Others use all of the memory, one after the other, more than once.
  void flood() {
    for (int i = 0; i < 20; ++i) {
      add({}, std::vector<int32_t>(40, --unheard_of_), 1);
      run();
    }
  }

  int64_t now_us = 0;

 private:
  std::vector<std::unique_ptr<std::vector<int32_t>>> prompts_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  int32_t unheard_of_ = 0;
  Scheduler scheduler_;
};

TEST(HeldPrograms, FindWhatTheyAskedWithBefore) {
  Talk talk(0.5);
  talk.call("agent", 40);
  talk.flood();
  talk.now_us += 1000;
  EXPECT_EQ(talk.call("agent", 60), 40);

  Talk without(0);
  without.call("agent", 40);
  without.flood();
  without.now_us += 1000;
  EXPECT_EQ(without.call("agent", 60), 0);
}

TEST(HeldPrograms, AreHeldForAsLongAsComputingThemIsWorth) {
  // 50 tokens take 5 ms, and nobody else's memory would wait for them.
  Talk talk(0.5);
  talk.call("agent", 40);
  talk.now_us += 3000;
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 40);
  talk.now_us += 20'000;
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 0);
}

TEST(HeldPrograms, LoseTheirLastBlocksFirstOnceTheyAreHeldNoLonger) {
  Talk talk(0.5);
  talk.call("agent", 60);
  talk.now_us += 20'000;
  // Needs all the memory but for two blocks of those that were held.
  talk.add({}, std::vector<int32_t>(150, -5), 1);
  talk.run();
  EXPECT_EQ(talk.call("agent", 70), 8);
}

TEST(HeldPrograms, AreNotHeldWhosePausesAreLonger) {
  Talk talk(0.5);
  for (int i = 0; i < 4; ++i) {
    talk.call("thinker", 40);
    talk.now_us += 3'600'000'000;
  }
  talk.call("thinker", 40);
  talk.flood();
  EXPECT_EQ(talk.call("thinker", 60), 0);
}

TEST(HeldPrograms, AreNotHeldThatHaveMadeTheirLastCall) {
  Talk talk(0.5);
  talk.call("agent", 40, 1);
  talk.call("agent", 40, 0);
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 0);
}

TEST(HeldPrograms, AreNotHeldUnderPoliciesThatDisplace) {
  Talk talk(0.5, kPriorityPolicy);
  talk.call("agent", 40);
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 0);
}

TEST(HeldPrograms, HaveAShareOfTheMemoryAtMostAndTheFirstBlocks) {
  Talk talk(0.125);  // 5 blocks
  talk.call("agent", 40);
  talk.call("other", 40);
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 20);
}

TEST(HeldPrograms, OfATenantHaveItsShareOfTheMemoryAtMost) {
  Talk talk(0.5, kFcfsPolicy, 0.25);  // 20 blocks, 10 of them for one
  talk.call("agent", 60);
  talk.flood();
  EXPECT_EQ(talk.call("agent", 60), 40);
}

TEST(HeldPrograms, LeaveTheirShareToOthersWhileTheyRun) {
  Talk talk(0.25);  // 10 blocks
  talk.call("agent", 40);
  std::vector<int32_t> prompt(40);
  std::iota(prompt.begin(), prompt.end(), 100);
  talk.add("agent", prompt, 60, 0);
  ASSERT_TRUE(talk.step());
  talk.add("other", std::vector<int32_t>(36, -8), 1);
  ASSERT_TRUE(talk.step());
  talk.run();
  talk.flood();
  const Sequence& other = talk.add("other", std::vector<int32_t>(40, -8), 1);
  talk.run();
  EXPECT_EQ(other.num_cached, 36);
}

TEST(HeldPrograms, AreInTheWayOnlyOfWhatRunsBesideOthers) {
  Talk talk(0.5);
  talk.call("agent", 60);
  // Takes all of the memory, and nothing runs.
  const Sequence& alone = talk.add({}, std::vector<int32_t>(150, -5), 1);
  ASSERT_TRUE(talk.step());
  EXPECT_EQ(std::ssize(alone.generated), 1);

  talk.call("agent", 60);
  talk.add({}, std::vector<int32_t>(4, -6), 40);
  ASSERT_TRUE(talk.step());
  const Sequence& beside = talk.add({}, std::vector<int32_t>(100, -7), 1);
  ASSERT_TRUE(talk.step());
  EXPECT_LT(beside.num_cached, 0);  // waits
  talk.now_us += 20'000;
  ASSERT_TRUE(talk.step());
  EXPECT_EQ(std::ssize(beside.generated), 1);
  talk.run();
}

TEST(HeldPrograms, AreNotInTheirOwnWay) {
  Talk talk(0.5);
  talk.call("agent", 60);
  talk.add({}, std::vector<int32_t>(4, -6), 40);
  ASSERT_TRUE(talk.step());
  std::vector<int32_t> prompt(120);
  std::iota(prompt.begin(), prompt.end(), 100);
  const Sequence& next = talk.add("agent", prompt, 1);
  ASSERT_TRUE(talk.step());
  EXPECT_EQ(next.num_cached, 60);
  talk.run();
}

}  // namespace
}  // namespace hasten::engine
