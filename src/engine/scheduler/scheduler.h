// SPDX-License-Identifier: Apache-2.0
// Scheduler: decides which tokens of which sequences run in the next step, and who holds blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/block_table.h"
#include "engine/kv_cache/prefix_tree.h"
#include "engine/scheduler/batcher.h"
#include "engine/scheduler/block_mover.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/programs.h"
#include "engine/scheduler/step_time_model.h"
#include "engine/scheduler/tenant_service.h"
#include "engine/sequence/step.h"

namespace hasten::engine {

/// An eviction looks at all tenants above their share, so there had better not be thousands.
inline constexpr double kMinTenantCacheShare = 0.01;

struct SchedulerOptions {
  int64_t block_size = 16;         // tokens in a block
  int64_t step_tokens = 512;       // tokens in a step at most
  int32_t max_batch = 32;          // sequences in a step at most; not above step_tokens
  int64_t max_prompt_logits = 64;  // rows of logits in a step besides one per sequence, at least 1
  int64_t target_step_us = 0;      // prefill chunks are cut to keep steps below it; 0: no target
  bool prefix_cache = true;        // sequences begin with what others have left in the cache
  const Policy* policy = &kFcfsPolicy;
  int64_t aging_us = 60'000'000;  // of waiting, that moves a sequence up by one class; at least 1
  Batching batching = Batching::continuous;
  int64_t preferred_batch = 0;  // of dynamic batches, see BatcherOptions; 0: max_batch
  int64_t batch_wait_us = 0;    // likewise
  bool chunked_prefill = true;  // or else prompts run whole: step_tokens must hold the longest one
  // Each sequence is charged the blocks of so many tokens, as if its memory were one piece; 0:
  // those of its present tokens.
  int64_t reserve_tokens = 0;
  double held_share = 0.25;  // [0, 1], of the blocks, held for programs that pause at most
  // [kMinTenantCacheShare, 1], of each pool, that the prefix cache keeps for a tenant before its
  // own blocks go first; 1: tenants make no difference.
  double tenant_cache_share = 1;
  BlockTier* tier = nullptr;  // where blocks of the prefix cache go to and come from; null: nowhere
};

/// Blocks of a cache group, enough for one sequence of the whole context.
struct GroupBlocks {
  int64_t num_blocks = 0;
  int64_t window = 0;       // tokens that a query can see, itself included; 0: all
  int64_t block_bytes = 0;  // of a block's contents, where there is a lower tier
};

/// What the prefix cache has done, in tokens; none of it ever falls.
struct PrefixStats {
  int64_t num_queried = 0;    // prompt tokens of the sequences that were admitted
  int64_t num_hits = 0;       // of them, those that were in the cache
  int64_t num_preempted = 0;  // computed tokens of the sequences that gave their blocks back
  int64_t num_resumed = 0;    // tokens found in the cache when such a one was admitted again
  int64_t num_loaded = 0;     // tokens that came from a lower tier
  int64_t num_computed = 0;   // where there is one, tokens that neither it nor the cache had
};

/// Stall-free continuous batching (Agrawal et al., Sarathi-Serve, 2024): each sequence that
/// decodes gets its token in every step, prefill chunks fill the rest of the token budget.
///
/// A sequence is admitted only when the blocks of all its present tokens are free beyond what the
/// running ones still need. When decoding uses memory up, the running sequence that the policy
/// ranks last gives its blocks back and waits again; what of them has been evicted by then is
/// computed anew later, with the same result. Where there is no room for the one that ranks first,
/// it may displace running ones that rank behind it, if the policy says so.
///
/// Everything ends. The sequence admitted earliest is never the victim of a lack of memory, and no
/// sequence is displaced before it has generated a token since it was admitted; so within a bounded
/// number of steps a token is generated, and generated tokens are never lost.
///
/// A sequence begins with the longest beginning of its tokens that the cache has, be it from a
/// prompt, an answer, or its own time before a preemption; but its last token runs, for its logits.
/// Where a running sequence is just computing most of what another one needs, that one waits for
/// it.
///
/// No prompt blocks the others: one that does not end in a step takes at most half of what prompts
/// get of it, as far as others, waiting ones included, can use the rest. Of several such the first
/// does, and the one that has least left gets what is over; the others get a few tokens, and more
/// than a few such are passed over until one of them has ended.
///
/// While one choice of a request computes their common prompt, its siblings wait; then they begin
/// with its blocks, even if the prompt's next token was already its last, and with that part of
/// the prompt, too, that does not fill a block.
///
/// Where there is a lower tier, blocks that are evicted go there and come back as a BlockMover
/// decides. A sequence whose blocks are being read is passed over for that time.
///
/// The same calls, times and answers of the tier included, give the same plans. One thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, std::span<const GroupBlocks> groups);

  /// Queues a sequence, which must outlive its `remove`. It waits since its `arrival_us`.
  void add(Sequence& sequence);
  /// Forgets a sequence, running or waiting, and frees its blocks. What its last step computed is
  /// not offered to others, as that step may have failed. Not between `plan` and `advance`.
  void remove(const Sequence& sequence);

  /// The same for a sequence that has drawn its last token, whose blocks are good, and siblings
  /// that wait may yet begin with them: they stay for one more plan. It must still outlive its
  /// `remove`.
  void finish(const Sequence& sequence);

  /// Those that wait and shall end, as the policy finds that they cannot be of use any more; they
  /// have not run. Valid until the next call. `now_us` as for `plan`.
  std::span<Sequence* const> hopeless(int64_t now_us);
  /// Whether that will be so of a sequence that is not queued yet, once those that wait in front of
  /// it have been served.
  bool is_hopeless_behind_queue(Sequence& sequence, int64_t now_us);

  /// The next step, planned at `now_us` by the clock of Sequence::arrival_us, which never goes
  /// back; empty only before `next_step_us`, or when all that is queued waits for a lower tier.
  /// Valid until the next call. Every plan must be run or its sequences removed.
  const StepPlan& plan(int64_t now_us);
  /// The plan's saves and loads, if there are any, were done, before anything else of it; or, with
  /// `done` false, not, and then the plan is not to be run. To be called for each plan where there
  /// is a tier.
  void end_moves(bool done);
  /// When no step will follow: gives up so many blocks of each group that nobody has, which makes
  /// for saves, whatever computing them anew would take. Those that were left last go first, and
  /// what begins a sequence before what follows it, as that is worth nothing without. False: there
  /// was none.
  bool evict_newest(int64_t num_blocks);
  /// The planned tokens have run, in `step_us` (0: not measured): moves num_computed and num_scored
  /// of the plan's sequences.
  void advance(int64_t step_us = 0);

  /// The time from which on a plan holds something, or something is hopeless, though nobody else
  /// comes: 0 but while a batch waits for more sequences; INT64_MAX when nothing is queued.
  int64_t next_step_us() const;

  int64_t num_running() const { return num_running_; }
  int64_t num_waiting() const {
    return static_cast<int64_t>(waiting_.size()) + (batcher_ ? batcher_->num_held() : 0);
  }
  int64_t num_blocks() const;
  int64_t num_free_blocks() const;
  const BlockPool& pool(size_t group) const { return groups_[group].pool; }
  /// Tenants of which the prefix cache has something, or is about to; 0 where they make no
  /// difference.
  int64_t num_cache_tenants() const { return tree_ ? tree_->num_tenants() : 0; }
  PrefixStats prefix_stats() const {
    PrefixStats stats = prefix_stats_;
    if (mover_) stats.num_loaded = mover_->num_loaded_tokens();
    return stats;
  }

 private:
  /// Of sequences, in blocks of all groups.
  struct KvBlocks {
    int64_t num_charged = 0;  // held or reserved
    int64_t num_dropped = 0;  // that have left the window
  };
  /// What a step looks at of each sequence, of thousands perhaps, is on the first cache line.
  struct alignas(64) Running {
    Sequence* sequence = nullptr;    // null: has left
    int64_t begin = 0;               // its sequence's num_computed before this step
    int64_t count = 0;               // tokens in this step
    int64_t num_secured = 0;         // leading tokens for which it has blocks
    int64_t take_in_at = INT64_MAX;  // computed tokens with which it offers its next blocks
    size_t num_generated = 0;        // of its sequence, when it was admitted
    int32_t slot = 0;                // its index in slots_
    bool finished = false;           // runs no more; its blocks are for its siblings
    bool leaving = false;            // is about to be displaced
    bool decodes = false;            // it has one token to compute, for that one's logits
    KvBlocks kv;                     // of it, as in kv_
    PrefixCursor cursor;             // up to where its blocks are in the tree
    std::vector<BlockTable> tables;  // one per group
    bool runs() const { return !finished && !leaving; }
  };
  /// What the cache has of a sequence that is to be admitted.
  struct Found {
    const Running* sibling = nullptr;  // has the prompt all but its last token; null: use `prefix`
    PrefixMatch prefix;
  };
  /// Where a sequence stands: by the policy's rank, then in order of arrival.
  using Place = std::tuple<double, int64_t, int32_t>;
  struct Candidate {
    Place place;
    Sequence* sequence = nullptr;
  };
  struct Displaced {
    Place place;
    Running* running = nullptr;
  };
  struct Group {
    Group(const GroupBlocks& blocks, double tenant_share)
        : pool(blocks.num_blocks, tenant_share),
          window(blocks.window),
          block_bytes(blocks.block_bytes) {}
    BlockPool pool;
    int64_t window;
    int64_t block_bytes;
    int64_t num_promised = 0;  // free blocks that running sequences still need; while admitting
  };

  /// So many prompts at a time that do not end in a step: each holds blocks that are of use only
  /// when it has ended, but with few of them a short prompt would wait behind long ones.
  static constexpr int64_t kMaxPartial = 4;

  int64_t most_running() const;
  int64_t reserved_blocks(const Group& group) const;
  /// Of the table of a running sequence in a group.
  std::span<const int32_t> ids(const Running& running, size_t g) const {
    return block_ids_[static_cast<size_t>(running.slot) * groups_.size() + g];
  }
  bool is_idle() const { return waiting_.empty() && num_running_ == 0; }
  void start_batch();
  void count_kv(Running& running);
  void uncount_kv(Running& running);
  void take_in(Running& running);
  void hold_for_program(const Running& running);
  int64_t num_reserved(size_t g) const;
  static void fetch_ahead(Running* const* at, Running* const* end);
  void take_in_full_blocks();
  bool take_in_all();
  void charge_token(const Sequence& sequence);
  void share_budget();
  void secure_blocks();
  void admit();
  void top_up();
  void emit();

  int64_t chunk(const Sequence& sequence, int64_t begin) const;
  int64_t within_target(int64_t begin, int64_t count) const;
  int64_t begin_of(const Sequence& sequence) const;
  void spend(const Sequence& sequence, int64_t count);
  void refund(const Running& running);
  int64_t num_scoring(const Sequence& sequence, int64_t count) const;
  int64_t first_logit(const Sequence& sequence, int64_t end) const;
  bool grow(Running& running);
  Running* last_of_running() const;
  void enqueue(Sequence& sequence);
  void dequeue(const Sequence& sequence);
  void vacate(Running& running);
  void offer_computed(Running& running);
  void preempt(Running& running);
  bool drop_finished();
  Place place(const Sequence& sequence) const;
  void rank_waiting();
  bool move_back();
  bool learns_step_time() const;
  void look(int64_t now_us);
  bool may_admit() const;
  int64_t may_begin_with(const Sequence& sequence) const;
  void look_up(Sequence& sequence);
  void foresee_hits(Sequence& sequence);
  bool awaits_blocks(Sequence& sequence);
  bool is_to_copy(const Running& running) const;
  const Running* prompt_source(const Sequence& sequence) const;
  bool pays_to_wait(Sequence& sequence) const;
  bool awaits_sequence(const Sequence& sequence) const;
  bool is_too_long(const Sequence& sequence) const;
  bool has_room(const Sequence& sequence);
  bool displace(Sequence& sequence);
  void find_displaced(const Sequence& sequence);
  void set_leaving(Running& running, bool leaving);
  bool may_start(const Sequence& sequence) const;
  void sum_promises();
  int64_t promised(const Running& running, size_t g) const;
  bool fits(const Sequence& sequence) const;
  int64_t peak(const Sequence& sequence, const Group& group) const;
  void start(Sequence& sequence);
  Running& new_running();
  void count_hits(Sequence& sequence);

  const SchedulerOptions options_;
  std::deque<Group> groups_;         // a pool does not move
  std::optional<PrefixTree> tree_;   // none: there is no prefix cache
  StepTimeModel step_time_;          // learnt only where somebody asks
  std::optional<BlockMover> mover_;  // none: there is no tier
  int64_t max_running_ = 0;          // sequences, as places in the batch and memory allow
  std::optional<Batcher> batcher_;   // none: nobody is held back
  std::deque<Running> slots_;        // by Sequence::slot of those that run; they do not move
  std::vector<int32_t> free_slots_;
  std::vector<std::span<const int32_t>> block_ids_;  // [slots_, groups]: of their tables
  std::vector<Running*> running_;                    // in order of admission; some may have left
  std::vector<Running*> due_;       // of this step: those with full blocks to offer
  std::vector<Running*> scoring_;   // of this step: those with one token left that score a prompt
  std::vector<Running*> prefills_;  // of this step: those that compute a prompt, or anew
  std::vector<Running*> growing_;   // of this step: those whose blocks may not suffice
  std::vector<Sequence*> waiting_;  // by Sequence::slot
  std::vector<Candidate> candidates_;  // for this step: a heap, the first in place at its front
  std::vector<Displaced> displaced_;   // by whom is to be admitted, the last in place first
  int64_t num_running_ = 0;
  int64_t num_finished_ = 0;
  KvBlocks kv_;                    // of all that run
  bool has_windows_ = false;       // some group has
  int64_t num_competing_ = 0;      // that run and are not about to leave, while admitting
  Found found_;                    // of the one to be admitted next
  std::vector<BlockRef> sources_;  // of the plan's copies; nobody else may write them before
  PrefixStats prefix_stats_;
  std::optional<TenantService> tenants_;  // none: the policy does not ask
  Programs programs_;                     // those that sequences name
  QueueView view_;
  std::vector<Sequence*> hopeless_;
  StepPlan plan_;
  int64_t tokens_left_ = 0;  // of this step's budget
  StepWork work_;            // of the tokens that this step has so far
  bool decoding_ = false;    // some of them are those of sequences that decode
  int64_t prompt_logits_left_ = 0;
  bool contended_ = false;      // more than one prompt wants tokens of this step
  int64_t num_prefilling_ = 0;  // prompts that have tokens of this step
  int64_t num_partial_ = 0;     // of them, those that do not end in it
};

}  // namespace hasten::engine
