// SPDX-License-Identifier: Apache-2.0
// What one instruction set offers: a table of functions over plain pointers, each the work of one
// thread. Included by files compiled for newer machines than the rest, so nothing here has code
// that the linker could share: no standard library, no functions but static constexpr ones.
#pragma once

#include <stdint.h>

#include "backends/cpu/packed_format.h"

namespace hasten::cpu {

/// Where an integer dot product starts, so that its bits are those of a float: with |n| < 2^22 the
/// bits kFloatBits + n are the number kFloatBase + n, which spares a conversion, and with k added
/// to the exponent they are 2^k times that, which spares a multiplication. A block's dot product is
/// below 2^21 (32 columns of 8 by 7 bits).
inline constexpr int32_t kFloatBits = 0x4b400000;
inline constexpr float kFloatBase = 12582912.0F;  // 1.5 * 2^23
/// Keys of an attention tile; tiles are aligned to absolute positions.
inline constexpr int kTileKeys = 64;

enum class FloatKind : uint8_t { f32, f16, bf16 };

/// Where lines are brought that are read soon.
enum class CacheLevel : uint8_t { first, second };
inline constexpr int kNumCacheLevels = 2;

/// How few rows read their weights, as is fastest on this processor. Not of all formats: with
/// `one`, those of f32 are several streams, and with `in_order`, those with floats for scales are
/// asked for.
enum class WeightStreams : uint8_t {
  several,   // at a time, asked for ahead
  one,       // asked for ahead
  in_order,  // one, asked for by nobody: a core that meets lines in the order in which they lie
             // fetches ahead by itself. Long rows with integer scales are divided for it, and a few
             // rows more of activations read those in order, too, but ask besides. Where the table
             // has it (reads_in_order).
};

/// How keys or values lie in the cache: as codes, and from q8_0 on scales (CpuKvCache).
enum class KvKind : uint8_t { f32, f16, bf16, bf16_pairs, f8_e4m3, q8_0, q8_0_pairs, q4_0 };
inline constexpr int64_t kKvScaleElements = 32;  // that share a scale
inline constexpr int64_t kKvScaleBytes = 2;      // binary16
static constexpr bool has_scales(KvKind kind) { return kind >= KvKind::q8_0; }
/// Bytes of the codes of some elements, an even number for q4_0.
static constexpr int64_t kv_code_bytes(KvKind kind, int64_t elements) {
  return kind == KvKind::f32          ? elements * 4
         : kind <= KvKind::bf16_pairs ? elements * 2
         : kind <= KvKind::q8_0_pairs ? elements
                                      : elements / 2;
}
/// Bytes from a row of key codes to the next: of one element of the head, of q4_0 and of pairs of
/// two.
static constexpr int64_t kv_key_row_bytes(KvKind kind, int64_t num_keys) {
  return kind == KvKind::q4_0         ? num_keys
         : kind == KvKind::bf16_pairs ? 4 * num_keys
         : kind == KvKind::q8_0_pairs ? 2 * num_keys
                                      : kv_code_bytes(kind, num_keys);
}

/// Blocks of kBlockColumns columns that a kernel unpacks at a time for many rows; of each format
/// whole units. Their codes are 8 to 16 KiB of the first-level cache.
inline constexpr int64_t kPanelBlocks = 16;
/// Likewise of short panels, of formats whose units are no longer.
inline constexpr int64_t kShortPanelBlocks = 8;
static_assert(kPanelBlocks % kShortPanelBlocks == 0);  // all in one stretch of activations
// Sums of two pairs never go from a panel or strip into the next.
static_assert(kShortPanelBlocks % kScaleBlocks == 0 && kStripBlocks % kScaleBlocks == 0);

/// A part is so many powers of two below the largest one with its scale at most, or as good as
/// zero.
inline constexpr int32_t kMostSpanShift = 60;
/// Likewise, of weights with integer scales, whose dot products are rounded by as many bits: that
/// is ten times what it costs that still smaller blocks have no finer steps. A dot product that
/// fits in an int16 (PackedStrip::kNarrow) does so with half of its last kept bit added, too.
inline constexpr int32_t kMostPairShift = 8;

/// Activation rows as int8, in tiles: the rows that a kernel multiplies together. All tiles come
/// kPanelBlocks blocks at a time, tile after tile, so that a panel of weights meets all rows in one
/// stream of memory; a single tile's blocks follow each other. A tile of h rows is, for each span
/// of span_blocks() or what is left,
///   for each block of kBlockColumns columns
///     values [h][kBlockColumns]: int8, or, of KernelTable::wide_value_bytes = 2 and for weights
///     with levels of all eight bits, int16, of four columns the even ones, then the odd ones;
///     for each part of it (activation_columns()), of 2^k times the span's scale,
///       bases [h], floats 2^k * kFloatBase;
///       starts [h], int32, the bits of that less zero_point * sum of the values, or, of weights
///       with offsets, sums [h], floats 2^k * sum;
///   factors [h], floats: the span's scale over the next one's, or, of the last span, the scale.
/// Sums of products are in units of a span's scale, and are multiplied with its factor behind it.
///
/// For weights with integer scales there are whole spans, which are two blocks, and two spans in
/// turn, from the first on, have one scale. A tile has instead, for each span,
///   of the first block shifts [h], int32, and starts [h], int32: with n = k + wide_dot_bits(), the
///     dot product is shifted right by n, and it starts at half of 2^n less zero_point * sum;
///   of the second one likewise, but the shift is 16 - n to the left, and the start one less where
///     n is not 0, so that ties do not all go up;
///   scales [h], floats, of the spans, times 2^(wide_dot_bits() - kIntegerScaleBits);
///   sums [h][2 blocks], int16, of weights with offsets: 2^(kSumBits - k) * sum, to the nearest.
struct QuantizedRows {
  const uint8_t* tiles;
  int64_t num_rows;
  int64_t columns;
};

static constexpr int64_t activation_block_bytes(int64_t rows, int64_t parts, int64_t value_bytes) {
  return rows * (kBlockColumns * value_bytes + 8 * parts);
}

static constexpr int64_t activation_spans(int64_t num_blocks, int64_t span_blocks) {
  return (num_blocks + span_blocks - 1) / span_blocks;
}

/// Of a row's span: what lies behind its blocks.
static constexpr int64_t activation_span_bytes(ScaleKind kind) {
  return kind == ScaleKind::integers_and_offsets ? 8 : 4;
}
inline constexpr int64_t kMostActivationSpanBytes = 8;

/// Of a row of QuantizedRows.
static constexpr int64_t activation_blocks(int64_t columns, const PackedFormat& format) {
  const int64_t blocks = columns / kBlockColumns;
  return has_integer_scales(format) ? blocks + blocks % 2 : blocks;
}

/// Of QuantizedRows.
static constexpr int64_t activation_bytes(int64_t rows, int64_t num_blocks, int64_t parts,
                                          int64_t value_bytes, int64_t span_blocks,
                                          int64_t span_bytes) {
  return num_blocks * activation_block_bytes(rows, parts, value_bytes) +
         activation_spans(num_blocks, span_blocks) * rows * span_bytes;
}

/// Some rows of QuantizedRows that a kernel multiplies together.
struct ActivationTile {
  int64_t num_rows;    // of all tiles
  int64_t num_blocks;  // of each row
  int64_t span_blocks;
  int64_t span_bytes;  // of a row
  int64_t first_row;
  int64_t rows;

  /// Bytes before block `block`, the first of a span, where a row's block has `row_block_bytes`.
  constexpr int64_t at(int64_t block, int64_t row_block_bytes) const {
    return before(num_blocks, block, kPanelBlocks) * row_block_bytes +
           before(activation_spans(num_blocks, span_blocks), block / span_blocks,
                  kPanelBlocks / span_blocks) *
               span_bytes;
  }

 private:
  /// Blocks, or spans, of single rows before that with `index`, of which a row has `count`.
  constexpr int64_t before(int64_t count, int64_t index, int64_t per_panel) const {
    const int64_t in_panel = index % per_panel;
    const int64_t panel = index - in_panel;
    const int64_t left = count - panel;
    return num_rows * panel + first_row * (left < per_panel ? left : per_panel) + rows * in_panel;
  }
};

/// The division of rows into tiles. So few that a kernel keeps the sums of all of them in registers
/// are one tile; more are as few tiles as possible, and as even, the last of them one of the
/// longest.
struct RowTiles {
  int64_t num_rows;
  int64_t count;  // of tiles
  static constexpr RowTiles of(int64_t num_rows, int64_t direct_rows, int64_t tile_rows) {
    return {num_rows, num_rows <= direct_rows ? 1 : (num_rows + tile_rows - 1) / tile_rows};
  }
  constexpr int64_t first_row(int64_t tile) const { return tile * num_rows / count; }
};

/// So few rows wait for nothing but memory, and take their weights as the processor likes it
/// (WeightStreams); more rows, bound by arithmetic, take several groups at a time, where registers
/// last and rows are not divided.
inline constexpr int kOneStreamRows = 2;

/// Where products go: column j is row j of the task's first group, counted on through all of them.
struct ProductRows {
  float* data;        // [rows, stride]
  int64_t stride;     // floats from one row to the next
  int64_t columns;    // that are rows of the matrix; what a group has beyond is not written
  const float* bias;  // [columns], added; null: none
};

/// Groups of a packed matrix from one on: of floats one behind the other, else as StackLayout has
/// them.
struct GroupsFrom {
  const uint8_t* matrix = nullptr;
  int64_t matrix_groups = 0;  // of all of it
  bool divided = false;       // see StackLayout
  int64_t first = 0;
};

/// out[r, n] = row n of the groups · x[r] (+ bias), for the groups of one thread.
struct QuantMatmulTask {
  GroupsFrom groups;
  int64_t num_groups;
  // Of the same format and as long, that are multiplied next; fetched towards the end of many rows.
  // Without a matrix: none.
  GroupsFrom next_groups;
  QuantizedRows x;
  // Of the tiles of x (RowTiles), those that are multiplied; of few rows, the only one.
  int64_t first_tile;
  int64_t end_tile;
  // Of up to kOneStreamRows rows; more take several. Groups that are divided are read in order.
  WeightStreams streams;
  bool keeps_low_nibbles;  // as KernelTable
  bool short_panels;       // of many rows: kShortPanelBlocks, if their units allow
  ProductRows out;
  int64_t first_out_row = 0;  // of x: its outputs are the first row of `out`
  uint8_t* scratch;           // kMatmulScratchBytes, 64-byte aligned, of this thread
};

/// As QuantMatmulTask, for weights of floats. Groups are [columns][16] elements; bf16 groups are
/// pairs of columns, [ceil(columns / 2)][16][2]. Activations are in tiles of RowTiles: one of h
/// rows is [columns][h].
struct FloatMatmulTask {
  const uint8_t* groups;
  int64_t group_bytes;
  int64_t num_groups;
  const float* tiles;
  int64_t num_rows;
  int64_t columns;
  int64_t pass_rows;  // that some columns of all groups are multiplied with before the next, about
  WeightStreams streams;  // as of QuantMatmulTask
  ProductRows out;
  uint8_t* scratch;
};
/// Columns that many rows are multiplied with before the next; even. Few enough for the activations
/// of pass_rows to stay in the second-level cache, so many that a sum is loaded and stored once for
/// hundreds of products.
inline constexpr int64_t kFloatBlockColumns = 512;

/// As FloatMatmulTask, for bf16 weights and activations that are rounded to bf16, in tiles of
/// RowTiles: a tile of h rows is, for each pair of columns, [h][2], or, for tile registers, for
/// each 32 columns, [h][32], with zeros beyond the last one.
struct Bf16MatmulTask {
  const uint8_t* groups;
  int64_t group_bytes;
  int64_t num_groups;
  const uint8_t* next_groups;  // as of QuantMatmulTask; null: none
  const uint8_t* tiles;
  int64_t num_rows;
  int64_t columns;
  int64_t pass_rows;      // that a group is multiplied with before the next, about; not on tile
                          // registers, whose passes are kBlockRows
  WeightStreams streams;  // likewise
  ProductRows out;
  uint8_t* scratch;  // likewise
};

/// Of an activation row in such tiles, of either kind.
static constexpr int64_t bf16_row_bytes(int64_t columns) { return (columns + 31) / 32 * 64; }

/// Writes a tile of rows as FloatMatmulTask or Bf16MatmulTask has it.
struct RowTileTask {
  const float* x;  // [num_rows, columns]
  int64_t num_rows;
  int64_t columns;
  uint8_t* tile;
};

/// Rows of a step that share one pass over an unpacked weight panel, at most: their sums stay in
/// L2. They themselves need not: even a core of Zen 5 needs but 4 bytes of them a cycle.
inline constexpr int64_t kPassRows = 512;
/// Of one thread: an unpacked panel and the sums of a pass, both at their largest; or, of bf16 on
/// tile registers, sums alone.
inline constexpr int64_t kMatmulScratchBytes = 256 * 1024;

/// Writes one tile of QuantizedRows.
struct QuantizeTileTask {
  const float* x;   // [tile.rows, columns]
  int64_t columns;  // a multiple of kBlockColumns
  PackedFormat format;
  int64_t value_bytes;  // see QuantizedRows
  uint8_t* tiles;
  ActivationTile tile;  // of quant_tile_rows, or quant_direct_rows, at most
};

/// Writes the two spans of some tiles of QuantizedRows that have one scale, of weights with integer
/// scales: 128 columns that are outputs of eight groups.
struct QuantizeSpansTask {
  const float* groups[8];  // [rows of the tiles, stride], 16 columns each
  int64_t stride;          // floats from one row to the next
  int64_t block;           // the first one
  int64_t num_blocks;      // of a row
  PackedFormat format;
  int64_t value_bytes;  // see QuantizedRows
  uint8_t* tiles;
  RowTiles split;  // of all rows
  int64_t first_tile;
  int64_t end_tile;
};

/// Makes a group (PackedFormat), or a strip of one, of 16 rows as a model file has them.
struct PackTask {
  const uint8_t* rows;  // 16, one behind the other
  int64_t row_bytes;    // from one to the next
  int64_t columns;      // of each: whole blocks of the file, or floats of whole 16 bytes
  const uint8_t* next;  // what is asked for meanwhile, as many bytes; need not be there
  uint8_t* out;         // of quantised weights the first unit
  CacheLevel asks_into = CacheLevel::first;  // for `next`
  bool past_caches = false;  // store what is not read again past them; out is a multiple of 64
};

/// Makes integer scales of those of a group, and offsets likewise, which are binary16 in each unit,
/// [blocks, or super-blocks][scale, then offset if any][16 rows].
struct IntegerScalesTask {
  uint8_t* matrix;
  StackLayout layout;  // of it
  int64_t group;
  PackedFormat format;
};

struct RmsNormRowTask {
  float* x;            // [dim]; written only with delta
  const float* delta;  // [dim] or null: x += delta first
  const float* weight;
  float epsilon;
  float* out;
  int64_t dim;
};

enum class GateKind : uint8_t { silu, gelu_tanh };

/// out = activation(gate) * up.
struct GateTask {
  GateKind kind;
  const float* gate;  // [rows, stride]
  const float* up;    // likewise
  int64_t stride;
  int64_t rows;
  int64_t columns;
  float* out;  // [rows, out_stride]; may be gate or up
  int64_t out_stride;
};

/// As ops::RowScan.
struct RowScanResult {
  int64_t likeliest;
  float most;
  int64_t num_not_finite;
};

/// Rotates the heads of one token.
struct RopeTokenTask {
  float* x;          // [num_heads, head_dim]
  const float* cos;  // [half]
  const float* sin;  // [half]
  int64_t num_heads;
  int64_t head_dim;
  int64_t half;  // rotary_dim / 2
  bool interleaved;
};

/// Some tokens of one block of the KV cache, one KV head.
struct KvRunTask {
  const uint8_t* keys;  // of the block, its scales behind them
  const uint8_t* values;
  KvKind key_kind;
  KvKind value_kind;
  int64_t head_dim;
  int64_t block_size;
  int64_t first;       // token inside the block
  int64_t count;       // tokens
  float* tile_keys;    // as in AttendTileTask, written from key `at` on
  float* tile_values;  // likewise
  int64_t padded_dim;  // head_dim rounded up to 16; the padding is written as zero
  int64_t at;
};

/// data[first + i * stride] = x[i], rounded to nearest; what is too large for f16 saturates.
struct KvStoreTask {
  const float* x;
  int64_t count;
  KvKind kind;  // f32, f16 or bf16
  void* data;
  int64_t first;   // elements
  int64_t stride;  // elements
};

/// Keys and values of one head, of tokens that follow each other in a block, which begins at `keys`
/// and `values`. They lie as CpuKvCache says, rounded to nearest even, what is subnormal as zero;
/// nothing but the elements of these tokens is written.
struct KvStorePairsTask {
  const float* k;  // of each token, [head_dim], a multiple of 16
  const float* v;
  int64_t token_stride;  // floats from one token to the next
  int64_t count;         // of tokens
  int64_t head_dim;
  int64_t block_size;  // a multiple of 16
  int64_t first;       // where in the block the first token lies
  uint8_t* keys;
  uint8_t* values;
};

/// Online softmax state of some query rows: sums of exp(score - max) and of that times the values.
struct SoftmaxState {
  float* max;   // [rows]: the largest score, or what is less by kMaxSlack at most
  float* sums;  // [rows, kSumLanes], which together are the sum
  float* out;   // [rows, padded_dim]
};
inline constexpr int64_t kSumLanes = 16;
/// e^8 is nothing to a float, and a maximum that stays spares what was summed its rescaling
/// (Zadouri et al., FlashAttention-4, 2026).
inline constexpr float kMaxSlack = 8;

/// Query rows that attend to one tile of keys.
struct TileQueries {
  const float* q;     // [rows, head_dim]; see PairKernels::round_query
  float score_scale;  // positive; of products of q that is not scaled already
  int64_t rows;
  int64_t head_dim;
  int64_t padded_dim;
  const int32_t* begin;  // [rows]: first key of the tile that the row sees
  const int32_t* end;    // [rows]: one past the last; the row sees nothing if end <= begin
  float soft_cap;        // 0: none
  float* scores;         // [rows, kTileKeys] scratch
  SoftmaxState state;
};

/// A tile of keys brought to what is multiplied: for many rows.
struct AttendTileTask {
  TileQueries queries;
  const float* tile_keys;    // [head_dim][kTileKeys]
  const float* tile_values;  // [kTileKeys][padded_dim]
};

/// A tile of keys where they lie in the cache.
struct CachedTile {
  // Of 16 keys each: the codes of element d at keys[i] + d * key_stride (of q4_0: row
  // d / 32 * 16 + d % 16, in the high nibbles where d % 32 >= 16; of pairs: row d / 2), the scales
  // of elements 32 j and following at key_scales[i] + j * scale_stride.
  const uint8_t* keys[kTileKeys / 16];
  const uint8_t* key_scales[kTileKeys / 16];
  // Likewise [16][head_dim], of pairs [8][head_dim][2], and [16][head_dim / 32], of pairs as those
  // of keys.
  const uint8_t* values[kTileKeys / 16];
  const uint8_t* value_scales[kTileKeys / 16];
  int32_t begin;
  int32_t end;
};

inline constexpr int64_t kPairScratchRows = 16;

/// Without loading the tile first: for few rows, and for any number of pairs. head_dim is a
/// multiple of 16.
struct AttendCachedTask {
  TileQueries queries;
  KvKind key_kind;
  KvKind value_kind;
  int64_t key_stride;      // bytes
  int64_t scale_stride;    // bytes
  const CachedTile* tile;  // what lies outside [begin, end) is read as keys, to no effect
  const CachedTile* next;  // fetched meanwhile; null: none
  float* scratch;          // [kPairScratchRows, head_dim]; of pairs of q8_0
};

/// total = total and part together, for `rows` rows.
struct MergeTask {
  SoftmaxState total;
  SoftmaxState part;
  int64_t rows;
  int64_t padded_dim;
};

/// out = the values' sums over those of the weights, of some rows.
struct FinishSoftmaxTask {
  const float* sums;    // as SoftmaxState
  const float* values;  // [rows, padded_dim]
  int64_t rows;
  int64_t head_dim;
  int64_t padded_dim;
  float* out;  // [rows, head_dim]
};

/// How a tile is attended to.
struct AttentionKernels {
  void (*kv_load)(const KvRunTask&);
  void (*attend_tile)(const AttendTileTask&);
  void (*attend_cached)(const AttendCachedTask&);
};

/// How pairs of one kind are kept and attended to; null where there are none.
struct PairKernels {
  bool exist() const { return attend[0] != nullptr && attend[1] != nullptr; }

  void (*store)(const KvStorePairsTask&) = nullptr;  // null of q8_0, too: kept code by code
  // Of any number of rows; by the level that lines are asked into.
  void (*attend[kNumCacheLevels])(const AttendCachedTask&) = {};
  // Makes of a query of `count` elements what `attend` takes; `to` may be q.
  void (*round_query)(const float* q, int64_t count, float* to) = nullptr;
};

struct KernelTable {
  const char* name;
  void (*quant_matmul[kNumPackedKinds])(const QuantMatmulTask&) = {};
  int64_t quant_direct_rows;  // of RowTiles in what quant_matmul takes
  int64_t quant_tile_rows;
  int64_t quant_tile_groups;  // that many rows are multiplied with at a time
  bool reads_in_order;        // WeightStreams::in_order, and rows that are divided
  int64_t wide_value_bytes;   // of QuantizedRows
  void (*float_matmul[3])(const FloatMatmulTask&);  // by FloatKind
  void (*interleave_rows)(const RowTileTask&);
  int64_t float_tile_rows;  // of RowTiles in what float_matmul takes
  // Null: float_matmul is for weights of bf16, too.
  void (*bf16_matmul)(const Bf16MatmulTask&) = nullptr;
  void (*round_bf16_tile)(const RowTileTask&) = nullptr;
  int64_t bf16_tile_rows = 0;  // of RowTiles in what bf16_matmul takes
  void (*pack_quantized[kNumPackedKinds])(const PackTask&);
  void (*pack_floats[3])(const PackTask&);  // by FloatKind
  // Returns how many rows have mostly blocks, or super-blocks, that ask for less than the row's
  // largest / kMostScaleRatio (with super_scales, half of that), but not for nothing.
  int32_t (*make_integer_scales)(const IntegerScalesTask&);
  // Whoever sees what this thread stores later sees what it stored past the caches before.
  void (*order_stores)();
  void (*quantize_tile)(const QuantizeTileTask&);
  void (*quantize_spans)(const QuantizeSpansTask&);
  void (*rms_norm_row)(const RmsNormRowTask&);
  void (*add)(float* x, const float* delta, int64_t count);
  void (*gate)(const GateTask&);
  void (*soft_cap)(float* x, int64_t count, float cap);
  void (*exp)(const float* x, float* out, int64_t count);
  RowScanResult (*scan_row)(const float* x, int64_t count);
  void (*rope_token)(const RopeTokenTask&);
  void (*kv_store)(const KvStoreTask&);
  AttentionKernels attention;
  PairKernels bf16_pairs = {};
  PairKernels q8_0_pairs = {};
  // What suits this processor, of kernels that ask for lines into either.
  CacheLevel asks_into = CacheLevel::first;
  // Likewise, whether many rows take codes that are lower nibbles out of the packed weights for
  // each tile: one instruction for eight dot products, which costs nothing where ports do it
  // that do not multiply. Else once, for all rows. The same numbers.
  bool keeps_low_nibbles = true;
  // Likewise, up to how many rows share short panels, which stay in the first-level cache from the
  // stores that make them to their last tile. More rows pay less for panels that do not stay, and
  // behind each panel's last products there is work that no others overlap.
  int64_t short_panel_rows = 0;
  void (*merge_softmax)(const MergeTask&);
  void (*finish_softmax)(const FinishSoftmaxTask&);
  // For measuring what the machine can do; each returns the operations it did (something of the
  // bytes for read_bytes), so that nothing is optimised away.
  int64_t (*read_bytes)(const uint8_t* data, int64_t num_bytes, bool one_stream);
  int64_t (*peak_int8)(int64_t rounds);
  int64_t (*peak_int4)(int64_t rounds) = nullptr;  // null: as peak_int8
  int64_t (*peak_f32)(int64_t rounds);
};

}  // namespace hasten::cpu
