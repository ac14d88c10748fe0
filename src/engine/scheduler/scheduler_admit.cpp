// SPDX-License-Identifier: Apache-2.0
// Who is admitted: the order of those that wait, what the cache has of them, room, displacement.
#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "engine/kv_cache/sizing.h"
#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

// So many prompts that are one too long are looked at in a step: each costs a search of the cache.
constexpr int kMostTooLong = 16;
// Of those that wait for a lower tier so many are looked at in a step, the first ones, and whoever
// has waited for as long as that pays: each costs a search of the cache and of the tier.
constexpr int kMostAwaiting = 16;

}  // namespace

void Scheduler::admit() {
  candidates_.clear();
  if (waiting_.empty() || !may_admit()) return;
  rank_waiting();
  sum_promises();
  bool admitted = false;
  int num_too_long = 0;
  int num_awaiting = 0;
  while (!candidates_.empty() && may_admit()) {
    if (tenants_ && move_back()) continue;
    Sequence& first = *candidates_.front().sequence;
    bool passed = !may_start(first) || awaits_sequence(first) ||
                  (num_awaiting >= kMostAwaiting && first.load_until_us > view_.now_us);
    if (!passed) {
      look_up(first);
      passed = pays_to_wait(first);
      if (!passed && awaits_blocks(first)) {
        passed = true;
        ++num_awaiting;
      }
      if (!passed && is_too_long(first)) {
        if (++num_too_long > kMostTooLong) return;
        passed = true;
      }
    }
    // Whoever is first waits for room rather than being overtaken, or large requests would starve.
    if (!passed && !has_room(first) && !displace(first)) {
      // Once somebody was admitted, blocks of the finished may be about to be copied.
      if (admitted || !drop_finished()) return;
      continue;
    }
    std::ranges::pop_heap(candidates_, std::greater{}, &Candidate::place);
    candidates_.pop_back();
    if (passed) continue;
    start(first);
    admitted = true;
  }
}

/// Whether anybody at all could be admitted.
bool Scheduler::may_admit() const {
  return options_.policy->displaces != nullptr ||
         (num_competing_ < max_running_ && tokens_left_ > 0);
}

Scheduler::Place Scheduler::place(const Sequence& sequence) const {
  return {options_.policy->rank(sequence, view_), sequence.request_id, sequence.choice};
}

/// Makes all that wait candidates. Their ranks stay what they are for as long as a step is planned,
/// but for those that admitting one of their tenant moves back.
void Scheduler::rank_waiting() {
  for (Sequence* const sequence : waiting_)
    candidates_.push_back({.place = place(*sequence), .sequence = sequence});
  std::ranges::make_heap(candidates_, std::greater{}, &Candidate::place);
}

/// Puts the first candidate where it stands by now. False when that is still the front.
bool Scheduler::move_back() {
  const Place now = place(*candidates_.front().sequence);
  if (!(candidates_.front().place < now)) return false;
  std::ranges::pop_heap(candidates_, std::greater{}, &Candidate::place);
  candidates_.back().place = now;
  std::ranges::push_heap(candidates_, std::greater{}, &Candidate::place);
  return true;
}

/// With how many of its tokens computed a sequence could begin.
int64_t Scheduler::may_begin_with(const Sequence& sequence) const {
  return sequence.scoring() ? sequence.num_scored : sequence.num_tokens() - 1;
}

/// Whether `sequence` had better be admitted when more of its blocks have come from the tier. Those
/// that have are in the cache then.
bool Scheduler::awaits_blocks(Sequence& sequence) {
  if (!mover_ || found_.sibling != nullptr) return false;
  // Blocks come in place of others: not before they are of use. (Some policies make room.)
  if (!has_room(sequence) && options_.policy->displaces == nullptr) return false;
  const auto outcome =
      mover_->bring(sequence, found_.prefix.num_tokens, may_begin_with(sequence), view_.now_us);
  look_up(sequence);
  return outcome == BlockMover::Outcome::wait;
}

/// Finds what the cache has of `sequence`.
void Scheduler::look_up(Sequence& sequence) {
  found_.prefix = {.nodes = std::move(found_.prefix.nodes)};
  found_.prefix.nodes.clear();
  if (tree_) tree_->match(sequence, may_begin_with(sequence), found_.prefix);
  found_.sibling = prompt_source(sequence);
  if (sequence.num_prompt() - 1 <= found_.prefix.num_tokens) found_.sibling = nullptr;
  sequence.num_found = begin_of(sequence);
}

/// Brings up to date what the cache has of `sequence`, for estimates: it may be gone when it is
/// wanted. What a running sequence is just computing of it takes as long as if it did so itself.
void Scheduler::foresee_hits(Sequence& sequence) {
  if (tree_ && !sequence.scoring()) look_up(sequence);
}

/// A running sibling that has all of the prompt but its last token in the cache, or null. (The last
/// one runs again, for its logits.)
const Scheduler::Running* Scheduler::prompt_source(const Sequence& sequence) const {
  const int64_t end = sequence.num_prompt() - 1;
  if (!sequence.has_siblings || end == 0 || sequence.scoring()) return nullptr;
  for (const Running* const at : running_) {
    const Running& running = *at;
    if (running.sequence == nullptr || running.sequence->request_id != sequence.request_id ||
        running.sequence->num_computed < end || is_to_copy(running))
      continue;
    bool complete = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t window = groups_[g].window;
      complete = complete && running.tables[g].covers(
                                 window > 0 ? std::max<int64_t>(0, end - window + 1) : 0, end);
    }
    if (complete) return &running;
  }
  return nullptr;
}

/// Whether a sequence that was admitted in this step waits for the copy of a block.
bool Scheduler::is_to_copy(const Running& running) const {
  return std::ranges::any_of(plan_.copies,
                             [&](const BlockCopy& copy) { return copy.sequence == running.slot; });
}

/// Whether a running sequence is about to compute at least half of what `sequence` would have to,
/// whole blocks of the prompts of both. To wait takes no longer than to compute the same again, and
/// costs only what is not in common. Notes until when that holds.
bool Scheduler::pays_to_wait(Sequence& sequence) const {
  if (!tree_ || found_.sibling != nullptr || sequence.scoring()) return false;
  const int64_t num_tokens = sequence.num_tokens();
  const int64_t to_compute = num_tokens - found_.prefix.num_tokens;
  return std::ranges::any_of(prefills_, [&](const Running* running) {
    if (running->sequence == nullptr || !running->runs()) return false;
    const Sequence& other = *running->sequence;
    if (other.num_computed >= other.num_prompt() - 1 || other.cache_domain != sequence.cache_domain)
      return false;
    const int64_t common =
        std::ranges::mismatch(sequence.prompt, other.prompt).in1 - sequence.prompt.begin();
    const int64_t whole = common / options_.block_size * options_.block_size;
    if (whole <= other.num_computed || 2 * (whole - found_.prefix.num_tokens) < to_compute)
      return false;
    // What the cache has grows with what the other one computes, by whole blocks.
    sequence.awaited = {.slot = running->slot,
                        .choice = other.choice,
                        .request_id = other.request_id,
                        .until = std::min(whole, 2 * whole - num_tokens + options_.block_size)};
    return true;
  });
}

/// Whether what `sequence` was found to wait for is still to come. Hundreds may wait for one long
/// prompt, and to compare each with it in each step would take longer than the step.
bool Scheduler::awaits_sequence(const Sequence& sequence) const {
  const AwaitedSequence& awaited = sequence.awaited;
  if (awaited.slot < 0) return false;
  const Running& running = slots_[static_cast<size_t>(awaited.slot)];
  const Sequence* const other = running.sequence;
  return other != nullptr && running.runs() && other->request_id == awaited.request_id &&
         other->choice == awaited.choice && other->num_computed < awaited.until;
}

/// The position of the first token that `sequence` would compute, by what was found.
int64_t Scheduler::begin_of(const Sequence& sequence) const {
  return found_.sibling != nullptr ? sequence.num_prompt() - 1 : found_.prefix.num_tokens;
}

/// Whether a place in the batch, a token of the budget and enough blocks are there.
bool Scheduler::has_room(const Sequence& sequence) {
  if (num_competing_ >= max_running_) return false;
  const auto may_run = [&] { return chunk(sequence, begin_of(sequence)) > 0; };
  if (!may_run()) return false;
  if (fits(sequence)) return true;
  if (found_.sibling != nullptr || found_.prefix.partial < 0) return false;
  // A block to copy from may be one too many.
  found_.prefix.partial = -1;
  found_.prefix.num_tokens -= found_.prefix.num_tokens % options_.block_size;
  return may_run() && fits(sequence);
}

/// Whether `sequence` would be one prompt more than may go on into the next step. Those behind it
/// that end in this one take nothing from it: it would have no tokens all the same.
bool Scheduler::is_too_long(const Sequence& sequence) const {
  return num_partial_ == kMaxPartial && options_.chunked_prefill && tokens_left_ > 0 &&
         chunk(sequence, begin_of(sequence)) == 0;
}

/// Makes room at the cost of sequences that `sequence` displaces, beginning with the last. False
/// when that is not enough; then nobody has to go.
bool Scheduler::displace(Sequence& sequence) {
  if (options_.policy->displaces == nullptr) return false;
  // For a place or for blocks, but not for the one token of a sequence that decodes.
  if (num_competing_ < max_running_ && chunk(sequence, begin_of(sequence)) == 0) return false;
  find_displaced(sequence);
  size_t num_leaving = 0;
  bool enough = false;
  {
    // What it will begin with does not become free when those go that have it, too.
    const PathRefs kept = tree_ ? tree_->hold(found_.prefix) : PathRefs();
    while (!enough && num_leaving < displaced_.size()) {
      set_leaving(*displaced_[num_leaving++].running, true);
      enough = has_room(sequence);
    }
  }
  for (size_t i = 0; i < num_leaving; ++i) {
    if (enough)
      preempt(*displaced_[i].running);
    else
      set_leaving(*displaced_[i].running, false);
  }
  if (!enough) return false;
  sum_promises();
  look_up(sequence);
  return has_room(sequence);
}

/// Lists the running sequences that `sequence` displaces, the last in place first. Siblings are
/// left alone: one may be the source of its prompt.
void Scheduler::find_displaced(const Sequence& sequence) {
  displaced_.clear();
  const Place first = place(sequence);
  for (Running* const running : running_) {
    if (running->sequence == nullptr || !running->runs()) continue;
    const Sequence& other = *running->sequence;
    if (other.generated.size() == running->num_generated || other.request_id == sequence.request_id)
      continue;
    const Place candidate = place(other);
    if (first < candidate && options_.policy->displaces(sequence, other, view_))
      displaced_.push_back({.place = candidate, .running = running});
  }
  std::ranges::sort(displaced_, std::greater{}, &Displaced::place);
}

/// Plans with the blocks, the place and the tokens of a sequence that is to be displaced; or no
/// longer.
void Scheduler::set_leaving(Running& running, bool leaving) {
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].num_promised -= promised(running, g);
  running.leaving = leaving;
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].num_promised += promised(running, g);
  num_competing_ += leaving ? -1 : 1;
  if (leaving)
    refund(running);
  else
    spend(*running.sequence, running.count);
}

/// Whether no running sibling is just computing the prompt that both share.
bool Scheduler::may_start(const Sequence& sequence) const {
  if (!sequence.has_siblings) return true;
  return std::ranges::none_of(prefills_, [&](const Running* running) {
    const Sequence* const other = running->sequence;
    return other != nullptr && other->request_id == sequence.request_id &&
           other->num_computed < other->num_prompt() - 1;
  });
}

/// Sums up what `fits` must know of all running sequences.
void Scheduler::sum_promises() {
  num_competing_ = num_running_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].num_promised = 0;
    for (const Running* const running : prefills_)
      if (running->sequence != nullptr) groups_[g].num_promised += promised(*running, g);
  }
}

/// The free blocks that a running sequence still needs for its present tokens, beyond those of this
/// step; less than none for one that is about to give its blocks back.
int64_t Scheduler::promised(const Running& running, size_t g) const {
  const BlockTable& table = running.tables[g];
  const Sequence& sequence = *running.sequence;
  if (running.leaving) return -table.num_exclusive();
  if (running.finished || sequence.num_computed + running.count == sequence.num_tokens()) return 0;
  return std::max<int64_t>(0, peak(sequence, groups_[g]) - table.num_held());
}

/// Whether all present tokens of `sequence` have room beside what the running ones still need, and
/// each of those can take one more block before memory is short again.
bool Scheduler::fits(const Sequence& sequence) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    int64_t needed = peak(sequence, groups_[g]) + num_competing_ + groups_[g].num_promised;
    if (found_.sibling != nullptr)
      needed -=
          found_.sibling->tables[g].num_held((sequence.num_prompt() - 1) / options_.block_size);
    else if (tree_)
      needed -= tree_->num_saved(found_.prefix, g);
    if (needed > groups_[g].pool.num_free() - num_reserved(g)) return false;
  }
  return true;
}

/// The most blocks that the present tokens of `sequence` hold at a time.
int64_t Scheduler::peak(const Sequence& sequence, const Group& group) const {
  return peak_blocks(sequence.num_tokens(), group.window, options_.step_tokens,
                     options_.block_size);
}

void Scheduler::start(Sequence& sequence) {
  dequeue(sequence);
  sequence.waited_us = waited_us(sequence, view_);
  sequence.queued_us = sequence.load_until_us = -1;
  sequence.reads_ahead = false;
  sequence.awaited = {};
  Running& started = new_running();
  started.sequence = &sequence;
  started.num_generated = sequence.generated.size();
  sequence.slot = started.slot;
  const size_t num_copies = plan_.copies.size();
  if (const Running* sibling = found_.sibling) {
    sequence.num_computed = sequence.num_prompt() - 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto copy = started.tables[g].share_prefix(sibling->tables[g], sequence.num_computed);
      if (!copy) continue;
      plan_.copies.push_back(
          {.group = static_cast<int32_t>(g), .from = copy->first, .to = copy->second});
      // The sibling may yet be displaced in this step, and its block be loaded into.
      sources_.push_back(sibling->tables[g].share(sequence.num_computed / options_.block_size));
    }
    if (tree_)
      started.cursor = tree_->begin(sibling->cursor, sequence.num_computed / options_.block_size);
  } else if (tree_) {
    sequence.num_computed = found_.prefix.num_tokens;
    started.cursor = tree_->begin(found_.prefix, started.tables, plan_.copies, sources_);
  }
  for (size_t i = num_copies; i < plan_.copies.size(); ++i)
    plan_.copies[i].sequence = started.slot;  // until it is known where it stands in the plan
  started.take_in_at = tree_ ? tree_->next_extension(started.cursor) : INT64_MAX;
  if (tenants_) {
    tenants_->admit(sequence.tenant_index);
    // What was preempted is computed anew at the expense of all.
    if (sequence.num_cached < 0)
      tenants_->charge(sequence.tenant_index, sequence.num_prompt() - sequence.num_computed, 0);
  }
  if (sequence.program_index >= 0) {
    programs_.hold(sequence.program_index, {}, 0);
    if (sequence.num_cached < 0) {
      programs_.begin(sequence);
      programs_.charge(sequence.program_index, sequence.num_prompt() - sequence.num_computed, 0);
    }
  }
  count_hits(sequence);
  // A step without a token of it would leave its copies for later, when what they copy may be gone.
  started.begin = sequence.num_computed;
  started.decodes = false;
  started.count = chunk(sequence, sequence.num_computed);
  HASTEN_CHECK(started.count > 0);
  spend(sequence, started.count);
  HASTEN_CHECK(grow(started));
  ++num_competing_;
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].num_promised += promised(started, g);
  prefills_.push_back(&started);
}

/// A slot for one more running sequence, the last in order of admission, with empty tables.
Scheduler::Running& Scheduler::new_running() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int32_t>(slots_.size()));
    Running& added = slots_.emplace_back();
    added.slot = free_slots_.back();
    for (Group& group : groups_) added.tables.emplace_back(group.pool, options_.block_size);
    block_ids_.resize(slots_.size() * groups_.size());
  }
  Running& running = slots_[static_cast<size_t>(free_slots_.back())];
  free_slots_.pop_back();
  running.finished = running.leaving = false;
  running.num_secured = 0;
  running_.push_back(&running);
  ++num_running_;
  return running;
}

void Scheduler::count_hits(Sequence& sequence) {
  if (mover_ && !sequence.scoring())
    prefix_stats_.num_computed += sequence.num_tokens() - sequence.num_computed;
  if (sequence.num_cached >= 0) {
    prefix_stats_.num_resumed += sequence.num_computed;
    return;
  }
  sequence.num_cached = sequence.num_computed;
  if (!tree_ || sequence.scoring()) return;
  prefix_stats_.num_queried += sequence.num_prompt();
  prefix_stats_.num_hits += sequence.num_cached;
}

}  // namespace hasten::engine
