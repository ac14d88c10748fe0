// SPDX-License-Identifier: Apache-2.0
// BlockMover: decides which blocks go to a lower tier and which come back, by what that costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/block_tier.h"
#include "engine/kv_cache/prefix_tree.h"
#include "engine/scheduler/step_time_model.h"
#include "engine/sequence/step.h"

namespace hasten::engine {

struct MoverGroup {
  BlockPool* pool = nullptr;
  int64_t block_bytes = 0;  // of a block's contents
};

/// A block that the tree loses is saved if loading it later will take less time than computing it
/// anew, by the measured speed of both. What the tier has of a sequence that waits is read ahead,
/// and becomes part of the tree when the sequence can be admitted; so everybody else sees blocks
/// that come from below as they see all others.
///
/// Reading takes its time, but decides no token: a sequence waits for it at most as long as
/// computing the same would take, be it that reads for others leave no room for its own, then it
/// begins with what there is. One thread.
class BlockMover {
 public:
  /// All arguments must outlive the mover, which listens to what the tree loses.
  BlockMover(BlockTier& tier, PrefixTree& tree, const StepTimeModel& step_time,
             std::vector<MoverGroup> groups, int64_t block_size);
  ~BlockMover() { tree_.on_lose(nullptr); }
  BlockMover(const BlockMover&) = delete;
  BlockMover& operator=(const BlockMover&) = delete;

  /// Begins to read what the tier has of a sequence beyond the tree, of at most its first `limit`
  /// tokens, where there is room for it.
  void read_ahead(Sequence& sequence, int64_t limit);

  enum class Outcome { nothing, loaded, wait };
  /// Makes what has been read of a sequence, which could be admitted now, part of the tree, which
  /// has `num_found` of its tokens. `wait`: more is on its way.
  Outcome bring(Sequence& sequence, int64_t num_found, int64_t limit, int64_t now_us);

  /// From now on saves all that the tree loses: what is written for whoever comes after this
  /// process is not for the speed of its last steps to decide.
  void save_all() { saves_all_ = true; }

  /// What there is to do before the step; valid until `end_moves`.
  const std::vector<BlockSave>& saves() const { return saves_; }
  const std::vector<BlockLoad>& loads() const { return loads_; }
  /// All of that was done, or, with `done` false, none of it: then what was to be loaded is not in
  /// the tree any more.
  void end_moves(bool done);

  /// Tokens that have come from the tier; never falls.
  int64_t num_loaded_tokens() const { return num_loaded_tokens_; }

 private:
  /// A block of a sequence.
  struct Step {
    BlockName name;  // but for the group and the tokens, which lie in tokens_
    PrefixWalk walk;
  };

  /// What of the blocks that a sequence needs there is.
  struct Fetched {
    bool ready = false;    // some are
    bool reading = false;  // some are being read
    bool no_room = false;  // some are not, for want of room
  };

  void save(const BlockName& name, int64_t index, int32_t block);
  int64_t survey(const Sequence& sequence, int64_t limit);
  bool pays_to_load(int64_t begin, int64_t end) const;
  bool foresees(int64_t count) const;
  int64_t most_wait_us(int64_t begin, int64_t count) const;
  int64_t missing_bytes(int64_t end) const;
  bool is_needed(size_t group, int64_t index, int64_t end) const;
  Fetched fetch(int64_t end, int64_t round);
  int64_t adopt(const Sequence& sequence, int64_t end);
  BlockName name(int64_t index, size_t group) const;
  bool is_loading(int32_t group, int32_t block) const;

  BlockTier& tier_;
  PrefixTree& tree_;
  const StepTimeModel& step_time_;
  const std::vector<MoverGroup> groups_;
  const int64_t block_size_;
  std::vector<Step> path_;       // of the sequence at hand
  std::vector<int32_t> tokens_;  // [path, block_size]
  std::vector<int64_t> run_;     // by group: blocks up to the end of the path that are to be had
  std::vector<BlockSave> saves_;
  std::vector<BlockLoad> loads_;
  int64_t round_ = 0;
  bool saves_all_ = false;
  int64_t num_coming_tokens_ = 0;  // with the loads of this step
  int64_t num_loaded_tokens_ = 0;
};

}  // namespace hasten::engine
