// SPDX-License-Identifier: Apache-2.0
// The sequences' coming and going, and a step's plan: share out, secure the blocks, write it down.
#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/prefetch.h"
#include "engine/kv_cache/sizing.h"

namespace hasten::engine {

Scheduler::Scheduler(const SchedulerOptions& options, std::span<const GroupBlocks> groups)
    : options_(options) {
  HASTEN_CHECK(options.max_batch > 0 && options.max_batch <= options.step_tokens);
  HASTEN_CHECK(options.block_size > 0 && options.max_prompt_logits > 0 && options.aging_us > 0);
  for (const GroupBlocks& group : groups) groups_.emplace_back(group, options.tenant_cache_share);
  max_running_ = most_running();
  view_.aging_us = options.aging_us;
  if (options.policy->by_tenant) tenants_.emplace(view_.weights);
  for (const GroupBlocks& group : groups) has_windows_ = has_windows_ || group.window > 0;
  if (options.prefix_cache) {
    std::vector<PrefixGroup> sources;
    for (Group& group : groups_) sources.push_back({.pool = &group.pool, .window = group.window});
    tree_.emplace(sources, options.block_size);
  }
  if (options.tier != nullptr) {
    HASTEN_CHECK(tree_);
    std::vector<MoverGroup> moved;
    for (size_t g = 0; g < groups.size(); ++g)
      moved.push_back({.pool = &groups_[g].pool, .block_bytes = groups[g].block_bytes});
    mover_.emplace(*options.tier, *tree_, step_time_, std::move(moved), options.block_size);
  }
  plan_.num_groups = static_cast<int64_t>(groups.size());
  if (options.batching == Batching::continuous) return;
  const int64_t preferred = options.preferred_batch > 0 ? options.preferred_batch : max_running_;
  batcher_.emplace(BatcherOptions{.batching = options.batching,
                                  .max_size = max_running_,
                                  .preferred = std::min(preferred, max_running_),
                                  .wait_us = options.batch_wait_us});
}

/// The places in the batch, or fewer where memory is reserved for each.
int64_t Scheduler::most_running() const {
  int64_t most = options_.max_batch;
  if (options_.reserve_tokens > 0)
    for (const Group& group : groups_)
      most = std::min(most, group.pool.num_blocks() / reserved_blocks(group));
  return std::max<int64_t>(1, most);
}

void Scheduler::add(Sequence& sequence) {
  sequence.queued_us = sequence.arrival_us;
  if (tenants_) sequence.tenant_index = tenants_->join(sequence.tenant);
  if (!sequence.program.empty()) sequence.program_index = programs_.join(sequence);
  if (options_.policy->by_length) foresee_hits(sequence);
  if (batcher_)
    batcher_->add(sequence);
  else
    enqueue(sequence);
  if (mover_) mover_->read_ahead(sequence, may_begin_with(sequence));
}

/// Lets the next batch wait for its blocks, once nobody of the last one is left.
void Scheduler::start_batch() {
  if (!batcher_ || !is_idle()) return;
  for (Sequence* const sequence : batcher_->next(*options_.policy, view_)) enqueue(*sequence);
}

int64_t Scheduler::next_step_us() const {
  if (!is_idle()) return 0;
  if (!batcher_) return INT64_MAX;
  int64_t next_us = batcher_->start_us();
  if (options_.policy->hopeless == nullptr) return next_us;
  // What is late is given up then; what is so already and still here will not be.
  for (const Sequence* const sequence : batcher_->held())
    if (sequence->deadline_us != kNoDeadline && sequence->deadline_us >= view_.now_us)
      next_us = std::min(next_us, sequence->deadline_us + 1);
  return next_us;
}

void Scheduler::remove(const Sequence& sequence) {
  const bool is_held = batcher_ && batcher_->remove(sequence);
  if (sequence.slot < 0 && !is_held) return;
  const bool waits = sequence.queued_us >= 0;
  bool counts = waits;
  // First, as the caller may forget the sequence whatever fails then.
  if (waits && !is_held) dequeue(sequence);
  if (!waits) {
    Running& running = slots_[static_cast<size_t>(sequence.slot)];
    counts = !running.finished;
    if (counts) offer_computed(running);
    vacate(running);
  }
  if (!counts) return;
  if (tenants_) tenants_->leave(sequence.tenant_index, waits);
  if (sequence.program_index >= 0) programs_.leave(sequence, view_.now_us);
}

/// Gives the tree what is computed of a sequence that is removed, but for what its last step has
/// left: that may be why it is.
void Scheduler::offer_computed(Running& running) {
  if (!tree_) return;
  try {
    tree_->extend(running.cursor, *running.sequence, running.tables,
                  running.begin / options_.block_size);
  } catch (const std::bad_alloc&) {
    // Then nobody finds it there.
  }
}

void Scheduler::finish(const Sequence& sequence) {
  if (sequence.slot < 0) return;
  if (sequence.queued_us < 0) {
    Running& running = slots_[static_cast<size_t>(sequence.slot)];
    take_in(running);
    uncount_kv(running);
    running.finished = true;
    hold_for_program(running);
    if (tenants_) tenants_->leave(sequence.tenant_index, false);
    if (sequence.program_index >= 0) programs_.leave(sequence, view_.now_us);
    --num_running_;
    ++num_finished_;
  }
  const auto is_sibling = [&](const Sequence* s) { return s->request_id == sequence.request_id; };
  if (!sequence.has_siblings || std::ranges::none_of(waiting_, is_sibling)) remove(sequence);
}

void Scheduler::enqueue(Sequence& sequence) {
  sequence.slot = static_cast<int32_t>(waiting_.size());
  waiting_.push_back(&sequence);
}

void Scheduler::dequeue(const Sequence& sequence) {
  const auto slot = static_cast<size_t>(sequence.slot);
  waiting_.back()->slot = sequence.slot;
  waiting_[slot]->slot = -1;
  waiting_[slot] = waiting_.back();
  waiting_.pop_back();
}

/// Gives back what a sequence holds. Its slot is free when the next plan takes it out of running_.
void Scheduler::vacate(Running& running) {
  --(running.finished ? num_finished_ : num_running_);
  uncount_kv(running);
  running.cursor = {};
  for (BlockTable& table : running.tables) table.clear();
  running.sequence->slot = -1;
  running.sequence = nullptr;
  running.count = 0;
}

/// Brings up to date what policies that give up look at.
void Scheduler::look(int64_t now_us) {
  view_.now_us = now_us;
  view_.idle = num_running_ == 0;
  view_.step_time = step_time_.ready() ? &step_time_ : nullptr;
}

std::span<Sequence* const> Scheduler::hopeless(int64_t now_us) {
  hopeless_.clear();
  if (options_.policy->hopeless == nullptr) return hopeless_;
  look(now_us);
  const auto is_hopeless = [&](Sequence* sequence) {
    if (!options_.policy->hopeless(*sequence, view_)) return false;
    foresee_hits(*sequence);  // others may have left its beginning in the cache meanwhile
    return options_.policy->hopeless(*sequence, view_);
  };
  std::ranges::copy_if(waiting_, std::back_inserter(hopeless_), is_hopeless);
  if (batcher_) std::ranges::copy_if(batcher_->held(), std::back_inserter(hopeless_), is_hopeless);
  return hopeless_;
}

bool Scheduler::is_hopeless_behind_queue(Sequence& sequence, int64_t now_us) {
  if (options_.policy->hopeless == nullptr) return false;
  look(now_us);
  foresee_hits(sequence);
  const Place own = place(sequence);
  double ahead_us = 0;
  const auto count = [&](std::span<Sequence* const> others) {
    for (const Sequence* const other : others)
      if (place(*other) < own) ahead_us += least_remaining_us(*other, view_);
  };
  count(waiting_);
  if (batcher_) count(batcher_->held());
  // As many as fit are served at a time, and some run already: this is the least.
  QueueView later = view_;
  later.now_us += static_cast<int64_t>(ahead_us / options_.max_batch);
  return options_.policy->hopeless(sequence, later);
}

const StepPlan& Scheduler::plan(int64_t now_us) {
  view_.now_us = now_us;
  if (tenants_) view_.tenant_service = tenants_->counters();
  view_.programs = programs_.services();
  programs_.expire(now_us);
  sources_.clear();
  plan_.copies.clear();
  plan_.saves.clear();
  plan_.loads.clear();
  plan_.num_preemptions = 0;
  tokens_left_ = options_.step_tokens;
  work_ = {};
  decoding_ = false;
  prompt_logits_left_ = options_.max_prompt_logits;
  num_prefilling_ = num_partial_ = 0;

  start_batch();
  share_budget();
  secure_blocks();
  // Freed blocks are for those who needed them: nobody is admitted in the step of a preemption.
  if (plan_.num_preemptions == 0) admit();
  top_up();
  drop_finished();
  emit();
  return plan_;
}

void Scheduler::advance(int64_t step_us) {
  constexpr size_t kAhead = 8;
  if (learns_step_time() && step_us > 0) step_time_.observe(work_, step_us);
  const bool charges = tenants_ || programs_.num_programs() > 0;
  sources_.clear();
  for (size_t i = 0; i < plan_.sequences.size(); ++i) {
    if (i + kAhead < plan_.sequences.size())
      prefetch(&plan_.sequences[i + kAhead].sequence->num_computed);
    const PlannedSequence& planned = plan_.sequences[i];
    Sequence& sequence = *planned.sequence;
    sequence.num_computed = planned.end();
    if (charges && planned.samples) charge_token(sequence);
    if (sequence.scoring())
      sequence.num_scored =
          std::max(sequence.num_scored, std::min(planned.end(), sequence.num_prompt() - 1));
  }
}

/// A token was generated.
void Scheduler::charge_token(const Sequence& sequence) {
  if (tenants_) tenants_->charge(sequence.tenant_index, 0, 1);
  if (sequence.program_index >= 0) programs_.charge(sequence.program_index, 0, 1);
}

bool Scheduler::learns_step_time() const {
  return options_.target_step_us > 0 || mover_ || programs_.num_programs() > 0 ||
         options_.policy->hopeless != nullptr;
}

void Scheduler::end_moves(bool done) {
  if (mover_) mover_->end_moves(done);
}

bool Scheduler::evict_newest(int64_t num_blocks) {
  if (mover_) mover_->save_all();
  bool evicted = false;
  for (Group& group : groups_)
    for (int64_t i = 0; i < num_blocks && group.pool.evict_newest(); ++i) evicted = true;
  return evicted;
}

int64_t Scheduler::num_blocks() const {
  int64_t sum = 0;
  for (const Group& group : groups_) sum += group.pool.num_blocks();
  return sum;
}

int64_t Scheduler::num_free_blocks() const {
  int64_t sum = 0;
  for (const Group& group : groups_) sum += group.pool.num_free();
  return sum;
}

/// Makes the planned tokens of every running sequence have blocks, by preemption where needed.
void Scheduler::secure_blocks() {
  constexpr size_t kFar = 8;
  constexpr size_t kNear = 4;
  bool offered_all = false;
  for (size_t i = 0; i < growing_.size();) {
    if (i + kFar < growing_.size()) {
      const Running& far = *growing_[i + kFar];
      prefetch(&far.tables);
      for (size_t g = 0; g < groups_.size(); ++g) prefetch(ids(far, g).data() + ids(far, g).size());
    }
    if (i + kNear < growing_.size()) prefetch(growing_[i + kNear]->tables.data());
    Running& running = *growing_[i];
    if (running.sequence == nullptr || grow(running)) {
      ++i;
    } else if (!drop_finished() && (std::exchange(offered_all, true) || !take_in_all())) {
      Running* const victim = last_of_running();
      HASTEN_CHECK(victim != nullptr);  // alone, everything fits
      refund(*victim);
      preempt(*victim);
    }
  }
}

/// Whom the policy ranks last, the one admitted earliest left out; null: nobody.
Scheduler::Running* Scheduler::last_of_running() const {
  Running* last = nullptr;
  Place worst;
  bool earliest = true;
  for (Running* const running : running_) {
    if (running->sequence == nullptr || std::exchange(earliest, false)) continue;
    const Place candidate = place(*running->sequence);
    if (last != nullptr && candidate < worst) continue;
    last = running;
    worst = candidate;
  }
  return last;
}

/// Gives back what left the window and takes the blocks of this step's tokens. False when the
/// pools have not got them. What the last computed token sees stays for one step more, so that a
/// sibling can begin with that token.
bool Scheduler::grow(Running& running) {
  const int64_t begin = running.sequence->num_computed;
  bool grown = true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].window > 0)
      running.tables[g].release_before(std::max<int64_t>(0, begin - groups_[g].window));
    grown = grown && running.tables[g].extend(begin + running.count);
  }
  if (grown) running.num_secured = std::ssize(running.tables.front().ids()) * options_.block_size;
  count_kv(running);
  return grown;
}

void Scheduler::preempt(Running& running) {
  Sequence& sequence = *running.sequence;
  prefix_stats_.num_preempted += sequence.num_computed;
  take_in(running);
  vacate(running);
  sequence.num_computed = sequence.num_found = 0;
  sequence.queued_us = view_.now_us;
  if (tenants_) tenants_->requeue(sequence.tenant_index);
  enqueue(sequence);
  ++plan_.num_preemptions;
}

/// Frees what finished sequences have kept. False when none has.
bool Scheduler::drop_finished() {
  if (num_finished_ == 0) return false;
  for (Running* const running : running_)
    if (running->sequence != nullptr && running->finished) vacate(*running);
  return true;
}

int64_t Scheduler::reserved_blocks(const Group& group) const {
  return peak_blocks(options_.reserve_tokens, group.window, options_.step_tokens,
                     options_.block_size);
}

/// Notes which blocks a running sequence has by now, and brings the account of memory up to date.
void Scheduler::count_kv(Running& running) {
  uncount_kv(running);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockTable& table = running.tables[g];
    block_ids_[static_cast<size_t>(running.slot) * groups_.size() + g] = table.ids();
    const int64_t held = table.num_held();
    running.kv.num_dropped += std::ssize(table.ids()) - held;
    running.kv.num_charged +=
        options_.reserve_tokens == 0 ? held : std::max(held, reserved_blocks(groups_[g]));
  }
  kv_.num_charged += running.kv.num_charged;
  kv_.num_dropped += running.kv.num_dropped;
}

/// Takes a sequence that runs no more out of that account.
void Scheduler::uncount_kv(Running& running) {
  kv_.num_charged -= running.kv.num_charged;
  kv_.num_dropped -= running.kv.num_dropped;
  running.kv = {};
}

/// Writes the plan down.
void Scheduler::emit() {
  constexpr size_t kAhead = 16;
  if (mover_) {
    plan_.saves = mover_->saves();
    plan_.loads = mover_->loads();
  }
  const size_t num_groups = groups_.size();
  plan_.sequences.resize(running_.size());
  plan_.block_tables.resize(running_.size() * num_groups);
  PlannedSequence* next = plan_.sequences.data();
  std::span<const int32_t>* next_table = plan_.block_tables.data();
  size_t next_copy = 0;  // they are in order of admission, too
  int64_t num_logits = 0;
  int64_t num_kept = 0;  // tokens whose keys and values are in the cache after this step
  for (size_t i = 0; i < running_.size(); ++i) {
    if (i + kAhead < running_.size()) prefetch(running_[i + kAhead]);
    const Running& running = *running_[i];
    if (running.count == 0) {  // the budget did not reach it, or it has left
      if (running.sequence != nullptr && !running.finished) num_kept += running.begin;
      continue;
    }
    for (; next_copy < plan_.copies.size(); ++next_copy) {
      if (plan_.copies[next_copy].sequence != running.slot) break;
      plan_.copies[next_copy].sequence = static_cast<int32_t>(next - plan_.sequences.data());
    }
    const int64_t end = running.begin + running.count;
    num_kept += end;
    *next = {.sequence = running.sequence,
             .begin = running.begin,
             .count = running.count,
             .num_logits = running.decodes ? 1 : end - first_logit(*running.sequence, end),
             .samples = running.decodes || end == running.sequence->num_tokens()};
    num_logits += next++->num_logits;
    const auto* const tables = &block_ids_[static_cast<size_t>(running.slot) * num_groups];
    for (size_t g = 0; g < num_groups; ++g) *next_table++ = tables[g];
  }
  HASTEN_CHECK(next_copy == plan_.copies.size());  // who was admitted has tokens in this step
  plan_.sequences.resize(static_cast<size_t>(next - plan_.sequences.data()));
  plan_.block_tables.resize(plan_.sequences.size() * num_groups);
  plan_.num_tokens = work_.tokens;
  plan_.num_logits = num_logits;
  plan_.kv_tokens_allocated = kv_.num_charged * options_.block_size;
  plan_.kv_tokens_used = num_kept * plan_.num_groups - kv_.num_dropped * options_.block_size;
}

}  // namespace hasten::engine
