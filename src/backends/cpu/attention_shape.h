// SPDX-License-Identifier: Apache-2.0
// What one call of attention is about; for the files of class Attention alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/cpu/attention.h"
#include "base/checked.h"

namespace hasten::cpu {

// Query rows (tokens times heads of a group) that share one pass over the keys: with their outputs
// they fit in L2 beside a tile.
inline constexpr int64_t kMaxQueryRows = 64;
// A thread's share of a step is cut into so many parts at least, so that threads end together.
inline constexpr int64_t kPartsPerThread = 4;
/// A softmax state has its parts in order: output, sums, max. Vectors begin where lines do.
inline int64_t state_floats(int64_t rows, int64_t padded_dim) {
  return rows * (padded_dim + kSumLanes) + round_up(rows, 16);
}

/// What a call is about, with its derived sizes.
struct Attention::Shape {
  Shape(const ops::AttentionParams& p, const KernelTable& kernels)
      : params(p),
        cache(dynamic_cast<const CpuKvCache&>(p.cache)),
        num_heads(p.q.dim(1)),
        head_dim(p.q.dim(2)),
        padded_dim(round_up(head_dim, kGroupRows)),
        group(num_heads / cache.spec().num_kv_heads),
        tokens_per_piece(std::max<int64_t>(1, kMaxQueryRows / group)),
        max_rows(tokens_per_piece * group),
        pairs(cache.key_kind() == KvKind::bf16_pairs   ? &kernels.bf16_pairs
              : cache.key_kind() == KvKind::q8_0_pairs ? &kernels.q8_0_pairs
                                                       : nullptr),
        q_scale(pairs != nullptr ? 1.0F : p.scale) {}

  int64_t num_rows(const Piece& piece) const { return piece.num_tokens * group; }
  /// Position of a token of the step in its sequence.
  int64_t position(const Piece& piece, int64_t token) const {
    const auto s = static_cast<size_t>(piece.sequence);
    return params.batch.context_len[s] - params.batch.query_start[s + 1] + token;
  }
  /// The keys that any query of the piece sees: [first, end).
  int64_t first_key(const Piece& piece) const {
    return first_visible(position(piece, piece.first_token));
  }
  int64_t end_key(const Piece& piece) const {
    return position(piece, piece.first_token + piece.num_tokens - 1) + 1;
  }
  /// Those of them that lie in a span.
  KeySpan keys(const Piece& piece, int64_t span) const {
    return {.piece = &piece,
            .begin = std::max(span * kSpanKeys, first_key(piece)),
            .end = std::min((span + 1) * kSpanKeys, end_key(piece))};
  }
  std::span<const int32_t> block_table(int64_t sequence) const {
    const ops::PagedBatch& batch = params.batch;
    return batch.block_tables.subspan(
        static_cast<size_t>(sequence * batch.block_table_stride),
        static_cast<size_t>(
            ceil_div(batch.context_len[static_cast<size_t>(sequence)], cache.spec().block_size)));
  }
  int64_t first_visible(int64_t position) const {
    return params.window > 0 ? std::max<int64_t>(0, position - params.window + 1) : 0;
  }

  const ops::AttentionParams& params;
  const CpuKvCache& cache;
  int64_t num_heads;
  int64_t head_dim;
  int64_t padded_dim;
  int64_t group;  // query heads per KV head
  int64_t tokens_per_piece;
  int64_t max_rows;
  const PairKernels* pairs;  // null: the cache has none
  float q_scale;  // of queries; of pairs scores are scaled instead, whose rounding is of q itself
};

}  // namespace hasten::cpu
