// SPDX-License-Identifier: Apache-2.0
// The scheduler's plans, held to their invariants step by step, with no model.
#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/kv_cache/sizing.h"

namespace hasten::engine {
namespace {

/// Sequences, a scheduler, and steps that draw token 7 where the plan samples.
struct World {
  World(const SchedulerOptions& given, std::vector<GroupBlocks> group_blocks)
      : options(given), groups(std::move(group_blocks)), scheduler(given, groups) {}

  Sequence& add(int64_t request_id, int64_t num_prompt, int64_t max_generated, int32_t choice = 0) {
    Sequence& sequence = add(std::span(prompt).first(static_cast<size_t>(num_prompt)), request_id,
                             max_generated, choice);
    sequence.cache_domain.low = static_cast<uint64_t>(request_id);  // shares with its siblings only
    return sequence;
  }
  /// `tokens` must outlive the world.
  Sequence& add(std::span<const int32_t> tokens, int64_t request_id, int64_t max_generated,
                int32_t choice = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = request_id;
    sequence->choice = choice;
    sequence->has_siblings = true;  // as far as the scheduler knows
    sequence->prompt = tokens;
    sequence->max_generated = max_generated;
    sequence->arrival_us = now_us;
    sequences.push_back(std::move(sequence));
    scheduler.add(*sequences.back());
    return *sequences.back();
  }

  /// Plans, checks, and runs a step. False when nothing is left.
  bool step() {
    const StepPlan& plan = scheduler.plan(now_us += 1000);
    preemptions += plan.num_preemptions;
    if (plan.empty()) return scheduler.next_step_us() != INT64_MAX;  // a batch waits for more
    check(plan);
    if (HasFailure()) return false;
    write(plan);
    if (HasFailure()) return false;
    num_copies += static_cast<int64_t>(plan.copies.size());
    scheduler.advance();
    for (const PlannedSequence& planned : std::vector(plan.sequences)) {
      EXPECT_EQ(planned.samples, planned.end() == planned.sequence->num_tokens());
      if (!planned.samples) continue;
      planned.sequence->generated.push_back(7);
      if (std::ssize(planned.sequence->generated) == planned.sequence->max_generated)
        scheduler.finish(*planned.sequence);
    }
    return true;
  }

  static bool HasFailure() { return ::testing::Test::HasFatalFailure(); }

  void check(const StepPlan& plan) {
    ASSERT_LE(plan.num_tokens, options.step_tokens);
    ASSERT_LE(std::ssize(plan.sequences), options.max_batch);
    ASSERT_LE(plan.num_logits, std::ssize(plan.sequences) + options.max_prompt_logits);
    std::set<const Sequence*> seen;
    int64_t num_tokens = 0;
    std::vector<std::map<int32_t, std::set<int64_t>>> writers(groups.size());
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const PlannedSequence& planned = plan.sequences[i];
      ASSERT_TRUE(seen.insert(planned.sequence).second);
      ASSERT_EQ(planned.begin, planned.sequence->num_computed);
      ASSERT_GE(planned.count, 1);
      ASSERT_LE(planned.end(), planned.sequence->num_tokens());
      num_tokens += planned.count;
      for (size_t g = 0; g < groups.size(); ++g) {
        const auto table = plan.block_table(i, g);
        ASSERT_GE(std::ssize(table) * options.block_size, planned.end());
        const int64_t window = groups[g].window;
        const int64_t visible = window > 0 ? std::max<int64_t>(0, planned.begin - window + 1) : 0;
        for (int64_t b = 0; b < std::ssize(table); ++b) {
          const int32_t id = table[static_cast<size_t>(b)];
          ASSERT_LT(id, groups[g].num_blocks);
          if ((b + 1) * options.block_size > visible) {
            ASSERT_GE(id, 0);
          } else if ((b + 1) * options.block_size < visible) {
            ASSERT_EQ(id, -1);
          }
          // Nobody writes a block that another one reads.
          if ((b + 1) * options.block_size > planned.begin && id >= 0) {
            ASSERT_TRUE(writers[g][id].insert(static_cast<int64_t>(i)).second);
          }
        }
      }
    }
    for (size_t i = 0; i < plan.sequences.size(); ++i)
      for (size_t g = 0; g < groups.size(); ++g)
        for (const int32_t id : plan.block_table(i, g))
          if (writers[g].contains(id)) {
            ASSERT_EQ(writers[g].at(id), std::set<int64_t>{static_cast<int64_t>(i)});
          }
    ASSERT_EQ(plan.num_tokens, num_tokens);
  }

  /// Runs a step on caches that hold, in the place of keys and values, what these depend on: all
  /// tokens up to theirs.
  void write(const StepPlan& plan) {
    const auto content = [](const Sequence& sequence, int64_t position) {
      uint64_t hash = 0;
      for (int64_t p = 0; p <= position; ++p)
        hash = hash * 1099511628211U + static_cast<uint64_t>(sequence.token(p)) + 7;
      return hash;
    };
    const auto slot = [&](size_t index, size_t g, int64_t position) -> uint64_t& {
      const int32_t id =
          plan.block_table(index, g)[static_cast<size_t>(position / options.block_size)];
      return caches[g][{id, position % options.block_size}];
    };
    for (const BlockCopy& copy : plan.copies)
      for (int64_t i = 0; i < options.block_size; ++i) {
        auto& cache = caches[static_cast<size_t>(copy.group)];
        cache[{copy.to, i}] = cache[{copy.from, i}];
      }
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t i = 0; i < plan.sequences.size(); ++i)
        for (int64_t p = plan.sequences[i].begin; p < plan.sequences[i].end(); ++p)
          slot(i, g, p) = content(*plan.sequences[i].sequence, p);
      for (size_t i = 0; i < plan.sequences.size(); ++i) {
        const PlannedSequence& planned = plan.sequences[i];
        const int64_t window = groups[g].window;
        for (int64_t p = window > 0 ? std::max<int64_t>(0, planned.begin - window + 1) : 0;
             p < planned.end(); ++p)
          ASSERT_EQ(slot(i, g, p), content(*planned.sequence, p))
              << "group " << g << ", position " << p;
      }
    }
  }

  int64_t run() {
    int64_t steps = 0;
    while (step()) {
      if (++steps > 1'000'000) ADD_FAILURE() << "no end";
      if (HasFailure() || steps > 1'000'000) return -1;
    }
    return steps;
  }

  const std::vector<int32_t> prompt = std::vector<int32_t>(4096, 1);
  SchedulerOptions options;
  std::vector<GroupBlocks> groups;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Sequence>> sequences;
  // By group, then by block and place in it.
  std::vector<std::map<std::pair<int32_t, int64_t>, uint64_t>> caches{groups.size()};
  int64_t now_us = 0;
  int64_t preemptions = 0;
  int64_t num_copies = 0;
};

SchedulerOptions small(int64_t step_tokens, int32_t max_batch) {
  return {.block_size = 4, .step_tokens = step_tokens, .max_batch = max_batch};
}

TEST(Scheduler, GivesDecodesTheirTokenAndFillsTheRestWithPrefill) {
  World world(small(8, 4), {{.num_blocks = 100}});
  Sequence& first = world.add(1, 3, 10);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(first.generated.size(), 1U);
  Sequence& second = world.add(2, 20, 10);
  const StepPlan& plan = world.scheduler.plan(world.now_us);
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[0].sequence, &first);
  EXPECT_EQ(plan.sequences[0].count, 1);
  EXPECT_TRUE(plan.sequences[0].samples);
  EXPECT_EQ(plan.sequences[1].sequence, &second);
  EXPECT_EQ(plan.sequences[1].count, 7);
  EXPECT_FALSE(plan.sequences[1].samples);
  EXPECT_EQ(plan.num_logits, 1);
}

TEST(Scheduler, ServesInOrderOfArrival) {
  World world(small(4, 1), {{.num_blocks = 100}});
  Sequence& late = world.add(9, 4, 1);
  Sequence& early = world.add(3, 4, 1);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(early.generated.size(), 1U);
  EXPECT_EQ(late.generated.size(), 0U);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(late.generated.size(), 1U);
  EXPECT_FALSE(world.step());
}

TEST(Scheduler, AShortPromptDoesNotWaitForLongOnes) {
  World world(small(64, 8), {{.num_blocks = 1000}});
  const Sequence& first = world.add(1, 900, 1);
  const Sequence& second = world.add(2, 900, 1);
  ASSERT_TRUE(world.step());
  // The second one gets a few tokens, and the first what it left of the other half.
  EXPECT_EQ(second.num_computed, 8);
  EXPECT_EQ(first.num_computed, 56);
  const Sequence& third = world.add(3, 14, 1);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(third.generated.size(), 1U);
  EXPECT_EQ(second.num_computed, 16);
  EXPECT_EQ(first.num_computed, 98);
}

TEST(Scheduler, LongPromptsHoldBlocksByFewAtATime) {
  World world(small(128, 8), {{.num_blocks = 1000}});
  for (int64_t id = 1; id <= 6; ++id) world.add(id, 600, 1);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(world.scheduler.num_running(), 4);
  EXPECT_EQ(world.sequences[0]->num_computed, 128 - 3 * 8);
  int steps = 1;
  while (world.step()) ++steps;
  EXPECT_EQ(steps, (6 * 600 + 127) / 128);  // no token of a budget was left unused
}

TEST(Scheduler, PreemptsTheLatestAdmittedWhenBlocksRunOut) {
  // Both are admitted with 2 blocks each and one to spare for the running one.
  World world(small(32, 4), {{.num_blocks = 6}});
  Sequence& first = world.add(1, 8, 16);
  Sequence& second = world.add(2, 8, 16);
  while (world.preemptions == 0) ASSERT_TRUE(world.step());
  EXPECT_EQ(second.num_computed, 0);
  EXPECT_EQ(world.scheduler.num_waiting(), 1);
  EXPECT_GT(first.num_computed, 8);
  EXPECT_GT(world.run(), 0);
  EXPECT_EQ(first.generated.size(), 16U);
  EXPECT_EQ(second.generated.size(), 16U);
  EXPECT_EQ(world.scheduler.num_free_blocks(), 6);
}

TEST(Scheduler, SiblingsBeginWithTheSharedPrompt) {
  World world(small(64, 8), {{.num_blocks = 20}, {.num_blocks = 20, .window = 8}});
  for (int32_t choice = 0; choice < 3; ++choice) world.add(1, 11, 5, choice);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(world.scheduler.num_running(), 1);
  const StepPlan& plan = world.scheduler.plan(world.now_us);
  ASSERT_EQ(plan.sequences.size(), 3U);
  EXPECT_EQ(plan.sequences[1].begin, 10);
  EXPECT_EQ(plan.sequences[1].count, 1);
  EXPECT_TRUE(plan.sequences[1].samples);
  ASSERT_EQ(plan.copies.size(), 4U);
  EXPECT_EQ(plan.copies[0].sequence, 1);
  EXPECT_EQ(plan.copies[0].from, plan.block_table(0, 0)[2]);
  EXPECT_EQ(plan.copies[0].to, plan.block_table(1, 0)[2]);
  EXPECT_EQ(plan.block_table(2, 0)[0], plan.block_table(0, 0)[0]);
  EXPECT_NE(plan.block_table(2, 0)[2], plan.block_table(1, 0)[2]);
  world.write(plan);
  world.scheduler.advance();
  for (const auto& sequence : world.sequences) sequence->generated.push_back(7);
  EXPECT_GT(world.run(), 0);
  EXPECT_EQ(world.scheduler.num_free_blocks(), 40);
}

TEST(Scheduler, SiblingsBeginWithThePromptOfOneThatHasFinished) {
  World world(small(64, 3), {{.num_blocks = 20}, {.num_blocks = 20, .window = 8}});
  for (int32_t choice = 0; choice < 5; ++choice) world.add(1, 11, 1, choice);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(world.sequences[0]->generated.size(), 1U);
  EXPECT_EQ(world.scheduler.num_running(), 0);
  // The finished ones take no place in the batch.
  for (const size_t num_started : {3, 1}) {
    const StepPlan& plan = world.scheduler.plan(world.now_us);
    ASSERT_EQ(plan.sequences.size(), num_started);
    world.scheduler.advance();
    for (const PlannedSequence& planned : plan.sequences) {
      EXPECT_EQ(planned.begin, 10);
      planned.sequence->generated.push_back(7);
      world.scheduler.finish(*planned.sequence);
    }
  }
  EXPECT_FALSE(world.step());
  EXPECT_EQ(world.scheduler.num_free_blocks(), 40);
}

TEST(Scheduler, FinishedSequencesMakeRoomForThoseThatNeedIt) {
  World world(small(64, 8), {{.num_blocks = 3}});
  for (int32_t choice = 0; choice < 3; ++choice) world.add(1, 12, 1, choice);
  EXPECT_EQ(world.run(), 3);
  EXPECT_EQ(world.num_copies, 0);
  for (const auto& sequence : world.sequences) EXPECT_EQ(sequence->generated.size(), 1U);
  EXPECT_EQ(world.scheduler.num_free_blocks(), 3);
}

TEST(Scheduler, AScoredPromptRunsInPiecesThatItsLogitsFitIn) {
  SchedulerOptions options = small(64, 4);
  options.max_prompt_logits = 5;
  World world(options, {{.num_blocks = 100}});
  Sequence& scored = world.add(1, 13, 2);
  scored.scores_prompt = true;
  Sequence& plain = world.add(2, 13, 2);
  std::vector<int64_t> rows;
  std::vector<int64_t> counts;
  while (scored.generated.empty()) {
    const StepPlan& plan = world.scheduler.plan(world.now_us);
    rows.push_back(plan.sequences[0].num_logits);
    counts.push_back(plan.sequences[0].count);
    ASSERT_TRUE(world.step());
  }
  // 12 rows of the prompt, in fives, and with the last two the one that samples.
  EXPECT_EQ(rows, (std::vector<int64_t>{5, 5, 3}));
  EXPECT_EQ(counts, (std::vector<int64_t>{5, 5, 3}));
  EXPECT_GE(plain.generated.size(), 1U);
}

/// Counts from `first`.
std::vector<int32_t> range(int32_t first, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(Scheduler, BeginsWithWhatTheCacheHas) {
  World world(small(64, 4), {{.num_blocks = 40}, {.num_blocks = 40, .window = 9}});
  const std::vector<int32_t> prompt = range(0, 22);
  world.add(prompt, 1, 5);
  EXPECT_GT(world.run(), 0);

  std::vector<int32_t> longer = range(0, 22);
  longer.insert(longer.end(), 5, 7);  // as the answer was
  longer.insert(longer.end(), {90, 91});
  const Sequence& next = world.add(longer, 2, 3);
  const StepPlan& plan = world.scheduler.plan(world.now_us);
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].begin, 24);  // 26 tokens of the first one were computed
  EXPECT_EQ(plan.sequences[0].count, 5);
  EXPECT_EQ(next.num_cached, 24);
  world.scheduler.advance();
  EXPECT_EQ(world.scheduler.prefix_stats().num_queried, 22 + 29);
  EXPECT_EQ(world.scheduler.prefix_stats().num_hits, 24);
  world.scheduler.remove(next);

  // A whole prompt again: its last block is copied, since its last token runs once more.
  const std::vector<int32_t> whole = range(0, 20);
  world.add(whole, 3, 3);
  const StepPlan& again = world.scheduler.plan(world.now_us);
  ASSERT_EQ(again.sequences.size(), 1U);
  EXPECT_EQ(again.sequences[0].begin, 19);
  ASSERT_EQ(again.copies.size(), 2U);
  EXPECT_EQ(again.copies[1].group, 1);
  EXPECT_NE(again.copies[1].from, again.copies[1].to);
  EXPECT_EQ(again.copies[1].to, again.block_table(0, 1)[4]);
}

/// How many tokens of one tenant's prompt of 33, asked again three times, are found beside another
/// tenant that asks ten times as often, for something else each time.
int64_t found_beside_a_flood(double tenant_cache_share) {
  World world({.block_size = 4,
               .step_tokens = 16,
               .max_batch = 2,
               .tenant_cache_share = tenant_cache_share},
              {{.num_blocks = 30}, {.num_blocks = 30, .window = 6}});
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 31; ++i) {
    prompts.emplace_back(33);
    std::iota(prompts.back().begin(), prompts.back().end(), 100 * i);
  }
  const auto ask = [&](size_t prompt, int64_t id, std::string_view tenant) {
    Sequence& sequence = world.add(prompts[prompt], id, 3);
    sequence.tenant = tenant;
    world.run();
    return sequence.num_cached;
  };
  int64_t id = 0;
  int64_t num_found = ask(0, ++id, "quiet");
  for (size_t i = 1; i <= 30; ++i) {
    ask(i, ++id, "flood");
    if (i % 10 == 0) num_found += ask(0, ++id, "quiet");
  }
  EXPECT_EQ(world.scheduler.num_cache_tenants(), tenant_cache_share < 1 ? 2 : 0);
  return num_found;
}

TEST(Scheduler, AFloodOfOneTenantLeavesWhatOthersHaveInTheCache) {
  EXPECT_EQ(found_beside_a_flood(1), 0);
  EXPECT_EQ(found_beside_a_flood(0.5), 3 * 32);
}

// Three prompts of eight full blocks and a ninth fill the pool; a fourth pushes the oldest out.
TEST(Scheduler, ALoneTenantHasTheWholeCache) {
  World world({.block_size = 4, .step_tokens = 16, .max_batch = 2, .tenant_cache_share = 0.1},
              {{.num_blocks = 25}});
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 4; ++i) {
    prompts.emplace_back(33);
    std::iota(prompts.back().begin(), prompts.back().end(), 100 * i);
  }
  int64_t id = 0;
  const auto ask = [&](size_t prompt) {
    const Sequence& sequence = world.add(prompts[prompt], ++id, 1);
    world.run();
    return sequence.num_cached;
  };
  for (const int64_t expected : {0, 32})
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ask(i), expected);
  EXPECT_EQ(ask(3), 0);
  EXPECT_EQ(ask(2), 32);
  EXPECT_LT(ask(0), 32);
}

TEST(Scheduler, WaitsForOneThatComputesTheSame) {
  World world(small(16, 4), {{.num_blocks = 100}});
  const std::vector<int32_t> prompt = range(0, 40);
  std::vector<int32_t> other = range(0, 40);
  other.back() = 99;
  const std::vector<int32_t> unrelated = range(50, 5);
  const Sequence& first = world.add(prompt, 1, 2);
  const Sequence& second = world.add(other, 2, 2);
  const Sequence& third = world.add(unrelated, 3, 2);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(first.num_computed, 11);
  EXPECT_EQ(third.num_cached, 0);  // overtakes the one that would only have repeated
  ASSERT_TRUE(world.step());
  ASSERT_TRUE(world.step());
  EXPECT_EQ(first.num_computed, 40);
  EXPECT_EQ(second.num_cached, -1);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(second.num_cached, 39);
  EXPECT_GT(world.run(), 0);
}

TEST(Scheduler, DoesNotWaitForLittle) {
  World world(small(64, 4), {{.num_blocks = 100}});
  const std::vector<int32_t> prompt = range(0, 30);
  std::vector<int32_t> other = range(0, 12);
  for (const int32_t token : range(60, 13)) other.push_back(token);
  world.add(prompt, 1, 2);
  world.add(other, 2, 2);
  EXPECT_EQ(world.scheduler.plan(world.now_us).sequences.size(), 2U);
  world.scheduler.advance();
}

TEST(Scheduler, ABlockToCopyFromGivesWayWhereBlocksAreScarce) {
  World world(small(64, 4), {{.num_blocks = 4}});
  const std::vector<int32_t> prompt = range(0, 8);
  world.add(prompt, 1, 1);
  EXPECT_EQ(world.run(), 1);
  // All four blocks are needed; that of the tokens 4 to 7 cannot stay beside its copy.
  std::vector<int32_t> other = range(0, 16);
  other[6] = 99;
  Sequence& next = world.add(other, 2, 1);
  EXPECT_EQ(world.run(), 1);
  EXPECT_EQ(next.num_cached, 4);
  EXPECT_EQ(world.num_copies, 0);
}

TEST(Scheduler, APreemptedSequenceFindsMostOfItselfAgain) {
  World world(small(64, 4), {{.num_blocks = 14}});
  world.add(1, 16, 24);
  world.add(2, 16, 24);
  while (world.preemptions == 0) ASSERT_TRUE(world.step());
  EXPECT_GT(world.run(), 0);
  const PrefixStats& stats = world.scheduler.prefix_stats();
  EXPECT_GE(stats.num_preempted, 16);
  EXPECT_GT(stats.num_resumed, 0);
  EXPECT_LT(stats.num_resumed, stats.num_preempted + 1);
}

TEST(Scheduler, OfWhatIsRemovedTheLastStepIsNotOffered) {
  World world(small(64, 4), {{.num_blocks = 40}});
  const std::vector<int32_t> prompt = range(0, 20);
  const Sequence& failed = world.add(prompt, 1, 2);
  (void)world.scheduler.plan(world.now_us);
  world.scheduler.advance();
  world.scheduler.remove(failed);
  const Sequence& next = world.add(prompt, 2, 2);
  ASSERT_TRUE(world.step());
  EXPECT_EQ(next.num_cached, 0);
}

/// A tier that has every block whose first token is at least 1000, ready to be taken.
class ReadyTier final : public BlockTier {
 public:
  bool contains(const BlockName& name) override { return name.tokens.front() >= 1000; }
  TierState fetch(const BlockName& name, int64_t /*round*/) override {
    return contains(name) ? TierState::ready : TierState::absent;
  }
  std::span<const std::byte> take(const BlockName& /*name*/) override { return {}; }
  std::span<std::byte> save(const BlockName& /*name*/) override { return {}; }
  void end_step(bool /*saved*/) override {}
  double load_us(int64_t /*bytes*/) override { return 0; }
  double backlog_us() override { return 0; }
};

/// The most urgent first; it displaces whatever is less so.
const Policy kUrgency = {
    .name = "urgency",
    .summary = "",
    .rank = [](const Sequence& sequence, const QueueView&) -> double { return -sequence.priority; },
    .displaces = [](const Sequence& waiting, const Sequence& running,
                    const QueueView&) { return waiting.priority > running.priority; }};

TEST(Scheduler, NothingIsLoadedIntoABlockThatASiblingIsToBeCopiedFrom) {
  ReadyTier tier;
  SchedulerOptions options = small(64, 8);
  options.policy = &kUrgency;
  options.tier = &tier;
  World world(options, {{.num_blocks = 10}});
  const std::vector<int32_t> shared = range(0, 6);
  const std::vector<int32_t> other = range(100, 13);
  const std::vector<int32_t> large = range(1000, 16);
  const std::vector<int32_t> last = range(2000, 5);
  const auto add = [&](std::span<const int32_t> tokens, int64_t request_id, int32_t choice,
                       int32_t priority) {
    world.add(tokens, request_id, 10, choice).priority = priority;
  };
  add(shared, 1, 0, -3);
  add(other, 2, 0, -2);
  ASSERT_TRUE(world.step());
  // In one plan: the sibling begins with a copy of the first one's last block; then both that run
  // give their blocks back to a large request, which has three on the tier and takes the one that
  // was given back last; then the one given back before that is the next to be loaded into.
  add(shared, 1, 1, 2);
  add(large, 3, 0, 1);
  add(last, 4, 0, 0);
  const StepPlan& plan = world.scheduler.plan(world.now_us += 1000);
  EXPECT_EQ(plan.num_preemptions, 2);
  ASSERT_EQ(plan.copies.size(), 1U);
  ASSERT_EQ(plan.loads.size(), 4U);
  for (const BlockLoad& load : plan.loads) EXPECT_NE(load.block, plan.copies[0].from);
  world.scheduler.end_moves(true);
}

TEST(Scheduler, RandomLoadKeepsEveryInvariantAndEnds) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const int64_t context = 64;
    SchedulerOptions options = small(draw(1, 40), 1);
    options.max_batch = static_cast<int32_t>(draw(1, std::min<int64_t>(12, options.step_tokens)));
    options.max_prompt_logits = draw(1, 9);
    options.policy = policies()[seed % policies().size()];
    options.aging_us = draw(1, 200'000);
    options.batching = batching_modes()[seed % batching_modes().size()]->batching;
    options.preferred_batch = draw(0, options.max_batch);
    options.batch_wait_us = draw(0, 20'000);
    if (draw(0, 5) == 0) options.reserve_tokens = context;
    std::vector<GroupBlocks> groups;
    for (const int64_t window : {int64_t{0}, draw(1, 30)})
      groups.push_back({peak_blocks(context, window, options.step_tokens, 4) + draw(0, 8), window});
    std::vector<std::vector<int32_t>> texts(4);
    for (std::vector<int32_t>& text : texts)
      for (int i = 0; i < 50; ++i) text.push_back(static_cast<int32_t>(draw(0, 9) == 0));
    World world(options, groups);
    int64_t submitted = 0;
    for (int64_t round = 0; round < 400; ++round) {
      if (submitted < 60 && draw(0, 2) == 0) {
        ++submitted;
        const int64_t num_prompt = draw(1, 50);
        const int64_t length = draw(1, context - num_prompt);
        const int64_t n = draw(0, 3) == 0 ? draw(2, 6) : 1;
        const auto priority = static_cast<int32_t>(draw(-2, 2));
        const int64_t predicted = draw(0, 30);
        for (int32_t choice = 0; choice < n; ++choice) {
          Sequence& sequence = world.add(submitted, num_prompt, length, choice);
          sequence.scores_prompt = choice == 0 && submitted % 5 == 0;
          sequence.priority = priority;
          sequence.predicted_generated = predicted;
        }
      }
      if (draw(0, 30) == 0 && !world.sequences.empty()) {
        Sequence& victim =
            *world.sequences[static_cast<size_t>(draw(0, std::ssize(world.sequences) - 1))];
        world.scheduler.remove(victim);
        victim.max_generated = -1;
      }
      world.step();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    }
    world.run();
    if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    EXPECT_EQ(world.scheduler.num_running() + world.scheduler.num_waiting(), 0);
    EXPECT_EQ(world.scheduler.num_free_blocks(), world.scheduler.num_blocks());
    for (const auto& sequence : world.sequences) {
      if (sequence->max_generated < 0) continue;
      EXPECT_EQ(std::ssize(sequence->generated), sequence->max_generated);
      EXPECT_FALSE(sequence->scoring());
    }
  }
}

}  // namespace
}  // namespace hasten::engine
