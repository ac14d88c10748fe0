// SPDX-License-Identifier: Apache-2.0
// Scheduler: decides which tokens of which sequences run in the next step, and who holds blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <tuple>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/block_table.h"
#include "engine/scheduler/policy.h"
#include "engine/sequence/step.h"

namespace hasten::engine {

struct SchedulerOptions {
  int64_t block_size = 16;         // tokens in a block
  int64_t step_tokens = 512;       // tokens in a step at most
  int32_t max_batch = 32;          // sequences in a step at most; not above step_tokens
  int64_t max_prompt_logits = 64;  // rows of logits in a step besides one per sequence, at least 1
  const Policy* policy = &kFcfsPolicy;
  int64_t aging_us = 60'000'000;  // of waiting, that moves a sequence up by one class; at least 1
};

/// Blocks of a cache group, enough for one sequence of the whole context.
struct GroupBlocks {
  int64_t num_blocks = 0;
  int64_t window = 0;  // tokens that a query can see, itself included; 0: all
};

/// Stall-free continuous batching (Agrawal et al., Sarathi-Serve, 2024): each sequence that
/// decodes gets its token in every step, prefill chunks fill the rest of the token budget.
///
/// A sequence is admitted only when the blocks of all its present tokens are free beyond what the
/// running ones still need. When decoding uses memory up, the running sequence that the policy
/// ranks last gives its blocks back and waits again; its tokens are computed anew later, with the
/// same result. Where there is no room for the one that ranks first, it may displace running ones
/// that rank behind it, if the policy says so.
///
/// Everything ends. The sequence admitted earliest is never the victim of a lack of memory, and no
/// sequence is displaced before it has generated a token since it was admitted; so within a bounded
/// number of steps a token is generated, and generated tokens are never lost.
///
/// While one choice of a request computes their common prompt, its siblings wait; then they begin
/// with its blocks, even if the prompt's next token was already its last.
///
/// The same calls, times included, give the same plans. One thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, std::span<const GroupBlocks> groups);

  /// Queues a sequence, which must outlive its `remove`. It waits since its `arrival_us`.
  void add(Sequence& sequence);
  /// Forgets a sequence, running or waiting, and frees its blocks. Not between `plan` and
  /// `advance`.
  void remove(const Sequence& sequence);

  /// The same for a sequence that has drawn its last token, but siblings that wait may yet begin
  /// with its blocks: they stay for one more plan. It must still outlive its `remove`.
  void finish(const Sequence& sequence);

  /// The next step, planned at `now_us` by the clock of Sequence::arrival_us, which never goes
  /// back; empty only when nothing is queued. Valid until the next call. Every plan must be run or
  /// its sequences removed.
  const StepPlan& plan(int64_t now_us);
  /// The planned tokens have run: moves num_computed and num_scored of the plan's sequences.
  void advance();

  int64_t num_running() const;
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t num_blocks() const;
  int64_t num_free_blocks() const;

 private:
  struct Running {
    Sequence* sequence = nullptr;
    std::vector<BlockTable> tables;  // one per group
    std::vector<BlockCopy> copies;   // that its first step shall make
    int64_t count = 0;               // tokens in this step
    size_t num_generated = 0;        // of its sequence, when it was admitted
    bool finished = false;           // runs no more; its blocks are for its siblings
    bool leaving = false;            // is about to be displaced
    bool runs() const { return !finished && !leaving; }
  };
  /// Where a sequence stands: by the policy's rank, then in order of arrival.
  using Place = std::tuple<double, int64_t, int32_t>;
  struct Group {
    explicit Group(const GroupBlocks& blocks) : pool(blocks.num_blocks), window(blocks.window) {}
    BlockPool pool;
    int64_t window;
  };

  void share_budget();
  void secure_blocks();
  void admit();
  void emit();

  int64_t chunk(const Sequence& sequence) const;
  void spend(const Sequence& sequence, int64_t count);
  int64_t first_logit(const Sequence& sequence, int64_t end) const;
  bool grow(Running& running) const;
  size_t last_of_running() const;
  void preempt(size_t index);
  bool drop_finished();
  Place place(const Sequence& sequence) const;
  Sequence* first_of_waiting() const;
  bool has_room(const Sequence& sequence, const Running* source) const;
  bool displace(const Sequence& sequence, const Running* source);
  Running* last_displaced_by(const Sequence& sequence);
  bool may_start(const Sequence& sequence) const;
  const Running* prompt_source(const Sequence& sequence) const;
  bool fits(const Sequence& sequence, const Running* source) const;
  int64_t peak(const Sequence& sequence, const Group& group) const;
  void start(Sequence& sequence, const Running* source);

  const SchedulerOptions options_;
  std::deque<Group> groups_;        // a pool does not move
  std::vector<Running> running_;    // in order of admission
  std::vector<Sequence*> waiting_;  // in no order; those displaced in this step at the end
  size_t num_displaced_ = 0;        // in this step
  QueueView view_;
  StepPlan plan_;
  int64_t tokens_left_ = 0;  // of this step's budget
  int64_t prompt_logits_left_ = 0;
};

}  // namespace hasten::engine
