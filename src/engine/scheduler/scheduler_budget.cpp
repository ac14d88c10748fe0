// SPDX-License-Identifier: Apache-2.0
// Sharing out a step's tokens: to all that decode, then to prompts, as the budgets, others and a
// target for the step's time allow.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/prefetch.h"
#include "engine/scheduler/scheduler.h"

namespace hasten::engine {
namespace {

// What a prompt gets even where the step is full, or where others are to have the most of it: few
// enough not to be felt.
constexpr int64_t kLeastPrefill = 8;
// A step that is late with one token of a prompt may take so much longer with more of them.
constexpr double kLittleMore = 1.25;

// From chunks that are all alike it does not show what of a step's time is that of their tokens:
// one of so many steps takes half of what the others would.
constexpr int64_t kStepsAlike = 8;

// Of an answer so many blocks are offered at a time, and the rest when its sequence leaves or
// memory is short: each look at the tree for one block of one sequence is several ways to memory.
// Not where blocks leave a window, which they do without having been offered.
constexpr int64_t kOfferedAtOnce = 8;

bool decodes(const Sequence& sequence) {
  return sequence.num_tokens() - sequence.num_computed == 1;
}

}  // namespace

/// Offers what a sequence has computed to others.
void Scheduler::take_in(Running& running) {
  if (!tree_) return;
  tree_->extend(running.cursor, *running.sequence, running.tables);
  running.take_in_at = tree_->next_extension(running.cursor);
  const Sequence& sequence = *running.sequence;
  if (running.take_in_at < INT64_MAX && !has_windows_ &&
      sequence.num_computed >= sequence.num_prompt())
    running.take_in_at += (kOfferedAtOnce - 1) * options_.block_size;
}

/// Offers all that has been computed. True if that freed blocks: some had the same contents.
bool Scheduler::take_in_all() {
  if (!tree_) return false;
  const int64_t num_free = num_free_blocks();
  for (Running* const running : running_)
    if (running->sequence != nullptr && !running->finished) take_in(*running);
  return num_free_blocks() > num_free;
}

/// Offers the full blocks of those that are due.
void Scheduler::take_in_full_blocks() {
  constexpr size_t kFar = 8;
  constexpr size_t kNear = 4;
  for (size_t i = 0; i < due_.size(); ++i) {
    if (i + kFar < due_.size()) {
      const Running& far = *due_[i + kFar];
      prefetch(&far.tables);
      const int64_t first =
          std::max<int64_t>(0, far.take_in_at / options_.block_size - kOfferedAtOnce);
      for (size_t g = 0; g < groups_.size(); ++g) prefetch(ids(far, g).data() + first);
    }
    if (i + kNear < due_.size()) {
      const Running& near = *due_[i + kNear];
      prefetch(near.tables.data());
      for (size_t g = 0; g < groups_.size(); ++g) tree_->fetch(near.cursor, g, ids(near, g));
    }
    take_in(*due_[i]);
  }
}

/// Of thousands of sequences, those that come next have left the caches since the last step.
inline void Scheduler::fetch_ahead(Running* const* at, Running* const* end) {
  constexpr std::ptrdiff_t kFar = 32;
  constexpr std::ptrdiff_t kNear = 16;
  if (end - at <= kFar) return;
  prefetch(at[kFar]);
  if (const Sequence* const sequence = at[kNear]->sequence; sequence != nullptr)
    prefetch(&sequence->prompt);
}

/// Gives every sequence that decodes its token, then the others chunks in order of admission (or
/// else a step could be left without tokens: whoever was admitted first is not preempted in it);
/// takes those that have left out of running_, and makes their slots free.
void Scheduler::share_budget() {
  prefills_.clear();
  growing_.clear();
  scoring_.clear();
  due_.clear();
  const bool has_windows = has_windows_;
  // In registers, as all running sequences go through here.
  int64_t num_decoding = 0;
  int64_t num_keys = 0;  // of those that decode, without their tokens of this step
  Running** kept = running_.data();
  Running* const* const end = kept + running_.size();
  for (Running* const* at = kept; at != end; ++at) {
    fetch_ahead(at, end);
    Running* const running = *at;
    const Sequence* const sequence = running->sequence;
    if (sequence == nullptr) {
      free_slots_.push_back(running->slot);
      continue;
    }
    *kept++ = running;
    running->count = 0;
    if (running->finished) continue;
    const int64_t begin = sequence->num_computed;
    const bool has_one_left = decodes(*sequence);
    running->begin = begin;
    running->decodes = has_one_left && !sequence->scoring();
    if (begin >= running->take_in_at) due_.push_back(running);
    if (!running->decodes) {
      (has_one_left ? scoring_ : prefills_).push_back(running);
      continue;
    }
    // As `chunk` and `spend` would have it: of thousands, nearly all are such.
    running->count = 1;
    ++num_decoding;
    num_keys += begin;
    if (has_windows || begin >= running->num_secured) growing_.push_back(running);
  }
  HASTEN_CHECK(num_decoding <= tokens_left_);  // there are as many as places in the batch
  running_.resize(static_cast<size_t>(kept - running_.data()));
  tokens_left_ -= num_decoding;
  work_ = {.tokens = num_decoding,
           .keys = num_keys + num_decoding,
           .token_keys = num_keys + num_decoding};
  decoding_ = num_decoding > 0 || !scoring_.empty();
  for (Running* const running : scoring_) {
    running->count = chunk(*running->sequence, running->begin);
    spend(*running->sequence, running->count);
    growing_.push_back(running);
  }
  take_in_full_blocks();
  num_competing_ = num_running_;
  contended_ = prefills_.size() > 1 || (!waiting_.empty() && may_admit());
  for (Running* const running : prefills_) {
    running->count = chunk(*running->sequence, running->sequence->num_computed);
    spend(*running->sequence, running->count);
    growing_.push_back(running);
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
  if (!options_.chunked_prefill)
    return end == sequence.num_tokens() || sequence.scoring() ? end - begin : 0;
  const int64_t count = within_target(begin, end - begin);
  if (!contended_ || begin + count >= sequence.num_tokens()) return count;
  if (num_partial_ == kMaxPartial) return 0;
  return num_partial_ > 0 ? std::min(count, kLeastPrefill) : count - count / 2;
}

/// How many of the tokens [begin, begin + count) of a sequence keep the step below its target.
/// Whatever decodes has its token, as has a prompt of which all others are there; the first that
/// prefills gets one even in a full step, or prompts would never end beside many decodes, and as
/// many more as make little difference to that; a few while nothing is known of the time that they
/// take. Where nobody decodes, nobody waits for a token.
int64_t Scheduler::within_target(int64_t begin, int64_t count) const {
  if (options_.target_step_us == 0 || !decoding_ || count <= 1) return count;
  const int64_t few = num_prefilling_ > 0 ? 0 : std::min(count, kLeastPrefill);
  if (!step_time_.ready()) return few;
  const double alone_us = step_time_.bound_us(work_);
  // No chunk makes a step shorter, whatever a fit of steps that hardly differ says.
  const auto bound_us = [&](int64_t tokens) {
    StepWork work = work_;
    work.add(begin, tokens);
    return std::max(alone_us, step_time_.bound_us(work));
  };
  int64_t most = std::min<int64_t>(few, 1);
  auto limit_us = static_cast<double>(options_.target_step_us);
  if (most > 0) limit_us = std::max(limit_us, kLittleMore * bound_us(most));
  // What more than twice the tokens of any step of late would take is a guess.
  const int64_t foreseen = std::max(few, 2 * step_time_.most_tokens() - work_.tokens);
  for (int64_t above = std::min(count, foreseen) + 1; above - most > 1;) {
    const int64_t middle = most + (above - most) / 2;
    (bound_us(middle) <= limit_us ? most : above) = middle;
  }
  return step_time_.num_observed() % kStepsAlike == 0 ? most - most / 2 : most;
}

void Scheduler::spend(const Sequence& sequence, int64_t count) {
  if (count == 0) return;
  tokens_left_ -= count;
  work_.add(sequence.num_computed, count);
  prompt_logits_left_ -= num_scoring(sequence, count);
  if (decodes(sequence)) return;
  ++num_prefilling_;
  if (sequence.num_computed + count < sequence.num_tokens()) ++num_partial_;
}

/// Takes back what a sequence has of this step's budgets.
void Scheduler::refund(const Running& running) {
  const Sequence& sequence = *running.sequence;
  if (running.count == 0) return;
  tokens_left_ += running.count;
  work_.add(sequence.num_computed, running.count, -1);
  prompt_logits_left_ += num_scoring(sequence, running.count);
  if (decodes(sequence)) return;
  --num_prefilling_;
  if (sequence.num_computed + running.count < sequence.num_tokens()) --num_partial_;
}

/// The prompt's tokens whose logits are wanted when the next `count` tokens run.
int64_t Scheduler::num_scoring(const Sequence& sequence, int64_t count) const {
  if (!sequence.scoring()) return 0;
  const int64_t end = sequence.num_computed + count;
  return std::max<int64_t>(0,
                           std::min(end, sequence.num_prompt() - 1) - first_logit(sequence, end));
}

/// The first position whose logits are wanted when the tokens up to `end` run; `end` for none.
int64_t Scheduler::first_logit(const Sequence& sequence, int64_t end) const {
  const int64_t first = end == sequence.num_tokens() ? end - 1 : end;
  if (!sequence.scoring()) return first;
  return std::min(first, std::max(sequence.num_computed, sequence.num_scored));
}

/// Gives what is left of the budgets to prompts that had to leave room for others, those first that
/// have least left: the one admitted first has its half already, and behind a long one, a shorter
/// one would take as long as that.
void Scheduler::top_up() {
  contended_ = false;
  if (num_partial_ == 0) return;
  const auto ends = [](const Running* running) {
    return running->sequence == nullptr || running->count == 0 ||
           running->sequence->num_computed + running->count == running->sequence->num_tokens();
  };
  std::erase_if(prefills_, ends);
  std::ranges::sort(prefills_, {}, [&](const Running* running) {
    const Sequence& sequence = *running->sequence;
    return std::pair(sequence.num_tokens() - sequence.num_computed, place(sequence));
  });
  for (Running* const running : prefills_) {
    refund(*running);
    // It keeps what it has. Times as they were learnt need not grow with the work, so that a chunk
    // may seem too much behind those of others that did not in front of them.
    const int64_t count = running->count;
    running->count = std::max(count, chunk(*running->sequence, running->sequence->num_computed));
    if (!grow(*running)) running->count = count;
    spend(*running->sequence, running->count);
  }
}

}  // namespace hasten::engine
