// SPDX-License-Identifier: Apache-2.0
// Attends to pieces of queries, span after span and tile after tile, on all threads.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/attention_shape.h"
#include "base/checked.h"
#include "base/error.h"
#include "ops/kv_row.h"

namespace hasten::cpu {
namespace {

// From so many rows of partial results on, threads share the merging, too, at the cost of one more
// wait for each other.
constexpr int64_t kMinSharedRows = 512;
// Up to so many rows, a tile is read where it lies; more share one that is brought to floats, but
// for pairs.
constexpr int64_t kCachedRows = 12;
// Partial results of spans; where they need more, one thread does all spans of a piece.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

SoftmaxState state_at(float* memory, int64_t rows, int64_t padded_dim) {
  float* sums = memory + rows * padded_dim;
  return {.max = sums + rows * kSumLanes, .sums = sums, .out = memory};
}

void clear(const SoftmaxState& state, int64_t rows, int64_t padded_dim) {
  std::fill_n(state.max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sums, rows * kSumLanes, 0.0F);
  std::fill_n(state.out, rows * padded_dim, 0.0F);
}

}  // namespace

/// Scratch of one thread.
struct Attention::ThreadMemory {
  float* q;            // [rows, head_dim]
  float* scores;       // [rows, kTileKeys]
  float* tile_keys;    // [head_dim, kTileKeys]
  float* tile_values;  // [kTileKeys, padded_dim]
  SoftmaxState part;
  SoftmaxState total;
  int32_t* begin;  // [rows]
  int32_t* end;    // [rows]

  /// The same where the queries from `row` on are the first.
  ThreadMemory from_row(const Shape& shape, int64_t row) const {
    ThreadMemory memory = *this;
    memory.q += row * shape.head_dim;
    memory.total.max += row;
    memory.total.sums += row * kSumLanes;
    memory.total.out += row * shape.padded_dim;
    return memory;
  }

  static int64_t num_floats(int64_t rows, int64_t padded_dim) {
    return rows * padded_dim + rows * kTileKeys + 2 * kTileKeys * padded_dim +
           2 * state_floats(rows, padded_dim) + 2 * round_up(rows, 16);
  }
};

Attention::ThreadMemory Attention::thread_memory(const Shape& shape, int32_t thread) {
  const int64_t rows = shape.max_rows;
  const int64_t dim = shape.padded_dim;
  float* at = thread_memory_.get_array<float>(0) + thread * ThreadMemory::num_floats(rows, dim);
  const auto take = [&](int64_t count) { return std::exchange(at, at + count); };
  ThreadMemory memory{};
  memory.q = take(rows * dim);
  memory.scores = take(rows * kTileKeys);
  memory.tile_keys = take(kTileKeys * dim);
  memory.tile_values = take(kTileKeys * dim);
  memory.part = state_at(take(state_floats(rows, dim)), rows, dim);
  memory.total = state_at(take(state_floats(rows, dim)), rows, dim);
  memory.begin = reinterpret_cast<int32_t*>(take(round_up(rows, 16)));
  memory.end = reinterpret_cast<int32_t*>(take(round_up(rows, 16)));
  return memory;
}

SoftmaxState Attention::partial_state(const Shape& shape, const SpanOfPiece& span) {
  const Piece& piece = pieces_[static_cast<size_t>(span.piece)];
  return state_at(partials_.get_array<float>(0) + span.partial, shape.num_rows(piece),
                  shape.padded_dim);
}

void Attention::reserve(const ops::StepLimits& limits) {
  const int64_t dim = round_up(limits.max_head_dim, kGroupRows);
  const int64_t rows = std::max(kMaxQueryRows, limits.max_heads);
  const int64_t threads = workers_.num_threads();
  thread_memory_.reserve(threads * ThreadMemory::num_floats(rows, dim) * 4);
  pieces_.reserve(static_cast<size_t>((limits.max_tokens + limits.max_sequences) *
                                      std::max<int64_t>(1, limits.max_heads)));
  work_.reserve(pieces_.capacity());
  sequences_.reserve(static_cast<size_t>(limits.max_sequences));
  // No more pieces than that are each worth more than such a part.
  const int64_t num_parts = kPartsPerThread * threads;
  const int64_t num_partials = num_parts * (ceil_div(limits.max_context, kSpanKeys) + 1);
  partial_capacity_bytes_ = std::min(kMaxPartialBytes, num_partials * state_floats(rows, dim) * 4);
  partials_.reserve(partial_capacity_bytes_);
  spans_.reserve(static_cast<size_t>(num_partials));
  cut_pieces_.reserve(static_cast<size_t>(num_parts));
}

/// Copies the piece's queries: scaled and rotated if the keys are, or as pairs, rounded.
void Attention::start(const Shape& shape, const Piece& piece, const ThreadMemory& memory) {
  const bool rotated = ops::is_rotated(shape.cache.spec().types.keys);
  float* to = memory.q;
  for (int64_t t = piece.first_token; t < piece.first_token + piece.num_tokens; ++t) {
    const float* from =
        shape.params.q.f32() + (t * shape.num_heads + piece.kv_head * shape.group) * shape.head_dim;
    for (int64_t h = 0; h < shape.group; ++h, from += shape.head_dim, to += shape.head_dim) {
      if (shape.pairs != nullptr && !rotated) {
        shape.pairs->round_query(from, shape.head_dim, to);
        continue;
      }
      for (int64_t i = 0; i < shape.head_dim; ++i) to[i] = from[i] * shape.q_scale;
      if (rotated) ops::rotate(to, shape.head_dim);
      if (shape.pairs != nullptr) shape.pairs->round_query(to, shape.head_dim, to);
    }
  }
}

/// Brings keys and values at positions [begin, end) of one tile to memory; the rest of the tile is
/// zero, so that what nobody sees is finite.
void Attention::load_tile(const Shape& shape, const Piece& piece, int64_t begin, int64_t end,
                          const ThreadMemory& memory) {
  HASTEN_CHECK(shape.pairs == nullptr);
  const ops::PagedBatch& batch = shape.params.batch;
  const int64_t block_size = shape.cache.spec().block_size;
  const int64_t tile_begin = begin / kTileKeys * kTileKeys;
  if (end - begin < kTileKeys) {
    std::fill_n(memory.tile_keys, shape.head_dim * kTileKeys, 0.0F);
    std::fill_n(memory.tile_values, kTileKeys * shape.padded_dim, 0.0F);
  }
  const int32_t* table = batch.block_tables.data() + piece.sequence * batch.block_table_stride;
  for (int64_t position = begin; position < end;) {
    const int64_t first = position % block_size;
    const int64_t count = std::min(block_size - first, end - position);
    const int64_t block = table[position / block_size];
    HASTEN_CHECK(block >= 0 && block < shape.cache.spec().num_blocks);
    kernels_.attention.kv_load(
        {.keys = shape.cache.keys(shape.params.layer, block, piece.kv_head),
         .values = shape.cache.values(shape.params.layer, block, piece.kv_head),
         .key_kind = shape.cache.key_kind(),
         .value_kind = shape.cache.value_kind(),
         .head_dim = shape.head_dim,
         .block_size = block_size,
         .first = first,
         .count = count,
         .tile_keys = memory.tile_keys,
         .tile_values = memory.tile_values,
         .padded_dim = shape.padded_dim,
         .at = position - tile_begin});
    position += count;
  }
}

/// Where keys and values lie in the cache, as far as they are in the first tile.
void Attention::find_tile(const Shape& shape, const KeySpan& wanted, CachedTile& tile) {
  const Piece& piece = *wanted.piece;
  const ops::PagedBatch& batch = shape.params.batch;
  const int64_t block_size = shape.cache.spec().block_size;
  const int64_t head_dim = shape.head_dim;
  const KvKind key_kind = shape.cache.key_kind();
  const KvKind value_kind = shape.cache.value_kind();
  const int64_t value_bytes = kv_code_bytes(value_kind, head_dim);
  // From the scales of a key's value to those of the next's.
  const int64_t value_scale_bytes =
      (value_kind == KvKind::q8_0_pairs ? 1 : head_dim / kKvScaleElements) * kKvScaleBytes;
  const int64_t begin = wanted.begin;
  const int64_t tile_begin = begin / kTileKeys * kTileKeys;
  const int64_t end = std::min(tile_begin + kTileKeys, wanted.end);
  tile.begin = static_cast<int32_t>(begin - tile_begin);
  tile.end = static_cast<int32_t>(end - tile_begin);
  const int32_t* table = batch.block_tables.data() + piece.sequence * batch.block_table_stride;
  const auto place = [&](int64_t run, int64_t index, int64_t first) {
    const int64_t block = table[index];
    HASTEN_CHECK(block >= 0 && block < shape.cache.spec().num_blocks);
    const uint8_t* keys = shape.cache.keys(shape.params.layer, block, piece.kv_head);
    const uint8_t* values = shape.cache.values(shape.params.layer, block, piece.kv_head);
    tile.keys[run] = keys + kv_key_row_bytes(key_kind, first);
    tile.values[run] = values + first * value_bytes;
    if (has_scales(key_kind))
      tile.key_scales[run] =
          keys + kv_code_bytes(key_kind, block_size * head_dim) + first * kKvScaleBytes;
    if (has_scales(value_kind))
      tile.value_scales[run] = values + block_size * value_bytes + first * value_scale_bytes;
  };
  const int64_t first_run = begin / kGroupRows * kGroupRows;
  const int64_t first_index = first_run / block_size;
  const int64_t first_offset = first_run - first_index * block_size;
  int64_t index = first_index;
  int64_t offset = first_offset;
  for (int64_t run = 0; run < kTileKeys / kGroupRows; ++run) {
    const int64_t at = tile_begin + run * kGroupRows;
    // Runs that nobody sees stand where one lies that somebody does.
    if (at < first_run || at >= end) {
      place(run, first_index, first_offset);
      continue;
    }
    place(run, index, offset);
    offset += kGroupRows;
    if (offset < block_size) continue;
    offset = 0;
    ++index;
  }
}

/// Writes which keys of the tile at `tile`, whose keys end at `end`, each row sees: all of them if
/// there are several pieces.
void Attention::see_tile(const Shape& shape, std::span<const Piece> pieces, int64_t tile,
                         int64_t end, const ThreadMemory& memory) {
  const Piece& piece = pieces.front();
  const auto see = [&](int64_t row, int64_t count, int64_t position) {
    const auto in_tile = [&](int64_t key) {
      return static_cast<int32_t>(std::clamp<int64_t>(key - tile, 0, kTileKeys));
    };
    std::fill_n(memory.begin + row, count, in_tile(shape.first_visible(position)));
    std::fill_n(memory.end + row, count, in_tile(position + 1));
  };
  const int64_t rows = std::ssize(pieces) * shape.num_rows(piece);
  if (pieces.size() > 1) return see(0, rows, end - 1);
  const int64_t first = shape.position(piece, piece.first_token);
  for (int64_t t = 0; t < piece.num_tokens; ++t) see(t * shape.group, shape.group, first + t);
}

/// state = softmax of the pieces' queries over the keys of one span. All see all of it if there are
/// several pieces. With its last tile the first of `after` is fetched.
void Attention::attend_span(const Shape& shape, std::span<const Piece> pieces, int64_t span,
                            KeySpan after, const ThreadMemory& memory, const SoftmaxState& state) {
  const Piece& piece = pieces.front();
  const int64_t rows = std::ssize(pieces) * shape.num_rows(piece);
  clear(state, rows, shape.padded_dim);
  const KeySpan keys = shape.keys(piece, span);
  const int64_t block_size = shape.cache.spec().block_size;
  const bool pairs = shape.pairs != nullptr;
  const bool cached = pairs || (rows <= kCachedRows && shape.head_dim == shape.padded_dim &&
                                block_size % kGroupRows == 0);
  const auto attend_cached = pairs ? shape.pairs->attend[static_cast<int>(kernels_.asks_into)]
                                   : kernels_.attention.attend_cached;
  const TileQueries queries{.q = memory.q,
                            .score_scale = shape.params.scale / shape.q_scale,
                            .rows = rows,
                            .head_dim = shape.head_dim,
                            .padded_dim = shape.padded_dim,
                            .begin = memory.begin,
                            .end = memory.end,
                            .soft_cap = shape.params.soft_cap,
                            .scores = memory.scores,
                            .state = state};
  CachedTile tiles[2];
  AttendCachedTask task{.queries = queries,
                        .key_kind = shape.cache.key_kind(),
                        .value_kind = shape.cache.value_kind(),
                        .key_stride = kv_key_row_bytes(shape.cache.key_kind(), block_size),
                        .scale_stride = block_size * kKvScaleBytes,
                        .tile = nullptr,
                        .next = nullptr,
                        .scratch = memory.tile_keys};
  if (cached) find_tile(shape, keys, tiles[0]);
  int current = 0;
  // What all queries see: several pieces share a span only where all see all that the first does.
  const int64_t first_position = shape.position(piece, piece.first_token);
  const int64_t seen_begin = shape.first_visible(first_position + piece.num_tokens - 1);
  const int64_t seen_end = first_position + 1;
  bool all_seen = false;  // as memory says since the tile before
  for (int64_t begin = keys.begin; begin < keys.end;) {
    const int64_t tile = begin / kTileKeys * kTileKeys;
    const int64_t end = std::min(tile + kTileKeys, keys.end);
    const bool whole = end == tile + kTileKeys && seen_begin <= tile && end <= seen_end;
    if (!whole || !all_seen) see_tile(shape, pieces, tile, end, memory);
    all_seen = whole;
    if (cached) {
      const KeySpan rest =
          end < keys.end ? KeySpan{.piece = &piece, .begin = end, .end = keys.end} : after;
      if (!rest.is_empty()) find_tile(shape, rest, tiles[1 - current]);
      task.tile = &tiles[current];
      task.next = rest.is_empty() ? nullptr : &tiles[1 - current];
      attend_cached(task);
      current = 1 - current;
    } else {
      load_tile(shape, piece, begin, end, memory);
      kernels_.attention.attend_tile(
          {.queries = queries, .tile_keys = memory.tile_keys, .tile_values = memory.tile_values});
    }
    begin = end;
  }
}

/// Writes the piece's outputs, rotated back if the values are.
void Attention::finish(const Shape& shape, const Piece& piece, const SoftmaxState& total) {
  const bool rotated = ops::is_rotated(shape.cache.spec().types.values);
  for (int64_t t = 0; t < piece.num_tokens; ++t) {
    const int64_t head = (piece.first_token + t) * shape.num_heads + piece.kv_head * shape.group;
    float* out = shape.params.out.f32() + head * shape.head_dim;
    kernels_.finish_softmax({.sums = total.sums + t * shape.group * kSumLanes,
                             .values = total.out + t * shape.group * shape.padded_dim,
                             .rows = shape.group,
                             .head_dim = shape.head_dim,
                             .padded_dim = shape.padded_dim,
                             .out = out});
    if (!rotated) continue;
    for (int64_t h = 0; h < shape.group; ++h) ops::rotate(out + h * shape.head_dim, shape.head_dim);
  }
}

/// What is read first of the work at an index: of spans of cut pieces, or behind them of others.
/// Empty behind all work.
Attention::KeySpan Attention::first_keys(const Shape& shape, int64_t index) const {
  const auto num_spans = std::ssize(spans_);
  if (index < num_spans) {
    const SpanOfPiece& span = spans_[static_cast<size_t>(index)];
    return shape.keys(pieces_[static_cast<size_t>(span.piece)], span.span);
  }
  if (index >= num_spans + std::ssize(work_)) return {};
  const Work& work = work_[static_cast<size_t>(index - num_spans)];
  const Piece& piece = pieces_[static_cast<size_t>(work.first_piece)];
  return shape.keys(piece, shape.first_key(piece) / kSpanKeys);
}

void Attention::attend(const Shape& shape, const SpanOfPiece& span, KeySpan after,
                       const ThreadMemory& memory) {
  const Piece& piece = pieces_[static_cast<size_t>(span.piece)];
  start(shape, piece, memory);
  attend_span(shape, std::span(&piece, 1), span.span, after, memory, partial_state(shape, span));
}

/// Writes the outputs of a piece all of whose spans have been attended to.
void Attention::merge(const Shape& shape, const CutPiece& cut, const ThreadMemory& memory) {
  const auto spans = std::span(spans_).subspan(cut.first_span, cut.num_spans);
  const Piece& piece = pieces_[static_cast<size_t>(spans.front().piece)];
  clear(memory.total, shape.num_rows(piece), shape.padded_dim);
  for (const SpanOfPiece& span : spans) {
    kernels_.merge_softmax({.total = memory.total,
                            .part = partial_state(shape, span),
                            .rows = shape.num_rows(piece),
                            .padded_dim = shape.padded_dim});
  }
  finish(shape, piece, memory.total);
}

void Attention::attend(const Shape& shape, const Work& work, KeySpan after,
                       const ThreadMemory& memory) {
  const auto pieces = std::span(pieces_).subspan(static_cast<size_t>(work.first_piece),
                                                 static_cast<size_t>(work.num_pieces));
  const int64_t rows = shape.num_rows(pieces.front());
  for (size_t i = 0; i < pieces.size(); ++i)
    start(shape, pieces[i], memory.from_row(shape, static_cast<int64_t>(i) * rows));
  const auto first_span = [&](const Piece& piece) {
    return std::max(work.shared_end, shape.first_key(piece) / kSpanKeys);
  };
  const bool shared = work.shared_end > 0;
  if (shared)
    attend_spans(shape, pieces, 0, work.shared_end,
                 shape.keys(pieces.front(), first_span(pieces.front())), memory, Total::begins);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ThreadMemory own = memory.from_row(shape, static_cast<int64_t>(i) * rows);
    const Piece* next = i + 1 < pieces.size() ? &pieces[i + 1] : nullptr;
    attend_spans(shape, std::span(&pieces[i], 1), first_span(pieces[i]),
                 ceil_div(shape.end_key(pieces[i]), kSpanKeys),
                 next != nullptr ? shape.keys(*next, first_span(*next)) : after, own,
                 shared ? Total::goes_on : Total::begins);
    finish(shape, pieces[i], own.total);
  }
}

/// Adds what spans [begin, end) bring to the totals of the pieces' queries.
void Attention::attend_spans(const Shape& shape, std::span<const Piece> pieces, int64_t begin,
                             int64_t end, KeySpan after, const ThreadMemory& memory, Total total) {
  for (int64_t span = begin; span < end; ++span) {
    const KeySpan next = span + 1 < end ? shape.keys(pieces.front(), span + 1) : after;
    // The first is the total so far: to merge it with nothing would be a copy.
    if (total == Total::begins && span == begin) {
      attend_span(shape, pieces, span, next, memory, memory.total);
      continue;
    }
    attend_span(shape, pieces, span, next, memory, memory.part);
    kernels_.merge_softmax({.total = memory.total,
                            .part = memory.part,
                            .rows = std::ssize(pieces) * shape.num_rows(pieces.front()),
                            .padded_dim = shape.padded_dim});
  }
}

void Attention::run(const ops::AttentionParams& params) {
  const Shape shape(params, kernels_);
  const ops::KvCacheSpec& spec = shape.cache.spec();
  const ops::PagedBatch& batch = params.batch;
  HASTEN_CHECK(shape.head_dim == spec.head_dim && shape.num_heads % spec.num_kv_heads == 0);
  HASTEN_CHECK(params.layer >= 0 && params.layer < spec.num_layers && params.scale > 0);
  HASTEN_CHECK(params.out.shape() == params.q.shape() && params.q.dim(0) == batch.num_tokens());
  HASTEN_CHECK(static_cast<int64_t>(batch.query_start.size()) == batch.num_sequences() + 1);
  thread_memory_.get(workers_.num_threads() *
                     ThreadMemory::num_floats(shape.max_rows, shape.padded_dim) * 4);
  list_pieces(shape);

  cut_large_pieces(shape);

  const auto num_spans = static_cast<int64_t>(spans_.size());
  workers_.for_each(num_spans + std::ssize(work_), 1, [&](int64_t index, int64_t, int32_t thread) {
    const ThreadMemory memory = thread_memory(shape, thread);
    // Threads mostly take turns; otherwise something is fetched that another one reads.
    const KeySpan after = first_keys(shape, index + workers_.num_threads());
    if (index < num_spans)
      attend(shape, spans_[static_cast<size_t>(index)], after, memory);
    else
      attend(shape, work_[static_cast<size_t>(index - num_spans)], after, memory);
  });
  int64_t num_rows = 0;  // of partial results
  for (const SpanOfPiece& span : spans_)
    num_rows += shape.num_rows(pieces_[static_cast<size_t>(span.piece)]);
  const auto merge_piece = [&](int64_t index, int64_t, int32_t thread) {
    merge(shape, cut_pieces_[static_cast<size_t>(index)], thread_memory(shape, thread));
  };
  const int64_t num_cut = std::ssize(cut_pieces_);
  if (num_rows >= kMinSharedRows)
    workers_.for_each(num_cut, 1, merge_piece);
  else
    for (int64_t i = 0; i < num_cut; ++i) merge_piece(i, i + 1, 0);
}

}  // namespace hasten::cpu
