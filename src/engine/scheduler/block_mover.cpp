// SPDX-License-Identifier: Apache-2.0
// What is worth saving, what is worth loading, and how it gets into the tree.
#include "engine/scheduler/block_mover.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"

namespace hasten::engine {
namespace {

// How long a sequence waits for its blocks: as long as it would take to compute them, but less than
// this would not be enough for any disk, more nobody would understand, and where nothing is known
// yet about the time of steps, a guess must do: that of a small model on a processor of many cores.
constexpr int64_t kMinWaitUs = 20'000;
constexpr int64_t kMaxWaitUs = 10'000'000;
constexpr int64_t kUnknownUsPerToken = 1000;
// Steps of so many tokens tell what any number takes; of fewer, no more than their own.
constexpr int64_t kTellingTokens = 64;

StepWork work_of(int64_t begin, int64_t count) {
  StepWork work;
  work.add(begin, count);
  return work;
}

}  // namespace

BlockMover::BlockMover(BlockTier& tier, PrefixTree& tree, const StepTimeModel& step_time,
                       std::vector<MoverGroup> groups, int64_t block_size)
    : tier_(tier),
      tree_(tree),
      step_time_(step_time),
      groups_(std::move(groups)),
      block_size_(block_size),
      run_(groups_.size()) {
  tree_.on_lose(
      [this](const BlockName& name, int64_t index, int32_t block) { save(name, index, block); });
}

/// The tree loses a block.
void BlockMover::save(const BlockName& name, int64_t index, int32_t block) {
  if (is_loading(name.group, block)) {
    // Its contents never came, and the tier has them.
    std::erase_if(loads_, [&](const BlockLoad& load) {
      return load.group == name.group && load.block == block;
    });
    return;
  }
  if (tier_.contains(name)) return;
  // Not by what is being read now: that will have come by the time that this is wanted.
  const double load_us = tier_.load_us(groups_[static_cast<size_t>(name.group)].block_bytes);
  if (!saves_all_ && step_time_.ready() &&
      load_us > step_time_.added_us(work_of(index * block_size_, block_size_)))
    return;
  const std::span<std::byte> to = tier_.save(name);
  if (!to.empty()) saves_.push_back({.group = name.group, .block = block, .to = to});
}

/// Whether steps have been seen that tell how long computing so many tokens takes.
bool BlockMover::foresees(int64_t count) const {
  return step_time_.ready() && step_time_.most_tokens() >= std::min(count, kTellingTokens);
}

/// Whether loading what is missing of tokens [begin, end) of the path takes no more time than
/// computing them.
bool BlockMover::pays_to_load(int64_t begin, int64_t end) const {
  return !foresees(end - begin) ||
         tier_.load_us(missing_bytes(end / block_size_)) + tier_.backlog_us() <=
             step_time_.added_us(work_of(begin, end - begin));
}

/// How long a sequence waits for so many tokens, those from `begin` on.
int64_t BlockMover::most_wait_us(int64_t begin, int64_t count) const {
  const int64_t compute_us = foresees(count)
                                 ? static_cast<int64_t>(step_time_.added_us(work_of(begin, count)))
                                 : kUnknownUsPerToken * count;
  return std::clamp(compute_us, kMinWaitUs, kMaxWaitUs);
}

void BlockMover::read_ahead(Sequence& sequence, int64_t limit) {
  const int64_t end = survey(sequence, limit);
  int64_t begin = 0;
  const auto is_complete = [&](int64_t index) {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (is_needed(g, index, end)) return false;
    return true;
  };
  while (begin < end && is_complete(begin)) ++begin;
  if (begin == end || !pays_to_load(begin * block_size_, end * block_size_)) return;
  const Fetched fetched = fetch(end, 0);
  sequence.reads_ahead = fetched.reading || fetched.ready;
}

BlockMover::Outcome BlockMover::bring(Sequence& sequence, int64_t num_found, int64_t limit,
                                      int64_t now_us) {
  const int64_t end = survey(sequence, limit);
  const int64_t num_tokens = end * block_size_;
  if (num_tokens <= num_found) return Outcome::nothing;
  // Once it reads, its own reads are what the tier is at, and the question is answered.
  const bool reads = sequence.reads_ahead || sequence.load_until_us >= 0;
  if (!reads && !pays_to_load(num_found, num_tokens)) return Outcome::nothing;
  const Fetched fetched = fetch(end, ++round_);
  const int64_t num_adopted = adopt(sequence, end);
  if (sequence.load_until_us < 0)
    sequence.load_until_us = now_us + most_wait_us(num_found, num_tokens - num_found);
  // What is ready, but cannot be adopted, takes up room that nobody else gives back.
  const bool more = fetched.reading || (fetched.no_room && (num_adopted > 0 || !fetched.ready));
  if (more && now_us < sequence.load_until_us) return Outcome::wait;
  return num_adopted > 0 ? Outcome::loaded : Outcome::nothing;
}

void BlockMover::end_moves(bool done) {
  if (!done) {
    // While they count as loading, what the tree loses of them is not saved.
    for (const BlockLoad& load : std::vector<BlockLoad>(loads_))
      groups_[static_cast<size_t>(load.group)].pool->forget(load.block);
  } else {
    num_loaded_tokens_ += num_coming_tokens_;
  }
  num_coming_tokens_ = 0;
  saves_.clear();
  loads_.clear();
  tier_.end_step(done);
}

/// Lists the blocks of a sequence into path_ as far as each is in the tree or the tier for a group
/// that keeps all. Returns how many of them could be had in all: every group has what the token
/// behind them sees.
int64_t BlockMover::survey(const Sequence& sequence, int64_t limit) {
  path_.clear();
  tokens_.clear();
  std::ranges::fill(run_, 0);
  int64_t usable = 0;
  PrefixWalk walk;
  while ((walk.depth + 1) * block_size_ <= limit) {
    BlockName name = tree_.next(sequence, walk);
    const int64_t end = walk.depth * block_size_;
    bool complete = true;
    bool lost = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      name.group = static_cast<int32_t>(g);
      const bool is_there = tree_.block_of(walk, g) >= 0 || tier_.contains(name);
      run_[g] = is_there ? run_[g] + 1 : 0;
      complete = complete && walk.depth - run_[g] <= tree_.first_block(g, end);
      // A group without a window never recovers.
      lost = lost || (!is_there && tree_.first_block(g, INT64_MAX) == 0);
    }
    if (lost) break;
    tokens_.insert(tokens_.end(), name.tokens.begin(), name.tokens.end());
    path_.push_back({.name = name, .walk = walk});
    if (complete) usable = walk.depth;
  }
  return usable;
}

/// Whether the tree lacks a block that whoever begins with the first `end` blocks of the path sees.
bool BlockMover::is_needed(size_t group, int64_t index, int64_t end) const {
  return index >= tree_.first_block(group, end * block_size_) &&
         tree_.block_of(path_[static_cast<size_t>(index)].walk, group) < 0;
}

int64_t BlockMover::missing_bytes(int64_t end) const {
  int64_t sum = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (int64_t i = 0; i < end; ++i)
      if (is_needed(g, i, end)) sum += groups_[g].block_bytes;
  return sum;
}

/// Asks for all that is needed of the first `end` blocks, as far as there is room.
BlockMover::Fetched BlockMover::fetch(int64_t end, int64_t round) {
  Fetched fetched;
  for (int64_t i = 0; i < end && !fetched.no_room; ++i) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!is_needed(g, i, end)) continue;
      const TierState state = tier_.fetch(name(i, g), round);
      fetched.ready = fetched.ready || state == TierState::ready;
      fetched.reading = fetched.reading || state == TierState::reading;
      fetched.no_room = fetched.no_room || state == TierState::no_room;
    }
  }
  return fetched;
}

/// Gives the tree those of the first `end` blocks that are ready, as far as the pools have blocks.
/// Returns of how many blocks of the path something came.
int64_t BlockMover::adopt(const Sequence& sequence, int64_t end) {
  // What the tree has of the path shall not have to make room for the rest of it.
  PathRefs held;
  for (int64_t i = 0; i < end; ++i)
    for (size_t g = 0; g < groups_.size(); ++g)
      if (const int32_t id = tree_.block_of(path_[static_cast<size_t>(i)].walk, g); id >= 0)
        held.add(groups_[g].pool->share(id));

  std::vector<BlockTable> tables;
  for (const MoverGroup& group : groups_) tables.emplace_back(*group.pool, block_size_);
  std::vector<std::pair<int64_t, BlockLoad>> loads;  // index in the path
  int64_t num_blocks = 0;
  bool more = true;
  for (; num_blocks < end && more; ++num_blocks) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int32_t known = tree_.block_of(path_[static_cast<size_t>(num_blocks)].walk, g);
      BlockRef block = known >= 0 ? groups_[g].pool->share(known) : BlockRef();
      const BlockName wanted = name(num_blocks, g);
      if (is_needed(g, num_blocks, end) && tier_.fetch(wanted, round_) == TierState::ready) {
        block = groups_[g].pool->allocate();
        if (block)
          loads.push_back(
              {num_blocks,
               {.group = wanted.group, .block = block.id(), .from = tier_.take(wanted)}});
      }
      // In a group that keeps all, nothing behind a gap can be used.
      more = more && (block || tree_.first_block(g, end * block_size_) > num_blocks);
      tables[g].append(std::move(block));
    }
  }
  PrefixMatch nothing;
  std::vector<BlockCopy> copies;
  std::vector<BlockRef> sources;
  PrefixCursor cursor = tree_.begin(nothing, tables, copies, sources);
  tree_.extend(cursor, sequence, tables, num_blocks);
  int64_t num_adopted = 0;
  int64_t last = -1;
  for (const auto& [index, load] : loads) {
    // Not where the tree had no node left.
    if (!groups_[static_cast<size_t>(load.group)].pool->is_kept(load.block)) continue;
    loads_.push_back(load);
    num_adopted += std::exchange(last, index) == index ? 0 : 1;
  }
  num_coming_tokens_ += num_adopted * block_size_;
  return num_adopted;
}

BlockName BlockMover::name(int64_t index, size_t group) const {
  const auto at = static_cast<size_t>(index);
  BlockName name = path_[at].name;
  name.group = static_cast<int32_t>(group);
  const auto size = static_cast<size_t>(block_size_);
  name.tokens = std::span(tokens_).subspan(at * size, size);
  return name;
}

bool BlockMover::is_loading(int32_t group, int32_t block) const {
  return std::ranges::any_of(
      loads_, [&](const BlockLoad& load) { return load.group == group && load.block == block; });
}

}  // namespace hasten::engine
