// SPDX-License-Identifier: Apache-2.0
// BlockTier: a place below the cache, where the contents of evicted blocks go and come back from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/siphash.h"

namespace hasten::engine {

/// Which contents: those of a block of `tokens`, behind those that `parent` stands for, in one
/// cache group. Keys are hashes that nobody can make collide who does not know their secret.
struct BlockName {
  Hash128 key;     // of all tokens up to the block's end, and of whose they are
  Hash128 parent;  // of those in front of the block
  int32_t group = 0;
  std::span<const int32_t> tokens;  // [block_size]
};

/// For hash tables of keys, which are hashes already.
struct KeyHash {
  size_t operator()(const Hash128& key) const { return key.low; }
};

/// What there is to load of a block.
enum class TierState {
  absent,   // nothing, or nothing that can be read
  no_room,  // it is there, but too much else waits to be taken
  reading,  // it will be ready or absent in a while
  ready,    // `take` returns it
};

/// Contents that come back are those that were saved under the same name, to the last bit, or they
/// do not come back. The engine's thread calls; nothing blocks.
class BlockTier {
 public:
  virtual ~BlockTier() = default;

  /// Whether the contents are here, as far as is known without reading them. To ask is to use them.
  virtual bool contains(const BlockName& name) = 0;
  /// Begins to bring the contents to where `take` finds them. What the same `round` has asked for
  /// stays; other contents that are ready, but were not taken, may have to make room for a round
  /// above zero. For such a one there is no room only while what it has asked for, what is being
  /// read and what was taken in this step take up all of it: so before long there is.
  virtual TierState fetch(const BlockName& name, int64_t round) = 0;
  /// The contents of a block that is ready, valid until `end_step`.
  virtual std::span<const std::byte> take(const BlockName& name) = 0;
  /// Where the contents of a block shall be written to before `end_step`. Empty: there is no room,
  /// and they are lost.
  virtual std::span<std::byte> save(const BlockName& name) = 0;
  /// The contents for `save` are there, unless `saved` is false, when none of them is to be
  /// believed; and what was taken is no longer needed.
  virtual void end_step(bool saved) = 0;
  /// How long it takes to bring so many bytes when nothing else is being read, in microseconds.
  virtual double load_us(int64_t bytes) = 0;
  /// How long it will take until all has come that is being read, likewise.
  virtual double backlog_us() = 0;
};

}  // namespace hasten::engine
