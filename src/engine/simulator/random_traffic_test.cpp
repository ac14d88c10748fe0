// SPDX-License-Identifier: Apache-2.0
// The scheduler under random traffic with little memory: arrivals, lengths, shared prefixes, n > 1,
// scoring and cancellations, and a lower tier that fails, all from one seed; every invariant is
// checked in every step.
//
// HASTEN_TEST_SEEDS is how many seeds run, HASTEN_TEST_SEED the first of them: a failing seed is
// printed with the call that replays it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/siphash.h"
#include "engine/kv_cache/sizing.h"
#include "engine/scheduler/scheduler.h"
#include "engine/simulator/random_tier_test.h"

namespace hasten::engine {
namespace {

/// What a broken invariant throws.
struct Broken {
  std::string what;
};

#define REQUIRE(condition)                                                   \
  if (!(condition)) throw Broken {                                           \
      fmt::format("{} (line {}, step {})", #condition, __LINE__, num_steps_) \
    }

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

/// One choice of a request, and what its keys and values must be: a hash of all tokens up to each
/// position, as those of a real model are a function of them.
struct Choice {
  Sequence sequence;
  std::vector<uint64_t> contents;  // [num_tokens]
  bool ended = false;

  /// `seed` is of whom the choice finds prefixes.
  void update(uint64_t seed) {
    while (std::ssize(contents) < sequence.num_tokens()) {
      const auto position = std::ssize(contents);
      const uint64_t before = contents.empty() ? seed : contents.back();
      contents.push_back(mix64(before + static_cast<uint64_t>(sequence.token(position))));
    }
  }
};

struct Ask {
  int64_t arrival_step = 0;
  int64_t cancel_step = 0;  // INT64_MAX: never
  int64_t allows_us = 0;    // from its arrival to its deadline; 0: none
  std::string tenant;
  std::string_view program;  // empty: none
  int32_t calls_left = -1;
  std::vector<int32_t> prompt;
  std::vector<std::unique_ptr<Choice>> choices;
  bool added = false;
  bool over = false;
};

constexpr int32_t kNumTenants = 4;

class Traffic {
 public:
  explicit Traffic(uint64_t seed) : random_(seed) {
    options_.block_size = int64_t{1} << draw(0, 3);
    options_.step_tokens = draw(1, 24);
    options_.max_batch = static_cast<int32_t>(draw(1, std::min<int64_t>(options_.step_tokens, 6)));
    options_.max_prompt_logits = draw(1, 8);
    if (draw(0, 2) == 0) options_.target_step_us = draw(1, 400);
    options_.prefix_cache = !chance(4);
    const auto known = policies();
    options_.policy = known[static_cast<size_t>(draw(0, std::ssize(known) - 1))];
    options_.aging_us = draw(1, 50'000);
    options_.held_share = chance(4) ? 0 : static_cast<double>(draw(0, 4)) / 4;
    if (chance(2)) options_.tenant_cache_share = static_cast<double>(draw(1, 99)) / 100;
    shares_prefixes_ = chance(4);
    options_.batching =
        batching_modes()[static_cast<size_t>(draw(0, std::ssize(batching_modes()) - 1))]->batching;
    options_.preferred_batch = draw(0, options_.max_batch);
    options_.batch_wait_us = draw(0, 20'000);
    context_ = draw(4, 48);
    if (chance(6)) options_.reserve_tokens = context_;
    if (chance(6)) {
      options_.chunked_prefill = false;
      options_.step_tokens = std::max(options_.step_tokens, context_);
    }
    const int64_t num_groups = draw(1, 2);
    for (int64_t g = 0; g < num_groups; ++g) {
      const int64_t window = chance(3) ? draw(1, 20) : 0;
      const int64_t one = peak_blocks(context_, window, options_.step_tokens, options_.block_size);
      groups_.push_back({.num_blocks = one + draw(0, 2 * one), .window = window});
      memory_.emplace_back(static_cast<size_t>(groups_.back().num_blocks * options_.block_size),
                           uint64_t{0});
    }
    if (options_.prefix_cache && chance(2)) {
      const auto block_bytes = static_cast<size_t>(options_.block_size) * sizeof(uint64_t);
      tier_ = std::make_unique<RandomTier>(random_(), draw(1, 60), block_bytes);
      options_.tier = tier_.get();
    }
    scheduler_ = std::make_unique<Scheduler>(options_, groups_);
    const int64_t num_asks = draw(1, 12);
    for (int64_t i = 0; i < num_asks; ++i) add_ask(i);
  }

  void run() {
    while (std::ranges::any_of(asks_, [](const auto& ask) { return !ask->over; })) {
      REQUIRE(num_steps_ < 20'000);  // or else what is admitted does not end
      arrive();
      cancel();
      now_us_ += draw(0, 5000);
      give_up();
      if (tier_) tier_->num_not_yet = 0;
      const std::vector<const Sequence*> waiting = all_waiting();
      const StepPlan& plan = scheduler_->plan(now_us_);
      REQUIRE(!plan.empty() || scheduler_->num_running() == 0);
      // What is copied for who is admitted may be gone in the next step.
      for (const Sequence* const sequence : waiting)
        REQUIRE(sequence->queued_us >= 0 ||
                std::ranges::count(plan.sequences, sequence, &PlannedSequence::sequence) == 1);
      REQUIRE(!plan.empty() || scheduler_->next_step_us() > now_us_ || waits_for_tier());
      check(plan);
      if (move(plan)) {
        execute(plan);
        commit(plan);
      }
      check_tenants();
      ++num_steps_;
    }
    while (scheduler_->evict_newest(3)) scheduler_->end_moves(false);
    REQUIRE(scheduler_->num_waiting() == 0 && scheduler_->num_running() == 0);
    REQUIRE(scheduler_->num_free_blocks() == scheduler_->num_blocks());
    check_tenants();
    REQUIRE(scheduler_->num_cache_tenants() == 0);
  }

  /// Tokens that came from the lower tier.
  int64_t num_loaded() const { return scheduler_->prefix_stats().num_loaded; }

 private:
  int64_t draw(int64_t min, int64_t max) {
    return min + static_cast<int64_t>(random_() % static_cast<uint64_t>(max - min + 1));
  }
  bool chance(int64_t one_in) { return draw(1, one_in) == 1; }

  void add_ask(int64_t id) {
    auto ask = std::make_unique<Ask>();
    ask->arrival_step = draw(0, 40);
    ask->cancel_step = chance(4) ? ask->arrival_step + draw(0, 30) : INT64_MAX;
    ask->tenant = std::vector<std::string>{"a", "a", "b", "b", "c", "d"}[random_() % 6];
    ask->program = std::vector<std::string_view>{"", "", "p", "q"}[random_() % 4];
    ask->calls_left = static_cast<int32_t>(draw(-1, 2));
    const int64_t num_prompt = draw(1, context_ - 1);
    if (chance(2) && !asks_.empty()) {  // begins as an earlier one does
      const auto& other = asks_[static_cast<size_t>(draw(0, std::ssize(asks_) - 1))]->prompt;
      const auto shared = std::min<int64_t>(num_prompt, draw(1, std::ssize(other)));
      ask->prompt.assign(other.begin(), other.begin() + shared);
    }
    while (std::ssize(ask->prompt) < num_prompt)
      ask->prompt.push_back(static_cast<int32_t>(draw(0, 2)));
    const int64_t num_choices = chance(3) ? draw(2, 3) : 1;
    const bool scores = chance(5);
    const auto priority = static_cast<int32_t>(draw(-1, 1));
    ask->allows_us = chance(2) ? draw(1, 200'000) : 0;
    for (int64_t c = 0; c < num_choices; ++c) {
      auto choice = std::make_unique<Choice>();
      choice->sequence.request_id = id;
      choice->sequence.choice = static_cast<int32_t>(c);
      choice->sequence.has_siblings = num_choices > 1;
      choice->sequence.priority = priority;
      choice->sequence.tenant = ask->tenant;
      choice->sequence.program = ask->program;
      choice->sequence.program_calls_left = ask->calls_left;
      choice->sequence.cache_domain = siphash(shares_prefixes_ ? "all" : ask->tenant, {});
      choice->sequence.prompt = ask->prompt;
      choice->sequence.max_generated = draw(1, context_ - num_prompt);
      choice->sequence.scores_prompt = scores && c == 0;
      ask->choices.push_back(std::move(choice));
    }
    asks_.push_back(std::move(ask));
  }

  void arrive() {
    for (const auto& ask : asks_) {
      if (ask->added || ask->arrival_step > num_steps_) continue;
      ask->added = true;
      for (const auto& choice : ask->choices) {
        choice->sequence.arrival_us = now_us_;
        if (ask->allows_us > 0) choice->sequence.deadline_us = now_us_ + ask->allows_us;
        update(*choice);
        scheduler_->add(choice->sequence);
      }
    }
  }

  void cancel() {
    for (const auto& ask : asks_)
      if (ask->added && !ask->over && ask->cancel_step <= num_steps_) end(*ask);
  }

  /// Ends what the policy finds to be of no use any more.
  void give_up() {
    for (const Sequence* const sequence : scheduler_->hopeless(now_us_)) {
      REQUIRE(sequence->queued_us >= 0 && sequence->num_cached < 0);
      Ask& ask = *asks_[static_cast<size_t>(sequence->request_id)];
      if (!ask.over) end(ask);
    }
  }

  void end(Ask& ask) {
    for (const auto& choice : ask.choices) scheduler_->remove(choice->sequence);
    ask.over = true;
  }

  void update(Choice& choice) {
    const Sequence& sequence = choice.sequence;
    // Of each tenant its own, or a block that crossed between tenants would not show.
    const size_t num_known = choice.contents.size();
    choice.update(shares_prefixes_ ? 0 : hash_bytes(sequence.tenant));
    for (size_t i = num_known; i < choice.contents.size(); ++i)
      authors_.emplace(choice.contents[i], sequence.tenant);
  }

  /// Of each tenant as many blocks are counted as are kept for it, each number is that of one
  /// tenant, and contents are kept for whose they are.
  void check_tenants() {
    const bool has_shares = options_.tenant_cache_share < 1;
    std::map<int32_t, std::string> names;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const BlockPool& pool = scheduler_->pool(g);
      std::map<int32_t, int64_t> counts;
      for (int32_t id = 0; id < pool.num_blocks(); ++id) {
        if (!pool.is_kept(id)) continue;
        const int32_t number = pool.tenant_of(id);
        ++counts[number];
        REQUIRE(number >= 0 && number < (has_shares ? kNumTenants : 1));
        if (!has_shares || shares_prefixes_) continue;
        const std::string& name = authors_.at(slot(g, id, 0));
        REQUIRE(names.emplace(number, name).first->second == name);
      }
      for (int32_t number = 0; has_shares && number <= kNumTenants; ++number)
        REQUIRE(pool.num_kept(number) == counts[number]);
    }
    std::set<std::string> distinct;
    for (const auto& [number, name] : names) REQUIRE(distinct.insert(name).second);
    REQUIRE(scheduler_->num_cache_tenants() <= (has_shares ? kNumTenants : 0));
    REQUIRE(scheduler_->num_cache_tenants() >= std::ssize(names));
  }

  std::vector<const Sequence*> all_waiting() const {
    std::vector<const Sequence*> waiting;
    for (const auto& ask : asks_)
      for (const auto& choice : ask->choices)
        if (ask->added && !ask->over && choice->sequence.queued_us >= 0)
          waiting.push_back(&choice->sequence);
    return waiting;
  }

  /// Whether a sequence waits for blocks that the tier, asked in this plan, is about to bring:
  /// whoever runs an empty plan sleeps until it has.
  bool waits_for_tier() const {
    if (!tier_ || tier_->num_not_yet == 0) return false;
    return std::ranges::any_of(asks_, [](const auto& ask) {
      if (!ask->added || ask->over) return false;
      return std::ranges::any_of(ask->choices, [](const auto& choice) {
        const Sequence& sequence = choice->sequence;
        return !choice->ended && sequence.queued_us >= 0 && sequence.load_until_us >= 0;
      });
    });
  }

  /// What a plan must keep whatever was planned before.
  void check(const StepPlan& plan) const {
    REQUIRE(plan.num_tokens <= options_.step_tokens);
    REQUIRE(std::ssize(plan.sequences) <= options_.max_batch);
    REQUIRE(plan.num_logits <= std::ssize(plan.sequences) + options_.max_prompt_logits);
    std::set<const Sequence*> seen;
    int64_t num_tokens = 0;
    for (const PlannedSequence& planned : plan.sequences) {
      const Sequence& sequence = *planned.sequence;
      const Ask& ask = *asks_[static_cast<size_t>(sequence.request_id)];
      REQUIRE(ask.added && !ask.over);
      REQUIRE(!ask.choices[static_cast<size_t>(sequence.choice)]->ended);
      REQUIRE(seen.insert(&sequence).second);
      REQUIRE(planned.begin == sequence.num_computed && planned.count >= 1);
      REQUIRE(planned.end() <= sequence.num_tokens());
      REQUIRE(planned.samples == (planned.end() == sequence.num_tokens()));
      REQUIRE(options_.chunked_prefill || planned.samples || sequence.scores_prompt);
      num_tokens += planned.count;
    }
    REQUIRE(num_tokens == plan.num_tokens);
    REQUIRE(plan.kv_tokens_used <= plan.kv_tokens_allocated);
    REQUIRE(plan.num_preemptions == 0 || options_.reserve_tokens == 0 ||
            options_.policy->displaces != nullptr);
  }

  uint64_t& slot(size_t group, int32_t block, int64_t offset) {
    return memory_[group][static_cast<size_t>(block * options_.block_size + offset)];
  }

  /// Does what there is to do before a step. False: it went wrong, and who was to run has ended.
  bool move(const StepPlan& plan) {
    if (plan.saves.empty() && plan.loads.empty()) return true;
    const bool fails = chance(30);
    const auto bytes = [&](int32_t group, int32_t block) {
      return std::as_writable_bytes(
          std::span(&slot(static_cast<size_t>(group), block, 0), options_.block_size));
    };
    for (const BlockSave& save : plan.saves)
      if (!fails) std::ranges::copy(bytes(save.group, save.block), save.to.begin());
    for (const BlockLoad& load : plan.loads)
      if (!fails) std::ranges::copy(load.from, bytes(load.group, load.block).begin());
    scheduler_->end_moves(!fails);
    if (!fails) return true;
    scheduler_->advance();
    std::vector<int64_t> ids;
    for (const PlannedSequence& planned : plan.sequences)
      ids.push_back(planned.sequence->request_id);
    for (const int64_t id : ids) end(*asks_[static_cast<size_t>(id)]);
    return false;
  }

  /// Does what a runner does, with hashes for keys and values: copies, then writes, then reads. A
  /// block that two sequences write, that was given away too early, or that never was computed
  /// shows in what is read.
  void execute(const StepPlan& plan) {
    for (const BlockCopy& copy : plan.copies) {
      const auto group = static_cast<size_t>(copy.group);
      const auto taker = static_cast<size_t>(copy.sequence);
      REQUIRE(copy.sequence >= 0 && taker < plan.sequences.size());
      REQUIRE(std::ranges::count(plan.block_table(taker, group), copy.to) == 1);
      for (int64_t i = 0; i < options_.block_size; ++i)
        slot(group, copy.to, i) = slot(group, copy.from, i);
    }
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const PlannedSequence& planned = plan.sequences[i];
      const Choice& choice = choice_of(planned);
      for (size_t g = 0; g < groups_.size(); ++g) {
        const auto table = plan.block_table(i, g);
        REQUIRE(std::ssize(table) * options_.block_size >= planned.end());
        for (int64_t p = planned.begin; p < planned.end(); ++p) {
          const int32_t block = table[static_cast<size_t>(p / options_.block_size)];
          REQUIRE(block >= 0 && block < groups_[g].num_blocks);
          slot(g, block, p % options_.block_size) = choice.contents[static_cast<size_t>(p)];
        }
      }
    }
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const PlannedSequence& planned = plan.sequences[i];
      const Choice& choice = choice_of(planned);
      for (size_t g = 0; g < groups_.size(); ++g) {
        const auto table = plan.block_table(i, g);
        const int64_t window = groups_[g].window;
        const int64_t first = window > 0 ? std::max<int64_t>(0, planned.begin - window + 1) : 0;
        for (int64_t p = first; p < planned.end(); ++p) {
          const int32_t block = table[static_cast<size_t>(p / options_.block_size)];
          REQUIRE(block >= 0 && block < groups_[g].num_blocks);
          REQUIRE(slot(g, block, p % options_.block_size) ==
                  choice.contents[static_cast<size_t>(p)]);
        }
      }
    }
  }

  Choice& choice_of(const PlannedSequence& planned) const {
    return *asks_[static_cast<size_t>(planned.sequence->request_id)]
                ->choices[static_cast<size_t>(planned.sequence->choice)];
  }

  void commit(const StepPlan& plan) {
    scheduler_->advance(draw(1, 300));
    for (const PlannedSequence& planned : plan.sequences) {
      Choice& choice = choice_of(planned);
      Sequence& sequence = choice.sequence;
      REQUIRE(sequence.num_computed == planned.end());
      if (!planned.samples) continue;
      sequence.generated.push_back(static_cast<int32_t>(
          mix64(choice.contents.back() ^ static_cast<uint64_t>(sequence.choice)) % 3));
      update(choice);
      if (std::ssize(sequence.generated) < sequence.max_generated) continue;
      choice.ended = true;
      scheduler_->finish(sequence);
    }
    for (const auto& ask : asks_) {
      const auto has_ended = [](const auto& choice) { return choice->ended; };
      if (ask->added && !ask->over && std::ranges::all_of(ask->choices, has_ended)) end(*ask);
    }
  }

  std::mt19937_64 random_;
  SchedulerOptions options_;
  int64_t context_ = 0;
  std::vector<GroupBlocks> groups_;
  std::vector<std::vector<uint64_t>> memory_;  // of each group: [num_blocks, block_size]
  std::vector<std::unique_ptr<Ask>> asks_;
  std::unordered_map<uint64_t, std::string> authors_;  // tenants, by contents
  bool shares_prefixes_ = false;                       // all tenants find each other's
  std::unique_ptr<RandomTier> tier_;                   // null: none
  std::unique_ptr<Scheduler> scheduler_;               // goes before the sequences that it knows
  int64_t now_us_ = 0;
  int64_t num_steps_ = 0;
};

/// Runs the traffic of a seed; returns the tokens that came from the lower tier.
int64_t run_seed(int64_t seed) {
  std::string what;
  int64_t num_loaded = 0;
  try {
    Traffic traffic(static_cast<uint64_t>(seed));
    traffic.run();
    num_loaded = traffic.num_loaded();
  } catch (const Broken& broken) {
    what = broken.what;
  } catch (const std::exception& error) {
    what = error.what();
  }
  EXPECT_EQ(what, "") << "HASTEN_TEST_SEED=" << seed << " HASTEN_TEST_SEEDS=1 replays it";
  return num_loaded;
}

// With prompts in the order of their ranks, the one admitted first had no tokens of a step in which
// the other was preempted, and so nobody had.
TEST(RandomTraffic, NoStepIsEmptyWhileSomethingRuns) { run_seed(874531); }

TEST(RandomTraffic, KeepsEveryInvariant) {
  const int64_t first = from_environment("HASTEN_TEST_SEED", 1);
  const int64_t count = from_environment("HASTEN_TEST_SEEDS", 1500);
  int64_t num_loaded = 0;
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed)
    num_loaded += run_seed(seed);
  if (count >= 100) {
    EXPECT_GT(num_loaded, count / 8) << "tokens from the lower tier";
  }
}

}  // namespace
}  // namespace hasten::engine
