// SPDX-License-Identifier: Apache-2.0
// Paged attention: how queries and keys are split into pieces of work.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kv_cache.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/workers.h"
#include "ops/backend.h"

namespace hasten::cpu {

/// Not thread-safe: it owns the scratch memory of one backend.
///
/// The keys of a sequence are cut into spans of kSpanKeys at absolute positions. A query's softmax
/// runs over each span by itself, tile after tile, and the spans are merged in order: the same
/// arithmetic whether one thread does all spans or several do some each, and whichever other
/// queries are worked on together with it.
///
/// Sequences that decode and begin with the same blocks, a shared prefix, read the whole spans of
/// it once (Juravsky et al., Hydragen, 2024; Ye et al., Cascade inference, 2024), on layers without
/// a window.
class Attention {
 public:
  static constexpr int64_t kSpanKeys = 512;
  static_assert(kSpanKeys % kTileKeys == 0);

  Attention(const KernelTable& kernels, Workers& workers) : kernels_(kernels), workers_(workers) {}

  void reserve(const ops::StepLimits& limits);
  /// What it allocates beside lists.
  std::array<const Scratch*, 2> scratch() const { return {&thread_memory_, &partials_}; }
  void run(const ops::AttentionParams& params);

 private:
  /// Some consecutive queries of a sequence and the query heads of one KV head.
  struct Piece {
    int64_t sequence = 0;
    int64_t first_token = 0;  // of the step
    int64_t num_tokens = 0;
    int64_t kv_head = 0;
  };
  /// One span of the keys of a piece that is too large for one thread.
  struct SpanOfPiece {
    int64_t piece = 0;
    int64_t span = 0;
    int64_t partial = 0;  // where in partials_ its result goes, in floats
  };
  /// All of those of a piece.
  struct CutPiece {
    size_t first_span = 0;  // in spans_
    size_t num_spans = 0;
  };
  /// What one thread does: a piece; or several, of one token each, of sequences that have the spans
  /// before `shared_end` in common.
  struct Work {
    int64_t first_piece = 0;
    int64_t num_pieces = 1;
    int64_t shared_end = 0;
  };
  /// Keys [begin, end) of a piece, of one span.
  struct KeySpan {
    const Piece* piece = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
    bool is_empty() const { return begin >= end; }
  };
  struct Shape;
  struct ThreadMemory;
  /// Whether spans are the first that a thread's totals have of its queries.
  enum class Total : uint8_t { begins, goes_on };

  void list_sequences(const Shape& shape);
  int64_t num_sharing(const Shape& shape, size_t first, int64_t& num_spans) const;
  void list_pieces(const Shape& shape);
  void list_pieces(const Shape& shape, int64_t sequence);
  void cut_large_pieces(const Shape& shape);
  bool list_spans(const Shape& shape, int64_t piece_index, int64_t& num_floats);
  ThreadMemory thread_memory(const Shape& shape, int32_t thread);
  SoftmaxState partial_state(const Shape& shape, const SpanOfPiece& span);
  void start(const Shape& shape, const Piece& piece, const ThreadMemory& memory);
  void attend_span(const Shape& shape, std::span<const Piece> pieces, int64_t span, KeySpan after,
                   const ThreadMemory& memory, const SoftmaxState& state);
  KeySpan first_keys(const Shape& shape, int64_t index) const;
  void attend(const Shape& shape, const SpanOfPiece& span, KeySpan after,
              const ThreadMemory& memory);
  void attend(const Shape& shape, const Work& work, KeySpan after, const ThreadMemory& memory);
  void merge(const Shape& shape, const CutPiece& cut, const ThreadMemory& memory);
  void attend_spans(const Shape& shape, std::span<const Piece> pieces, int64_t begin, int64_t end,
                    KeySpan after, const ThreadMemory& memory, Total total);
  void load_tile(const Shape& shape, const Piece& piece, int64_t begin, int64_t end,
                 const ThreadMemory& memory);
  void find_tile(const Shape& shape, const KeySpan& wanted, CachedTile& tile);
  static void see_tile(const Shape& shape, std::span<const Piece> pieces, int64_t tile, int64_t end,
                       const ThreadMemory& memory);
  void finish(const Shape& shape, const Piece& piece, const SoftmaxState& total);

  const KernelTable& kernels_;
  Workers& workers_;
  std::vector<int64_t> sequences_;  // of the step; those that may share a prefix first, in order
  size_t num_decoding_ = 0;         // how many those are
  std::vector<Piece> pieces_;
  std::vector<Work> work_;
  std::vector<SpanOfPiece> spans_;
  std::vector<CutPiece> cut_pieces_;
  Scratch thread_memory_;
  Scratch partials_;
  int64_t partial_capacity_bytes_ = 0;
};

}  // namespace hasten::cpu
