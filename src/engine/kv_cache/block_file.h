// SPDX-License-Identifier: Apache-2.0
// BlockFile: blocks with checksums in the slots of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/siphash.h"
#include "engine/kv_cache/block_tier.h"

namespace hasten::engine {

struct BlockFileOptions {
  int64_t block_tokens = 16;  // tokens of each block
  int64_t payload_bytes = 0;  // bytes of each block's contents
  int64_t max_bytes = 0;      // of the file
  Hash128 seal;               // of whom and of what: what was written under another is no block
};

/// A slot is a header, the block's tokens and its contents. Both the header with the tokens and the
/// contents have a hash that nobody can make without the seal, and nothing of a slot is believed
/// before its hash agrees; so a write that was cut off at any point, a bit that flipped, and a file
/// from elsewhere are slots without a block. One thread at a time.
class BlockFile {
 public:
  enum class Outcome { ok, absent, corrupt };

  /// What a block takes in a file.
  static int64_t slot_bytes(int64_t block_tokens, int64_t payload_bytes);

  /// Cuts off what is beyond max_bytes.
  BlockFile(FileDescriptor file, const BlockFileOptions& options);

  /// Slots that fit.
  int64_t num_slots() const { return num_slots_; }
  /// Whether the file still has a name. Any thread.
  bool is_there() const;

  /// Calls for each slot whose header is good: its number, the key of its block, and the `serial`
  /// that it was written with. Returns how many others have something in them.
  int64_t scan(const std::function<void(int64_t slot, const Hash128& key, uint64_t serial)>& found);

  /// Reads the contents of `name` from a slot into `out`, of payload_bytes.
  Outcome read(int64_t slot, const BlockName& name, std::span<std::byte> out);
  /// Writes a block over whatever a slot has. Empty: done; else what went wrong.
  std::string write(int64_t slot, const BlockName& name, uint64_t serial,
                    std::span<const std::byte> contents);

 private:
  struct Header;

  bool is_whole(const Header& header) const;
  Hash128 hash_of_head() const;
  std::string grow(int64_t slot);
  size_t read_at(int64_t offset, std::span<std::byte> head, std::span<std::byte> contents) const;

  const FileDescriptor file_;
  const BlockFileOptions options_;
  const int64_t head_bytes_;  // header and tokens
  const int64_t slot_bytes_;
  const int64_t num_slots_;
  int64_t num_allocated_ = 0;    // slots for which the disk has given room
  std::vector<std::byte> head_;  // of the slot at hand
};

}  // namespace hasten::engine
