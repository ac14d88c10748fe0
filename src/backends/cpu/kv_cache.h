// SPDX-License-Identifier: Apache-2.0
// Keys and values in blocks, as the attention kernels read them.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "ops/backend.h"

namespace hasten::cpu {

/// [layer][block][KV head][keys [head_dim][block_size], then values [block_size][head_dim]]: keys
/// lie with one position per lane, values with one element of the head per lane.
class CpuKvCache final : public ops::KvCache {
 public:
  /// Error{unsupported} for a dtype other than f32, f16, bf16; Error{resource_exhausted}.
  explicit CpuKvCache(const ops::KvCacheSpec& spec);

  static int64_t num_bytes(const ops::KvCacheSpec& spec);

  FloatKind kind() const { return kind_; }
  uint8_t* keys(int64_t layer, int64_t block, int64_t head) const {
    return memory_.data() +
           ((layer * spec().num_blocks + block) * spec().num_kv_heads + head) * 2 * head_bytes_;
  }
  uint8_t* values(int64_t layer, int64_t block, int64_t head) const {
    return keys(layer, block, head) + head_bytes_;
  }
  void copy_block(int64_t from, int64_t to);

 private:
  FloatKind kind_;
  int64_t head_bytes_;  // keys of one head in one block
  Memory memory_;
};

}  // namespace hasten::cpu
