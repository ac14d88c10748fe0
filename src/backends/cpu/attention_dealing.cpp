// SPDX-License-Identifier: Apache-2.0
// Deals (sequence, queries, KV head), and of those that are much of a step spans of keys, to
// threads.
#include <algorithm>

#include "backends/cpu/attention_shape.h"

namespace hasten::cpu {

/// Lists the sequences of the step. Those of one token come first, so that such as begin with the
/// same blocks are neighbours.
void Attention::list_sequences(const Shape& shape) {
  const ops::PagedBatch& batch = shape.params.batch;
  sequences_.clear();
  for (int64_t s = 0; s < batch.num_sequences(); ++s) {
    const auto at = static_cast<size_t>(s);
    if (batch.query_start[at] < batch.query_start[at + 1]) sequences_.push_back(s);
  }
  const auto may_share = [&](int64_t s) {
    const auto at = static_cast<size_t>(s);
    return shape.params.window == 0 && batch.query_start[at + 1] - batch.query_start[at] == 1 &&
           batch.context_len[at] > kSpanKeys;
  };
  const auto others = std::partition(sequences_.begin(), sequences_.end(), may_share);
  num_decoding_ = static_cast<size_t>(others - sequences_.begin());
  std::ranges::sort(std::span(sequences_).first(num_decoding_), [&](int64_t a, int64_t b) {
    return std::ranges::lexicographical_compare(shape.block_table(a), shape.block_table(b));
  });
}

/// How many sequences from the listed one on share whole spans; there are more than one only if the
/// work then still is enough for all threads.
int64_t Attention::num_sharing(const Shape& shape, size_t first, int64_t& num_spans) const {
  const int64_t num_pieces = std::ssize(sequences_) * shape.cache.spec().num_kv_heads;
  const int64_t most =
      std::min(kMaxQueryRows / shape.group, num_pieces / (4 * int64_t{workers_.num_threads()}));
  const auto table = shape.block_table(sequences_[first]);
  int64_t count = 1;
  num_spans = 0;
  for (size_t i = first + 1; i < num_decoding_ && count < most; ++i, ++count) {
    const auto other = shape.block_table(sequences_[i]);
    const int64_t equal = std::ranges::mismatch(table, other).in1 - table.begin();
    const int64_t tokens =
        std::min(equal * shape.cache.spec().block_size,
                 int64_t{shape.params.batch.context_len[static_cast<size_t>(sequences_[i])]});
    const int64_t spans = tokens / kSpanKeys;
    // One that shares little is better off with others, or the rest loses what it has in common.
    if (spans == 0 || 2 * spans < num_spans) break;
    num_spans = num_spans == 0 ? spans : std::min(num_spans, spans);
  }
  if (count == 1) num_spans = 0;
  return count;
}

void Attention::list_pieces(const Shape& shape) {
  pieces_.clear();
  work_.clear();
  list_sequences(shape);
  for (size_t i = 0; i < sequences_.size();) {
    int64_t shared_end = 0;
    const int64_t count = i < num_decoding_ ? num_sharing(shape, i, shared_end) : 1;
    const auto sharing = std::span(sequences_).subspan(i, static_cast<size_t>(count));
    i += sharing.size();
    if (count == 1) {
      list_pieces(shape, sharing.front());
      continue;
    }
    for (int64_t h = 0; h < shape.cache.spec().num_kv_heads; ++h) {
      work_.push_back(
          {.first_piece = std::ssize(pieces_), .num_pieces = count, .shared_end = shared_end});
      for (const int64_t s : sharing)
        pieces_.push_back({.sequence = s,
                           .first_token = shape.params.batch.query_start[static_cast<size_t>(s)],
                           .num_tokens = 1,
                           .kv_head = h});
    }
  }
}

/// Lists the pieces of a sequence that shares with nobody.
void Attention::list_pieces(const Shape& shape, int64_t sequence) {
  const auto& starts = shape.params.batch.query_start;
  const int64_t begin = starts[static_cast<size_t>(sequence)];
  // One head after the other: its keys stay in the caches. The last queries see the most keys: long
  // pieces first, so that threads end together.
  for (int64_t h = 0; h < shape.cache.spec().num_kv_heads; ++h) {
    for (int64_t end = starts[static_cast<size_t>(sequence) + 1]; end > begin;) {
      const int64_t count = std::min(end - begin, shape.tokens_per_piece);
      end -= count;
      work_.push_back({.first_piece = std::ssize(pieces_)});
      pieces_.push_back(
          {.sequence = sequence, .first_token = end, .num_tokens = count, .kv_head = h});
    }
  }
}

/// Has the spans of pieces that one thread would be at for long, while others have nothing left to
/// do, dealt to all of them.
void Attention::cut_large_pieces(const Shape& shape) {
  spans_.clear();
  cut_pieces_.clear();
  if (workers_.num_threads() == 1) return;
  const auto cost = [&](const Work& work) {
    const Piece& piece = pieces_[static_cast<size_t>(work.first_piece)];
    return work.num_pieces * shape.num_rows(piece) *
           (shape.end_key(piece) - shape.first_key(piece));
  };
  int64_t total = 0;
  for (const Work& work : work_) total += cost(work);
  int64_t num_floats = 0;
  std::erase_if(work_, [&](const Work& work) {
    return work.num_pieces == 1 && cost(work) * kPartsPerThread * workers_.num_threads() > total &&
           list_spans(shape, work.first_piece, num_floats);
  });
}

/// Lists the spans of a piece. False, and nothing is listed, when there is only one, or no room for
/// what they bring; `num_floats` of that is taken.
bool Attention::list_spans(const Shape& shape, int64_t piece_index, int64_t& num_floats) {
  const Piece& piece = pieces_[static_cast<size_t>(piece_index)];
  const int64_t begin = shape.first_key(piece) / kSpanKeys;
  const int64_t end = ceil_div(shape.end_key(piece), kSpanKeys);
  const int64_t floats = state_floats(shape.num_rows(piece), shape.padded_dim);
  if (end - begin == 1 || (num_floats + (end - begin) * floats) * 4 > partial_capacity_bytes_)
    return false;
  cut_pieces_.push_back(
      {.first_span = spans_.size(), .num_spans = static_cast<size_t>(end - begin)});
  for (int64_t span = begin; span < end; ++span) {
    spans_.push_back({.piece = piece_index, .span = span, .partial = num_floats});
    num_floats += floats;
  }
  return true;
}

}  // namespace hasten::cpu
