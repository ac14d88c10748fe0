// SPDX-License-Identifier: Apache-2.0
// Deals (sequence, queries, KV head), and of those that are much of a step spans of keys, to
// threads.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "ops/kv_row.h"

namespace hasten::cpu {
namespace {

// Query rows (tokens times heads of a group) that share one pass over the keys: with their outputs
// they fit in L2 beside a tile.
constexpr int64_t kMaxQueryRows = 64;
// A thread's share of a step is cut into so many parts at least, so that threads end together.
constexpr int64_t kPartsPerThread = 4;
// From so many rows of partial results on, threads share the merging, too, at the cost of one more
// wait for each other.
constexpr int64_t kMinSharedRows = 512;
// Up to so many rows, a tile is read where it lies; more share one that is brought to floats, but
// for pairs.
constexpr int64_t kCachedRows = 12;
// Partial results of spans; where they need more, one thread does all spans of a piece.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

/// A softmax state has its parts in order: output, sums, max. Vectors begin where lines do.
int64_t state_floats(int64_t rows, int64_t padded_dim) {
  return rows * (padded_dim + kSumLanes) + round_up(rows, 16);
}

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

/// Lists the sequences of the step. Those of one token come first, so that such as begin with the
/// same blocks are neighbours.
void Attention::list_sequences(const Shape& shape) {
  const ops::PagedBatch& batch = shape.params.batch;
  sequences_.resize(static_cast<size_t>(batch.num_sequences()));
  std::iota(sequences_.begin(), sequences_.end(), 0);
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

/// Whether the queries of all pieces see all keys of the tile at `tile`, whose keys end at `end`.
/// Several pieces share a span only where all of them see all keys that the first one does.
bool Attention::sees_whole_tile(const Shape& shape, std::span<const Piece> pieces, int64_t tile,
                                int64_t end) {
  if (end < tile + kTileKeys) return false;
  const Piece& piece = pieces.front();
  const int64_t first = shape.position(piece, piece.first_token);
  const int64_t last = first + piece.num_tokens - 1;
  return first + 1 >= tile + kTileKeys && shape.first_visible(last) <= tile;
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
  const auto attend_cached = pairs ? shape.pairs->attend : kernels_.attention.attend_cached;
  CachedTile tiles[2];
  if (cached) find_tile(shape, keys, tiles[0]);
  int current = 0;
  bool all_seen = false;  // as memory says since the tile before
  for (int64_t begin = keys.begin; begin < keys.end;) {
    const int64_t tile = begin / kTileKeys * kTileKeys;
    const int64_t end = std::min(tile + kTileKeys, keys.end);
    const bool whole = sees_whole_tile(shape, pieces, tile, end);
    if (!whole || !all_seen) see_tile(shape, pieces, tile, end, memory);
    all_seen = whole;
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
    if (cached) {
      const KeySpan rest =
          end < keys.end ? KeySpan{.piece = &piece, .begin = end, .end = keys.end} : after;
      if (!rest.is_empty()) find_tile(shape, rest, tiles[1 - current]);
      attend_cached({.queries = queries,
                     .key_kind = shape.cache.key_kind(),
                     .value_kind = shape.cache.value_kind(),
                     .key_stride = kv_key_row_bytes(shape.cache.key_kind(), block_size),
                     .scale_stride = block_size * kKvScaleBytes,
                     .tile = &tiles[current],
                     .next = rest.is_empty() ? nullptr : &tiles[1 - current],
                     .scratch = memory.tile_keys});
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
  clear(memory.total, std::ssize(pieces) * rows, shape.padded_dim);
  const auto first_span = [&](const Piece& piece) {
    return std::max(work.shared_end, shape.first_key(piece) / kSpanKeys);
  };
  attend_spans(shape, pieces, 0, work.shared_end,
               shape.keys(pieces.front(), first_span(pieces.front())), memory);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ThreadMemory own = memory.from_row(shape, static_cast<int64_t>(i) * rows);
    const Piece* next = i + 1 < pieces.size() ? &pieces[i + 1] : nullptr;
    attend_spans(shape, std::span(&pieces[i], 1), first_span(pieces[i]),
                 ceil_div(shape.end_key(pieces[i]), kSpanKeys),
                 next != nullptr ? shape.keys(*next, first_span(*next)) : after, own);
    finish(shape, pieces[i], own.total);
  }
}

/// Adds what spans [begin, end) bring to the totals of the pieces' queries.
void Attention::attend_spans(const Shape& shape, std::span<const Piece> pieces, int64_t begin,
                             int64_t end, KeySpan after, const ThreadMemory& memory) {
  for (int64_t span = begin; span < end; ++span) {
    attend_span(shape, pieces, span, span + 1 < end ? shape.keys(pieces.front(), span + 1) : after,
                memory, memory.part);
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
