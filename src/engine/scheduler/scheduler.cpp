// SPDX-License-Identifier: Apache-2.0
// Planning a step: share out the token budget, secure the blocks, admit who fits.
#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/kv_cache/sizing.h"

namespace hasten::engine {

Scheduler::Scheduler(const SchedulerOptions& options, std::span<const GroupBlocks> groups)
    : options_(options) {
  HASTEN_CHECK(options.max_batch > 0 && options.max_batch <= options.step_tokens);
  HASTEN_CHECK(options.block_size > 0 && options.max_prompt_logits > 0 && options.aging_us > 0);
  view_.aging_us = options.aging_us;
  for (const GroupBlocks& group : groups) groups_.emplace_back(group);
  if (options.prefix_cache) {
    std::vector<PrefixGroup> sources;
    for (Group& group : groups_) sources.push_back({.pool = &group.pool, .window = group.window});
    tree_.emplace(sources, options.block_size);
  }
  running_.reserve(2 * static_cast<size_t>(options.max_batch));  // the finished ones, too
  plan_.num_groups = static_cast<int64_t>(groups.size());
}

void Scheduler::add(Sequence& sequence) {
  sequence.queued_us = sequence.arrival_us;
  waiting_.push_back(&sequence);
}

void Scheduler::remove(const Sequence& sequence) {
  std::erase(waiting_, &sequence);
  std::erase_if(running_, [&](const Running& r) { return r.sequence == &sequence; });
}

void Scheduler::finish(const Sequence& sequence) {
  const auto is_sibling = [&](const Sequence* s) { return s->request_id == sequence.request_id; };
  const auto at = std::ranges::find(running_, &sequence, &Running::sequence);
  if (at != running_.end()) {
    take_in(*at);
    at->finished = true;
  }
  if (std::ranges::none_of(waiting_, is_sibling)) remove(sequence);
}

const StepPlan& Scheduler::plan(int64_t now_us) {
  view_.now_us = now_us;
  num_set_aside_ = 0;
  sources_.clear();
  plan_.sequences.clear();
  plan_.block_tables.clear();
  plan_.copies.clear();
  plan_.num_tokens = plan_.num_logits = plan_.num_preemptions = 0;
  tokens_left_ = options_.step_tokens;
  work_ = {};
  decoding_ = prefilling_ = false;
  prompt_logits_left_ = options_.max_prompt_logits;

  share_budget();
  secure_blocks();
  // Freed blocks are for those who needed them: nobody is admitted in the step of a preemption.
  if (plan_.num_preemptions == 0) admit();
  drop_finished();
  emit();
  return plan_;
}

void Scheduler::advance(int64_t step_us) {
  if (options_.target_step_us > 0 && step_us > 0) {
    StepWork work;
    for (const PlannedSequence& planned : plan_.sequences) work.add(planned.begin, planned.count);
    step_time_.observe(work, step_us);
  }
  sources_.clear();
  for (const PlannedSequence& planned : plan_.sequences) {
    Sequence& sequence = *planned.sequence;
    sequence.num_computed = planned.end();
    if (sequence.scoring())
      sequence.num_scored =
          std::max(sequence.num_scored, std::min(planned.end(), sequence.num_prompt() - 1));
  }
}

int64_t Scheduler::num_running() const { return std::ranges::count_if(running_, &Running::runs); }

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

/// Offers what a sequence has computed to others.
void Scheduler::take_in(Running& running) {
  if (tree_) tree_->extend(running.cursor, *running.sequence, running.tables);
}

/// Gives every sequence that decodes its token, then the others chunks in order of admission.
void Scheduler::share_budget() {
  const auto decodes = [](const Sequence& s) { return s.num_tokens() - s.num_computed == 1; };
  for (const bool decoding : {true, false}) {
    for (Running& running : running_) {
      if (decoding) take_in(running);
      running.count = running.finished ? 0 : running.count;
      if (running.finished || decodes(*running.sequence) != decoding) continue;
      running.count = chunk(*running.sequence, running.sequence->num_computed);
      spend(*running.sequence, running.count);
      if (running.count > 0) (decoding ? decoding_ : prefilling_) = true;
    }
  }
}

/// The tokens of `sequence` from position `begin` on, in front of which all are computed, that what
/// is left of the budgets allows in this step.
int64_t Scheduler::chunk(const Sequence& sequence, int64_t begin) const {
  int64_t end = std::min(sequence.num_tokens(), begin + tokens_left_);
  if (sequence.scoring()) {
    const int64_t scored_end = std::max(begin, sequence.num_scored) + prompt_logits_left_;
    if (scored_end < sequence.num_prompt() - 1) end = std::min(end, scored_end);
  }
  return within_target(begin, end - begin);
}

/// How many of the tokens [begin, begin + count) of a sequence keep the step below its target.
/// Whatever decodes has its token; the first that prefills gets a few even in a full step, or
/// prompts would never end beside many decodes. Where nobody decodes, nobody waits for a token.
int64_t Scheduler::within_target(int64_t begin, int64_t count) const {
  constexpr int64_t kLeastPrefill = 16;
  if (options_.target_step_us == 0 || !decoding_ || !step_time_.ready() || count <= 1) return count;
  int64_t most = prefilling_ ? 0 : std::min(count, kLeastPrefill);
  for (int64_t above = count + 1; above - most > 1;) {
    const int64_t middle = most + (above - most) / 2;
    StepWork work = work_;
    work.add(begin, middle);
    const bool fits = step_time_.predict_us(work) <= static_cast<double>(options_.target_step_us);
    (fits ? most : above) = middle;
  }
  return most;
}

void Scheduler::spend(const Sequence& sequence, int64_t count) {
  const int64_t end = sequence.num_computed + count;
  tokens_left_ -= count;
  work_.add(sequence.num_computed, count);
  if (sequence.scoring())
    prompt_logits_left_ -=
        std::max<int64_t>(0, std::min(end, sequence.num_prompt() - 1) - first_logit(sequence, end));
}

/// The first position whose logits are wanted when the tokens up to `end` run; `end` for none.
int64_t Scheduler::first_logit(const Sequence& sequence, int64_t end) const {
  const int64_t first = end == sequence.num_tokens() ? end - 1 : end;
  if (!sequence.scoring()) return first;
  return std::min(first, std::max(sequence.num_computed, sequence.num_scored));
}

/// Makes the planned tokens of every running sequence have blocks, by preemption where needed.
void Scheduler::secure_blocks() {
  for (size_t i = 0; i < running_.size();) {
    if (grow(running_[i])) {
      ++i;
      continue;
    }
    if (drop_finished()) {
      i = 0;
      continue;
    }
    HASTEN_CHECK(running_.size() > 1);  // alone, everything fits
    const size_t victim = last_of_running();
    preempt(victim);
    if (victim < i) --i;
  }
}

/// Whom the policy ranks last, the one admitted earliest left out.
size_t Scheduler::last_of_running() const {
  size_t last = 1;
  for (size_t i = 2; i < running_.size(); ++i)
    if (place(*running_[last].sequence) < place(*running_[i].sequence)) last = i;
  return last;
}

/// Gives back what left the window and takes the blocks of this step's tokens. False when the
/// pools have not got them. What the last computed token sees stays for one step more, so that a
/// sibling can begin with that token.
bool Scheduler::grow(Running& running) const {
  const int64_t begin = running.sequence->num_computed;
  bool grown = true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].window > 0)
      running.tables[g].release_before(std::max<int64_t>(0, begin - groups_[g].window));
    grown = grown && running.tables[g].extend(begin + running.count);
  }
  return grown;
}

void Scheduler::preempt(size_t index) {
  Sequence& sequence = *running_[index].sequence;
  prefix_stats_.num_preempted += sequence.num_computed;
  sequence.num_computed = 0;
  sequence.queued_us = view_.now_us;
  waiting_.push_back(&sequence);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  ++plan_.num_preemptions;
}

/// Frees what finished sequences have kept. False when none has.
bool Scheduler::drop_finished() {
  return std::erase_if(running_, [](const Running& running) { return running.finished; }) > 0;
}

void Scheduler::admit() {
  const bool may_displace = options_.policy->displaces != nullptr;
  bool admitted = false;
  if (waiting_.empty()) return;
  sum_promises();
  while (may_displace || (num_competing_ < options_.max_batch && tokens_left_ > 0)) {
    Sequence* const first = first_of_waiting();
    if (first == nullptr) return;
    look_up(*first);
    if (pays_to_wait(*first)) {
      std::swap(*std::ranges::find(waiting_, first),
                waiting_.end()[-1 - static_cast<std::ptrdiff_t>(num_set_aside_)]);
      ++num_set_aside_;
      continue;
    }
    // Whoever is first waits for room rather than being overtaken, or large requests would starve.
    if (!has_room(*first) && !displace(*first)) {
      // Once somebody was admitted, blocks of the finished may be about to be copied.
      if (admitted || !drop_finished()) return;
      continue;
    }
    std::erase(waiting_, first);
    start(*first);
    admitted = true;
  }
}

Scheduler::Place Scheduler::place(const Sequence& sequence) const {
  return {options_.policy->rank(sequence, view_), sequence.request_id, sequence.choice};
}

/// Who is admitted next: the first in place of those that may start. Null: nobody.
Sequence* Scheduler::first_of_waiting() const {
  Sequence* first = nullptr;
  Place best;
  for (Sequence* sequence : std::span(waiting_).first(waiting_.size() - num_set_aside_)) {
    const Place candidate = place(*sequence);
    if ((first != nullptr && best < candidate) || !may_start(*sequence)) continue;
    first = sequence;
    best = candidate;
  }
  return first;
}

/// Finds what the cache has of `sequence`.
void Scheduler::look_up(const Sequence& sequence) {
  found_.prefix = {.nodes = std::move(found_.prefix.nodes)};
  found_.prefix.nodes.clear();
  if (tree_) {
    const int64_t limit = sequence.scoring() ? sequence.num_scored : sequence.num_tokens() - 1;
    tree_->match(sequence, limit, found_.prefix);
  }
  found_.sibling = prompt_source(sequence);
  if (sequence.num_prompt() - 1 <= found_.prefix.num_tokens) found_.sibling = nullptr;
}

/// A running sibling that has all of the prompt but its last token in the cache, or null. (The last
/// one runs again, for its logits.)
const Scheduler::Running* Scheduler::prompt_source(const Sequence& sequence) const {
  const int64_t end = sequence.num_prompt() - 1;
  if (end == 0 || sequence.scoring()) return nullptr;
  for (const Running& running : running_) {
    if (running.sequence->request_id != sequence.request_id ||
        running.sequence->num_computed < end || !running.copies.empty())
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

/// Whether a running sequence is about to compute at least half of what `sequence` would have to,
/// whole blocks of the prompts of both. To wait takes no longer than to compute the same again, and
/// costs only what is not in common.
bool Scheduler::pays_to_wait(const Sequence& sequence) const {
  if (!tree_ || found_.sibling != nullptr || sequence.scoring()) return false;
  const int64_t to_compute = sequence.num_tokens() - found_.prefix.num_tokens;
  return std::ranges::any_of(running_, [&](const Running& running) {
    const Sequence& other = *running.sequence;
    if (!running.runs() || other.num_computed >= other.num_prompt() - 1 ||
        other.cache_domain != sequence.cache_domain)
      return false;
    const int64_t common =
        std::ranges::mismatch(sequence.prompt, other.prompt).in1 - sequence.prompt.begin();
    const int64_t whole = common / options_.block_size * options_.block_size;
    return whole > other.num_computed && 2 * (whole - found_.prefix.num_tokens) >= to_compute;
  });
}

/// The position of the first token that `sequence` would compute, by what was found.
int64_t Scheduler::begin_of(const Sequence& sequence) const {
  return found_.sibling != nullptr ? sequence.num_prompt() - 1 : found_.prefix.num_tokens;
}

/// Whether a place in the batch, a token of the budget and enough blocks are there.
bool Scheduler::has_room(const Sequence& sequence) {
  if (num_competing_ >= options_.max_batch) return false;
  const auto may_run = [&] { return chunk(sequence, begin_of(sequence)) > 0; };
  if (!may_run()) return false;
  if (fits(sequence)) return true;
  if (found_.sibling != nullptr || found_.prefix.partial < 0) return false;
  // A block to copy from may be one too many.
  found_.prefix.partial = -1;
  found_.prefix.num_tokens -= found_.prefix.num_tokens % options_.block_size;
  return may_run() && fits(sequence);
}

/// Makes room at the cost of sequences that `sequence` displaces, beginning with the last. False
/// when that is not enough; then nobody has to go.
bool Scheduler::displace(const Sequence& sequence) {
  if (options_.policy->displaces == nullptr) return false;
  // For a place or for blocks, but not for the one token of a sequence that decodes.
  if (num_competing_ < options_.max_batch && chunk(sequence, begin_of(sequence)) == 0) return false;
  const int64_t tokens_left = tokens_left_;
  const StepWork work = work_;
  bool enough = false;
  while (!enough) {
    Running* const last = last_displaced_by(sequence);
    if (last == nullptr) break;
    last->leaving = true;
    tokens_left_ += last->count;
    work_.add(last->sequence->num_computed, last->count, -1);
    sum_promises();
    enough = has_room(sequence);
  }
  if (!enough) {
    tokens_left_ = tokens_left;
    work_ = work;
    for (Running& running : running_) running.leaving = false;
    sum_promises();
    return false;
  }
  for (size_t i = running_.size(); i-- > 0;) {
    if (!running_[i].leaving) continue;
    preempt(i);
    ++num_set_aside_;
  }
  // Blocks that the displaced share with others have not become free.
  sum_promises();
  look_up(sequence);
  return has_room(sequence);
}

/// Of the running sequences that `sequence` displaces the last in place, or null. Siblings are left
/// alone: one may be the source of its prompt.
Scheduler::Running* Scheduler::last_displaced_by(const Sequence& sequence) {
  Running* last = nullptr;
  const Place first = place(sequence);
  Place worst;
  for (Running& running : running_) {
    const Sequence& other = *running.sequence;
    if (!running.runs() || other.generated.size() == running.num_generated ||
        other.request_id == sequence.request_id)
      continue;
    const Place candidate = place(other);
    if (candidate < first || (last != nullptr && candidate < worst) ||
        !options_.policy->displaces(sequence, other, view_))
      continue;
    last = &running;
    worst = candidate;
  }
  return last;
}

/// Whether no running sibling is just computing the prompt that both share.
bool Scheduler::may_start(const Sequence& sequence) const {
  return std::ranges::none_of(running_, [&](const Running& running) {
    const Sequence& other = *running.sequence;
    return other.request_id == sequence.request_id && other.num_computed < other.num_prompt() - 1;
  });
}

/// Sums up what `fits` must know of all running sequences.
void Scheduler::sum_promises() {
  num_competing_ = num_running();
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].num_promised = 0;
    for (const Running& running : running_) groups_[g].num_promised += promised(running, g);
  }
}

/// The free blocks that a running sequence still needs for its present tokens; less than none for
/// one that is about to give its blocks back.
int64_t Scheduler::promised(const Running& running, size_t g) const {
  const int64_t held = running.tables[g].num_held();
  if (running.leaving) return -held;
  return running.runs() ? std::max<int64_t>(0, peak(*running.sequence, groups_[g]) - held) : 0;
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
    if (needed > groups_[g].pool.num_free()) return false;
  }
  return true;
}

/// The most blocks that the present tokens of `sequence` hold at a time.
int64_t Scheduler::peak(const Sequence& sequence, const Group& group) const {
  return peak_blocks(sequence.num_tokens(), group.window, options_.step_tokens,
                     options_.block_size);
}

void Scheduler::start(Sequence& sequence) {
  sequence.waited_us = waited_us(sequence, view_);
  sequence.queued_us = -1;
  Running started;
  started.sequence = &sequence;
  started.num_generated = sequence.generated.size();
  for (size_t g = 0; g < groups_.size(); ++g)
    started.tables.emplace_back(groups_[g].pool, options_.block_size);
  if (const Running* sibling = found_.sibling) {
    sequence.num_computed = sequence.num_prompt() - 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto copy = started.tables[g].share_prefix(sibling->tables[g], sequence.num_computed);
      if (copy)
        started.copies.push_back(
            {.group = static_cast<int32_t>(g), .from = copy->first, .to = copy->second});
    }
    if (tree_)
      started.cursor = tree_->begin(sibling->cursor, sequence.num_computed / options_.block_size);
  } else if (tree_) {
    sequence.num_computed = found_.prefix.num_tokens;
    started.cursor = tree_->begin(found_.prefix, started.tables, started.copies, sources_);
  }
  count_hits(sequence);
  // A step without a token of it would leave its copies for later, when what they copy may be gone.
  started.count = chunk(sequence, sequence.num_computed);
  HASTEN_CHECK(started.count > 0);
  spend(sequence, started.count);
  prefilling_ = true;
  HASTEN_CHECK(grow(started));
  ++num_competing_;
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].num_promised += promised(started, g);
  running_.push_back(std::move(started));
}

void Scheduler::count_hits(Sequence& sequence) {
  if (sequence.num_cached >= 0) {
    prefix_stats_.num_resumed += sequence.num_computed;
    return;
  }
  sequence.num_cached = sequence.num_computed;
  if (!tree_ || sequence.scoring()) return;
  prefix_stats_.num_queried += sequence.num_prompt();
  prefix_stats_.num_hits += sequence.num_cached;
}

/// Writes the plan down.
void Scheduler::emit() {
  for (Running& running : running_) {
    if (running.count == 0) continue;  // the budget did not reach it
    for (BlockCopy& copy : running.copies) {
      copy.sequence = static_cast<int32_t>(plan_.sequences.size());
      plan_.copies.push_back(copy);
    }
    running.copies.clear();
    Sequence& sequence = *running.sequence;
    PlannedSequence planned = {
        .sequence = &sequence, .begin = sequence.num_computed, .count = running.count};
    planned.num_logits = planned.end() - first_logit(sequence, planned.end());
    planned.samples = planned.end() == sequence.num_tokens();
    plan_.sequences.push_back(planned);
    for (const BlockTable& table : running.tables) plan_.block_tables.push_back(table.ids());
    plan_.num_tokens += planned.count;
    plan_.num_logits += planned.num_logits;
  }
}

}  // namespace hasten::engine
