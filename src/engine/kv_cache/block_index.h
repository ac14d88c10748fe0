// SPDX-License-Identifier: Apache-2.0
// BlockIndex: which slot of a file holds which block, and which slot goes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "base/siphash.h"
#include "engine/kv_cache/block_tier.h"

namespace hasten::engine {

/// Invariant: a slot is free, or claimed, or has a key; those that have one are in order of their
/// last use. All operations take constant time, and memory grows with the slots that were ever
/// used. One thread at a time.
class BlockIndex {
 public:
  /// All of `num_slots` slots are free.
  explicit BlockIndex(int64_t num_slots) : num_slots_(num_slots) {}

  /// The slot of a key; -1: none.
  int64_t find(const Hash128& key) const;
  /// A slot for a new block: a free one, or the one that has not been used for longest, whose key
  /// is forgotten. -1: all are claimed.
  int64_t claim();
  /// The claimed slot holds `key` now, and was used last. A key that another slot holds already
  /// stays there, and the claimed slot is free again.
  void publish(int64_t slot, const Hash128& key);
  /// The claimed slot is free again.
  void release(int64_t slot);
  /// Finds a key in a free slot, which it then holds, used last. False: the slot is not free, or
  /// another one has the key.
  bool restore(int64_t slot, const Hash128& key);
  /// The key is used. False: it has no slot.
  bool touch(const Hash128& key);
  /// Its slot is free.
  void forget(const Hash128& key);

  int64_t num_slots() const { return num_slots_; }
  int64_t num_used() const { return std::ssize(slot_of_); }

 private:
  enum class Use : uint8_t { free, claimed, used };
  struct Slot {
    Hash128 key;
    int64_t previous = -1;  // in order of use; -1: the end of the ring
    int64_t next = -1;
    Use use = Use::free;
  };

  void extend(int64_t count);
  void link_last(int64_t slot);
  void unlink(int64_t slot);
  Slot& at(int64_t slot) { return slots_[static_cast<size_t>(slot + 1)]; }

  int64_t num_slots_;
  std::vector<Slot> slots_ = std::vector<Slot>(1);  // the first is begin and end of the ring
  std::vector<int64_t> free_;  // slots, the last goes next; some have been restored since
  std::unordered_map<Hash128, int64_t, KeyHash> slot_of_;
};

}  // namespace hasten::engine
