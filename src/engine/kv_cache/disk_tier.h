// SPDX-License-Identifier: Apache-2.0
// DiskTier: the blocks of a StoreDirectory, read and written by a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/kv_cache/block_file.h"
#include "engine/kv_cache/block_index.h"
#include "engine/kv_cache/block_tier.h"
#include "engine/kv_cache/store_directory.h"

namespace hasten::engine {

struct DiskTierOptions {
  std::filesystem::path folder = {};
  int64_t max_bytes = 0;                  // of all files of blocks
  int64_t staging_bytes = 0;              // of memory for what was read and not taken, and as much
                                          // again for what is to be written
  int64_t block_tokens = 16;              // tokens of a block
  std::vector<int64_t> block_bytes = {};  // of a block's contents, by cache group
  std::string model = {};    // what contents depend on beside tokens: weights, layout, arithmetic
  bool always_load = false;  // whatever that costs; for measurements and tests
};

/// What a tier has done; nothing but num_blocks and kept_bytes ever falls.
struct TierStats {
  int64_t num_blocks = 0;     // there are
  int64_t kept_bytes = 0;     // of their contents
  int64_t read_bytes = 0;     // of contents that were good
  int64_t written_bytes = 0;  // of contents
  int64_t num_corrupt = 0;    // blocks that were no longer what had been written
  int64_t num_dropped = 0;    // blocks that came faster than they could be written
};

/// Only the engine's thread calls. A disk that is full or fails ends the writing, with one line in
/// the log; what cannot be read is not there.
class DiskTier final : public BlockTier {
 public:
  /// Finds the blocks that are there, and removes the files of groups that it has not got. Throws
  /// as StoreDirectory, and Error{invalid_argument} when not even one block of each group fits.
  explicit DiskTier(const DiskTierOptions& options);
  /// Writes what is still to be written.
  ~DiskTier() override;
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  bool contains(const BlockName& name) override;
  TierState fetch(const BlockName& name, int64_t round) override;
  std::span<const std::byte> take(const BlockName& name) override;
  std::span<std::byte> save(const BlockName& name) override;
  void end_step(bool saved) override;
  double load_us(int64_t bytes) override;
  double backlog_us() override;

  /// From now on what is saved earlier is what a later run shall write over later. No more blocks
  /// than there are slots may follow.
  void expect_newest_first();
  /// Blocks of each group that the folder has room for, at least.
  int64_t num_slots() const;

  /// Waits until a block has been read since the last call, at most so long.
  void await_read(int64_t timeout_us);
  /// Waits until all that was saved is written, at most so long. False: some is not.
  bool await_writes(int64_t timeout_us);
  /// What the keys of names are to be hashed with.
  const Hash128& secret() const { return folder_.secret(); }
  TierStats stats() const;
  /// Whether nobody deleted the files meanwhile. Else what is written goes with this process.
  bool is_there() const;
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  /// A block, or one to be.
  struct Block {
    Hash128 key;
    Hash128 parent;
    int32_t group = 0;
    std::vector<int32_t> tokens;
    std::vector<std::byte> contents;
    BlockName name() const {
      return {.key = key, .parent = parent, .group = group, .tokens = tokens};
    }
    bool is(const BlockName& name) const;
  };
  using SharedBlock = std::shared_ptr<Block>;
  /// A block that was asked for, until it is taken.
  struct Staged {
    SharedBlock block;
    TierState state = TierState::reading;
    bool taken = false;
    int64_t round = 0;     // that asked for it last
    int64_t ready_us = 0;  // since when it is
  };
  using StagedList = std::list<Staged>;
  struct Group {
    Group(FileDescriptor descriptor, const BlockFileOptions& options)
        : file(std::move(descriptor), options),
          index(file.num_slots()),
          block_bytes(options.payload_bytes) {}
    BlockFile file;    // for thread_ alone, once that runs
    BlockIndex index;  // this and what follows: under mutex_
    int64_t block_bytes;
    std::unordered_map<Hash128, StagedList::iterator, KeyHash> staged;
    std::unordered_map<Hash128, SharedBlock, KeyHash> unwritten;
    std::vector<SharedBlock> unused;  // kept for others, so that no step allocates
  };

  int64_t find_blocks(size_t g);
  void tell_what_was_found(int64_t other_bytes) const;
  Group& group(int32_t g) { return *groups_[static_cast<size_t>(g)]; }
  SharedBlock new_block(const BlockName& name);
  void recycle(SharedBlock block);
  bool make_room(int64_t bytes, int64_t round);
  void drop(StagedList::iterator staged);
  void forget_write(const SharedBlock& block);
  void run();
  void read_next(std::unique_lock<std::mutex>& lock);
  void write_next(std::unique_lock<std::mutex>& lock);
  void measure(int64_t us, int64_t bytes);
  double read_us(int64_t bytes) const;

  const StoreDirectory folder_;
  const DiskTierOptions options_;
  std::vector<std::unique_ptr<Group>> groups_;

  mutable std::mutex mutex_;  // guards what follows
  uint64_t serial_ = 0;       // of the last block written, or the next one if newest_first_
  bool newest_first_ = false;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<SharedBlock> reads_;
  std::deque<SharedBlock> writes_;
  std::vector<SharedBlock> saves_;           // of this step
  std::vector<StagedList::iterator> taken_;  // in this step
  StagedList staged_;                        // in the order in which they were asked for
  int64_t staged_bytes_ = 0;
  int64_t unwritten_bytes_ = 0;
  int64_t reading_bytes_ = 0;
  double us_per_byte_;
  int64_t measured_us_ = 0;  // when
  int64_t num_reads_ended_ = 0;
  bool writable_ = true;
  bool stopping_ = false;
  TierStats stats_;
  std::thread thread_;
};

}  // namespace hasten::engine
