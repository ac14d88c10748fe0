// SPDX-License-Identifier: Apache-2.0
// The reference backend's key/value storage: one row per slot and head, slots in order.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ops/backend.h"

namespace hasten::ops::reference {

class PagedKvCache : public KvCache {
 public:
  /// Zeroed. Error{unsupported} as check_kv_types, Error{resource_exhausted} when the system
  /// refuses.
  explicit PagedKvCache(const KvCacheSpec& spec);

  /// Bytes of keys and values together.
  static int64_t num_bytes(const KvCacheSpec& spec);

  // One head's key or value at a slot (block id * block_size + offset): head_dim elements.
  void* key(int64_t layer, int64_t slot, int64_t head) const {
    return row(keys_, layer, slot, head);
  }
  void* value(int64_t layer, int64_t slot, int64_t head) const {
    return row(values_, layer, slot, head);
  }

  /// Has the system give all memory, before anything is written.
  void bring_in() const;
  /// Copies keys and values of a whole block, all layers.
  void copy_block(int64_t from, int64_t to);
  /// Keys and values of a whole block, all layers.
  void export_block(int64_t block, std::span<std::byte> to) const;
  void import_block(int64_t block, std::span<const std::byte> from);

 private:
  /// The parts of a block, in the order in which it moves: keys, then values, layer by layer.
  std::vector<std::span<std::byte>> parts(int64_t block, size_t num_bytes) const;
  void* row(const OwnedTensor& storage, int64_t layer, int64_t slot, int64_t head) const;

  OwnedTensor keys_;    // [num_layers, num_blocks * block_size, num_kv_heads, head_dim]
  OwnedTensor values_;  // likewise
};

}  // namespace hasten::ops::reference
