// SPDX-License-Identifier: Apache-2.0
// Keys and values in blocks, as the attention kernels read them.
#pragma once

#include <cstddef>
#include <span>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "ops/backend.h"

namespace hasten::cpu {

/// [layer][block][KV head][keys, then values]. Keys lie with one position per lane,
/// [head_dim][block_size], values with one element of the head per lane, [block_size][head_dim];
/// behind them lie their scales if the type has any, binary16: of keys [head_dim / 32][block_size],
/// of values [block_size][head_dim / 32]. Two elements of q4_0 that are 16 apart in the head share
/// a byte, in both. Pairs are of neighbours in what kernels sum over: keys [head_dim / 2]
/// [block_size][2], values [block_size / 2][head_dim][2] with scales as those of keys.
class CpuKvCache final : public ops::KvCache {
 public:
  /// Keys and values of one head, of tokens whose slots follow each other in one block.
  struct Run {
    int64_t layer;
    int64_t head;
    int64_t slot;    // of the first: block id * block_size + offset
    int64_t count;   // of tokens
    const float* k;  // [head_dim] each
    const float* v;
    int64_t token_stride;  // floats from one token to the next
  };

  /// Where `kernels` attend to pairs, keys and values that fit are kept as such.
  /// Error{unsupported} as ops::check_kv_types; Error{resource_exhausted}.
  CpuKvCache(const ops::KvCacheSpec& spec, const KernelTable& kernels);

  static int64_t num_bytes(const ops::KvCacheSpec& spec);
  /// What is kept elsewhere can be read by the same version only: of how it lies, and of the
  /// products that it was computed with.
  static constexpr int kLayoutVersion = 4;

  KvKind key_kind() const { return key_kind_; }
  KvKind value_kind() const { return value_kind_; }
  uint8_t* keys(int64_t layer, int64_t block, int64_t head) const {
    return memory_.data() + ((layer * spec().num_blocks + block) * spec().num_kv_heads + head) *
                                (key_bytes_ + value_bytes_);
  }
  uint8_t* values(int64_t layer, int64_t block, int64_t head) const {
    return keys(layer, block, head) + key_bytes_;
  }
  /// All its memory, which has no contents before something is stored.
  std::span<std::byte> bytes() const {
    return {reinterpret_cast<std::byte*>(memory_.data()), static_cast<size_t>(memory_.num_bytes())};
  }
  /// Threads may store at different slots.
  void store(const Run& run) const;
  /// Whether a run takes less time than its tokens one by one.
  bool stores_runs() const { return key_kind_ == KvKind::bf16_pairs; }
  void copy_block(int64_t from, int64_t to);
  /// All layers of a block, in as many bytes as a cache of one block has.
  void export_block(int64_t block, std::span<std::byte> to) const;
  void import_block(int64_t block, std::span<const std::byte> from);

 private:
  /// Of one layer of a block.
  size_t layer_bytes() const {
    return static_cast<size_t>((key_bytes_ + value_bytes_) * spec().num_kv_heads);
  }
  void check_block(int64_t block, size_t num_bytes) const;
  void store_token(const Run& run, int64_t index) const;

  const KernelTable& kernels_;
  KvKind key_kind_;
  KvKind value_kind_;
  int64_t key_bytes_;    // of one head in one block
  int64_t value_bytes_;  // likewise
  Memory memory_;
};

}  // namespace hasten::cpu
