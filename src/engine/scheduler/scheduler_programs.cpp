// SPDX-License-Identifier: Apache-2.0
// What stays in the cache of a program that pauses: keep, swap or drop, by expected waste.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

// No pause of a tool is longer; and sums of times stay far from where they end.
constexpr double kMaxHeldUs = 3600e6;

}  // namespace

/// Has the blocks of a sequence that has drawn its last token held for its program's next call,
/// where that wastes less than to bring them back later (Abhyankar et al., InferCept, 2024). What
/// is held for a pause is its memory for so long; what it takes to compute its tokens anew, or to
/// load them where that is faster, is time in which the memory of all that run waits. So blocks are
/// held until both are equal, which is never more than twice the waste of who knows the pause, and
/// not at all for a program whose pauses are known to be longer. Then they are left to the order of
/// eviction, on the way of which a lower tier may take them.
///
/// Holds are a part of each pool at most, and of each tenant's blocks no more than its share of the
/// cache, as they are evicted last; and they give way to whatever runs. The first blocks go first:
/// without them the others are of no use. Where a policy displaces what runs, nothing is held: an
/// urgent sequence shall not wait for a pause, and what was displaced comes back sooner.
void Scheduler::hold_for_program(const Running& running) {
  const Sequence& sequence = *running.sequence;
  if (sequence.program_index < 0 || options_.held_share <= 0 || !tree_ ||
      options_.policy->displaces != nullptr)
    return;
  programs_.hold(sequence.program_index, {}, 0);
  if (sequence.program_calls_left == 0 || !step_time_.ready()) return;

  StepWork work;
  work.add(0, sequence.num_computed);
  double miss_us = step_time_.added_us(work);
  int64_t num_own = 0;
  int64_t num_used = 0;
  int64_t num_bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t num_held = running.tables[g].num_held();
    num_own += num_held;
    num_bytes += num_held * groups_[g].block_bytes;
    num_used += groups_[g].pool.num_blocks() - groups_[g].pool.num_free();
  }
  if (num_own == 0) return;
  if (options_.tier != nullptr) miss_us = std::min(miss_us, options_.tier->load_us(num_bytes));
  const double worth_us =
      std::min(kMaxHeldUs, miss_us * static_cast<double>(num_used) / static_cast<double>(num_own));
  if (programs_.pause_us(sequence.program_index) > worth_us) return;

  std::vector<BlockHold> holds;
  for (size_t g = 0; g < groups_.size(); ++g) {
    BlockPool& pool = groups_[g].pool;
    const auto most =
        static_cast<int64_t>(options_.held_share * static_cast<double>(pool.num_blocks()));
    for (const int32_t id : running.tables[g].ids())
      if (id >= 0 && pool.is_kept(id) && pool.num_held() < most &&
          pool.may_hold(pool.tenant_of(id)))
        holds.push_back(pool.hold(id));
  }
  programs_.hold(sequence.program_index, std::move(holds),
                 view_.now_us + static_cast<int64_t>(worth_us));
}

/// Of the free blocks of a group those that are held for others than who is to be admitted. As long
/// as something runs it waits for them, be it until they are held no longer.
int64_t Scheduler::num_reserved(size_t g) const {
  const int64_t num_held = groups_[g].pool.num_idle_held();
  if (num_held == 0 || num_running_ == 0) return 0;
  return num_held - tree_->num_held(found_.prefix, g);
}

}  // namespace hasten::engine
