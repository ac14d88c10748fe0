// SPDX-License-Identifier: Apache-2.0
// Quantises, rounds or interleaves activations once for all products of a group, then deals groups
// of rows to threads.
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::cpu {
namespace {

// Groups of 16 rows are dealt in multiples of this: the largest register tile.
constexpr int64_t kTileGroups = 4;
static_assert(kTileGroups % kStackGroups == 0);
// Likewise, of bf16, where many rows of activations leave fewer groups in the register tiles.
constexpr int64_t kManyRowsBf16Groups = 2;
// Rows of a pass of products of floats, at least, but for those on tile registers: weights come
// from memory once in each pass.
constexpr int64_t kLeastPassRows = 192;
// Where the second-level cache is not known.
constexpr int64_t kUsualL2Bytes = 1 << 20;
// Of that cache, what is left to the outputs of gate and up.
constexpr int64_t kGatedL2Share = 4;
// Rows beyond which register tiles have fewer groups.
constexpr int64_t kFewRows = 16;
// Parts of a block that have activation scales of their own.
constexpr int64_t kMostParts = 2;
constexpr int64_t kLeastSpanBlocks = 2;

/// Rows of so many bytes that stay in half the second-level cache while all groups of a piece pass,
/// or kLeastPassRows.
int64_t pass_rows(int64_t row_bytes, int64_t l2_bytes) {
  const int64_t bytes = (l2_bytes > 0 ? l2_bytes : kUsualL2Bytes) / 2;
  return std::clamp(bytes / row_bytes, kLeastPassRows, kPassRows);
}

}  // namespace

Matmul::Matmul(const KernelTable& kernels, Workers& workers, WeightStreams streams)
    : kernels_(kernels), workers_(workers), streams_(streams), weights_(kernels, workers) {
  HASTEN_CHECK(streams != WeightStreams::in_order || kernels.reads_in_order);
  thread_scratch_.reserve(kMatmulScratchBytes * workers.num_threads());
  const int64_t l2_bytes = workers.l2_bytes() > 0 ? workers.l2_bytes() : kUsualL2Bytes;
  gated_floats_ = l2_bytes / kGatedL2Share / static_cast<int64_t>(2 * sizeof(float));
}

std::unique_ptr<CpuWeight> Matmul::prepare(const Tensor& source, bool repack) {
  const WeightLayout layout = weight_layout(source, streams_);
  interleaves_ |= !layout.packed && !rounds_activations(layout);
  rounds_gated_ |= layout.packed && has_integer_scales(format_of(*layout.packed));
  Arena::Piece packed = repack ? weights_.add(layout, source) : nullptr;
  if (packed == nullptr) {
    largest_tile_bytes_ = std::max(largest_tile_bytes_, kTileGroups * layout.group_bytes);
    unpacked_groups_.reserve(largest_tile_bytes_ * workers_.num_threads());
  }
  return std::make_unique<CpuWeight>(source, layout, std::move(packed));
}

void Matmul::reserve(const ops::StepLimits& limits) {
  const int64_t rows = limits.max_tokens;
  const int64_t columns = round_up(limits.max_features, kBlockColumns);
  // Scoring a prompt asks for the logits of more rows than there are sequences.
  gathered_.reserve(rows * columns * 4);
  const auto most_bytes = [&](int64_t parts) {
    return activation_bytes(rows, columns / kBlockColumns + 1, parts, kernels_.wide_value_bytes,
                            kLeastSpanBlocks, kMostActivationSpanBytes);
  };
  quantized_.reserve(most_bytes(kMostParts));
  if (rounds_gated_) quantized_gated_.reserve(most_bytes(1));
  normed_.reserve(normed_floats(columns) * 4);
  gated_.reserve(std::max(2 * gated_floats_, round_gated_floats(rows)) * 4 *
                 workers_.num_threads());
  if (interleaves_) interleaved_.reserve(rows * columns * 4);
  if (kernels_.bf16_matmul != nullptr) rounded_.reserve(rows * bf16_row_bytes(columns));
}

Matmul::Rows Matmul::gather(const ops::MatmulParams& params, const ops::AddRmsNormParams* norm) {
  const int64_t columns = params.weight.in_features();
  HASTEN_CHECK(params.x.shape().rank() == 2 && params.x.dim(1) == columns);
  if (norm != nullptr) {
    check_norm(*norm);
    HASTEN_CHECK(norm->out.data() == params.x.data() && norm->out.shape() == params.x.shape() &&
                 params.rows.empty());
  }
  if (params.rows.empty())
    return {.x = norm == nullptr ? params.x.f32() : nullptr,
            .count = params.x.dim(0),
            .columns = columns,
            .norm = norm};
  const auto count = static_cast<int64_t>(params.rows.size());
  auto* x = gathered_.get_array<float>(count * columns);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = params.rows[static_cast<size_t>(i)];
    HASTEN_CHECK(row >= 0 && row < params.x.dim(0));
    std::memcpy(x + i * columns, params.x.f32() + row * columns,
                static_cast<size_t>(columns) * sizeof(float));
  }
  return {.x = x, .count = count, .columns = columns};
}

/// Some rows, normalised first if that is left to do.
const float* Matmul::rows_of_tile(const Rows& rows, int64_t first, int64_t count, int32_t thread) {
  if (rows.norm == nullptr) return rows.x + first * rows.columns;
  HASTEN_CHECK(count <= kernels_.quant_tile_rows);
  float* tile = normed_.get_array<float>(0) + thread * kernels_.quant_tile_rows * rows.columns;
  for (int64_t r = 0; r < count; ++r) {
    kernels_.rms_norm_row(norm_row_task(*rows.norm, first + r, tile + r * rows.columns));
  }
  return tile;
}

/// Of normed_.
int64_t Matmul::normed_floats(int64_t columns) const {
  return workers_.num_threads() * kernels_.quant_tile_rows * columns;
}

/// Of QuantizedRows.
int64_t Matmul::tile_bytes(int64_t rows, int64_t columns, const PackedFormat& format) const {
  return activation_bytes(rows, activation_blocks(columns, format), format.scales_per_block,
                          value_bytes(kernels_, format), span_blocks(format),
                          activation_span_bytes(scale_kind(format)));
}

void Matmul::quantize(Rows& rows, const PackedFormat& format) {
  const int64_t num_blocks = activation_blocks(rows.columns, format);
  uint8_t* tiles = quantized_.get(tile_bytes(rows.count, rows.columns, format));
  rows.quantized = tiles;
  // Grows before the threads share it.
  if (rows.norm != nullptr) normed_.get_array<float>(normed_floats(rows.columns));
  const auto split = quantized_tiles(rows.count);
  workers_.for_each(split.count, 2, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = split.first_row(t);
      const int64_t count = split.first_row(t + 1) - first;
      kernels_.quantize_tile({.x = rows_of_tile(rows, first, count, thread),
                              .columns = rows.columns,
                              .format = format,
                              .value_bytes = value_bytes(kernels_, format),
                              .tiles = tiles,
                              .tile = {.num_rows = rows.count,
                                       .num_blocks = num_blocks,
                                       .span_blocks = span_blocks(format),
                                       .span_bytes = activation_span_bytes(scale_kind(format)),
                                       .first_row = first,
                                       .rows = count}});
    }
  });
}

/// All rows in tiles, written to `to`.
uint8_t* Matmul::make_tiles(const Rows& rows, const RowTileKind& kind, Scratch& to) {
  uint8_t* tiles = to.get(rows.count * kind.row_bytes);
  const auto split = RowTiles::of(rows.count, kind.tile_rows, kind.tile_rows);
  workers_.for_each(split.count, 2, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = split.first_row(t);
      kind.write({.x = rows.x + first * rows.columns,
                  .num_rows = split.first_row(t + 1) - first,
                  .columns = rows.columns,
                  .tile = tiles + first * kind.row_bytes});
    }
  });
  return tiles;
}

void Matmul::round_to_bf16(const Rows& rows) {
  make_tiles(rows,
             {.write = kernels_.round_bf16_tile,
              .tile_rows = kernels_.bf16_tile_rows,
              .row_bytes = bf16_row_bytes(rows.columns)},
             rounded_);
}

/// What FloatMatmulTask takes; a single row is a tile already.
const float* Matmul::interleave(const Rows& rows) {
  if (rows.count == 1) return rows.x;
  return reinterpret_cast<const float*>(make_tiles(rows,
                                                   {.write = kernels_.interleave_rows,
                                                    .tile_rows = kernels_.float_tile_rows,
                                                    .row_bytes = rows.columns * 4},
                                                   interleaved_));
}

/// Whether products with a weight take activations that are rounded to bf16.
bool Matmul::rounds_activations(const WeightLayout& layout) const {
  return !layout.packed && layout.floats == FloatKind::bf16 && kernels_.bf16_matmul != nullptr;
}

void Matmul::check_shapes(const ops::MatmulParams& params, const Rows& rows) {
  const int64_t out_features = params.weight.out_features();
  HASTEN_CHECK(params.out.dim(0) == rows.count && params.out.dim(1) == out_features);
  HASTEN_CHECK(!params.bias.defined() || params.bias.num_elements() == out_features);
}

/// On one thread.
void Matmul::multiply_groups(const Piece& piece, const Rows& rows, int32_t thread) {
  const CpuWeight& weight = piece.weight;
  if (weight.is_packed()) {
    return multiply_packed(piece, rows, weight.groups_from(piece.first), thread);
  }
  uint8_t* groups = unpacked_groups_.get(0) + thread * largest_tile_bytes_;
  const int64_t tile_count = tile_groups(weight.layout(), rows.count);
  HASTEN_CHECK(tile_count <= kTileGroups);
  for (int64_t done = 0; done < piece.count; done += tile_count) {
    const Piece tile{.weight = weight,
                     .first = piece.first + done,
                     .count = std::min(tile_count, piece.count - done),
                     .next = {},
                     .out = from_group(piece.out, done),
                     .first_out_row = piece.first_out_row};
    const Tensor& source = weight.source();
    const int64_t row = tile.first * kGroupRows;
    const Tensor tile_rows =
        source.slice(row, std::min(tile.count * kGroupRows, source.dim(0) - row));
    const WeightLayout layout = weight_layout(tile_rows, streams_);
    for (int64_t g = 0; g < tile.count; ++g) pack_group(kernels_, layout, tile_rows, g, groups);
    multiply_packed(tile, rows,
                    {.matrix = groups, .matrix_groups = tile.count, .divided = layout.divided},
                    thread);
  }
}

/// A piece that is packed there.
void Matmul::multiply_packed(const Piece& piece, const Rows& rows, const GroupsFrom& groups,
                             int32_t thread) {
  const WeightLayout& layout = piece.weight.layout();
  const auto floats_from = [&](const GroupsFrom& from) {
    return from.matrix == nullptr ? nullptr : from.matrix + from.first * layout.group_bytes;
  };
  uint8_t* scratch = thread_scratch_.get(0) + thread * kMatmulScratchBytes;
  if (rounds_activations(layout)) {
    kernels_.bf16_matmul({.groups = floats_from(groups),
                          .group_bytes = layout.group_bytes,
                          .num_groups = piece.count,
                          .next_groups = floats_from(piece.next),
                          .tiles = rounded_.get(0),
                          .num_rows = rows.count,
                          .columns = rows.columns,
                          .pass_rows = pass_rows(bf16_row_bytes(rows.columns), workers_.l2_bytes()),
                          .streams = streams_,
                          .out = piece.out,
                          .scratch = scratch});
    return;
  }
  if (!layout.packed) {
    kernels_.float_matmul[static_cast<int>(layout.floats)](
        {.groups = floats_from(groups),
         .group_bytes = layout.group_bytes,
         .num_groups = piece.count,
         .tiles = rows.tiles,
         .num_rows = rows.count,
         .columns = rows.columns,
         .pass_rows = pass_rows(kFloatBlockColumns * 4, workers_.l2_bytes()),
         .streams = streams_,
         .out = piece.out,
         .scratch = scratch});
    return;
  }
  const auto tiles = quantized_tiles(rows.count);
  kernels_.quant_matmul[static_cast<int>(*layout.packed)](
      {.groups = groups,
       .num_groups = piece.count,
       .next_groups = piece.next,
       .x = {.tiles = rows.quantized, .num_rows = rows.count, .columns = rows.columns},
       .first_tile = rows.part.first_of(tiles.count),
       .end_tile = rows.part.end_of(tiles.count),
       .streams = streams_,
       .keeps_low_nibbles = kernels_.keeps_low_nibbles,
       .short_panels = rows.count <= kernels_.short_panel_rows,
       .out = piece.out,
       .first_out_row = piece.first_out_row,
       .scratch = scratch});
}

/// Makes of the rows what products with such weights take.
void Matmul::prepare_rows(const WeightLayout& layout, Rows& rows) {
  HASTEN_CHECK(rows.x != nullptr || (rows.norm != nullptr && layout.packed));
  if (layout.packed) {
    quantize(rows, format_of(*layout.packed));
    rows.norm = nullptr;  // done; it must not be twice
    return;
  }
  if (rounds_activations(layout)) return round_to_bf16(rows);
  rows.tiles = interleave(rows);
}

/// The tiles of rows of quantised activations.
RowTiles Matmul::quantized_tiles(int64_t num_rows) const {
  return RowTiles::of(num_rows, kernels_.quant_direct_rows, kernels_.quant_tile_rows);
}

/// Groups of a register tile: those that are dealt are a multiple of this.
int64_t Matmul::tile_groups(const WeightLayout& layout, int64_t num_rows) const {
  if (layout.packed) {
    return num_rows <= kernels_.quant_direct_rows ? kTileGroups : kernels_.quant_tile_groups;
  }
  if (num_rows <= kFewRows) return kTileGroups;
  return rounds_activations(layout) ? kManyRowsBf16Groups : kTileGroups;
}

/// The register tiles of groups of several weights, counted through all of them.
struct Matmul::Tiles {
  std::span<const ops::MatmulParams> products;
  int64_t groups;  // of a tile

  int64_t count() const {
    int64_t sum = 0;
    for (const ops::MatmulParams& params : products) sum += count_of(params);
    return sum;
  }
  int64_t count_of(const ops::MatmulParams& params) const {
    return ceil_div(cpu_weight(params).layout().num_groups, groups);
  }
  /// The packed groups from a tile on, if it is there and they are of that format; or none.
  GroupsFrom packed(int64_t tile, const WeightLayout& layout) const {
    for (const ops::MatmulParams& params : products) {
      const int64_t tiles = count_of(params);
      if (tile < tiles) {
        const CpuWeight& weight = cpu_weight(params);
        const bool known = weight.is_packed() && have_same_format(weight.layout(), layout);
        return known ? weight.groups_from(tile * groups) : GroupsFrom{};
      }
      tile -= tiles;
    }
    return {};
  }
};

/// The tiles [begin, end), on one thread, which goes on with tile `next` if there is one.
void Matmul::multiply_tiles(const Tiles& tiles, const Rows& rows, int64_t begin, int64_t end,
                            int64_t next, int32_t thread) {
  int64_t first = 0;  // tile of this weight
  for (const ops::MatmulParams& params : tiles.products) {
    const CpuWeight& weight = cpu_weight(params);
    const int64_t behind = first + tiles.count_of(params);
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(end, behind);
    if (from < to) {
      const int64_t group = (from - first) * tiles.groups;
      const int64_t end_group = std::min((to - first) * tiles.groups, weight.layout().num_groups);
      multiply_groups({.weight = weight,
                       .first = group,
                       .count = end_group - group,
                       .next = tiles.packed(to < end ? to : next, weight.layout()),
                       .out = from_group(product_rows(params), group)},
                      rows, thread);
    }
    first = behind;
  }
}

/// Products of weights that take the activations as they lie there; one dealing of work, since each
/// costs a wait for the slower thread. With many rows a thread has weights fetched while it
/// multiplies those before them, in its next piece too: only the first of a range come late. A
/// register tile of many rows takes long, which is why the last ones are dealt by rows.
void Matmul::multiply(std::span<const ops::MatmulParams> group, const Rows& rows) {
  Tiles tiles{.products = group, .groups = 1};
  bool quantized = true;
  for (const ops::MatmulParams& params : group) {
    check_shapes(params, rows);
    const WeightLayout& layout = cpu_weight(params).layout();
    tiles.groups = std::max(tiles.groups, tile_groups(layout, rows.count));
    quantized &= layout.packed.has_value();
  }
  deal_pieces(workers_, tiles.count(), quantized ? quantized_tiles(rows.count).count : 0,
              [&](int64_t begin, int64_t end, int64_t next, RowPart part, int32_t thread) {
                Rows some = rows;
                some.part = part;
                multiply_tiles(tiles, some, begin, end, next, thread);
              });
}

bool Matmul::can_norm(std::span<const ops::MatmulParams> group) const {
  if (group.empty()) return false;
  const ops::MatmulParams& first = group.front();
  const auto kind = cpu_weight(first).layout().packed;
  const int64_t num_rows = first.x.dim(0);
  if (!kind || !first.rows.empty() || num_rows <= kernels_.quant_direct_rows ||
      quantized_tiles(num_rows).count < workers_.num_threads()) {
    return false;
  }
  return std::ranges::all_of(group, [&](const ops::MatmulParams& params) {
    const auto other = cpu_weight(params).layout().packed;
    return other && take_same_activations(format_of(*kind), format_of(*other));
  });
}

void Matmul::run(std::span<const ops::MatmulParams> group, const ops::AddRmsNormParams* norm) {
  if (group.empty()) return;
  weights_.pack_added();
  Rows rows = gather(group.front(), norm);
  if (rows.count == 0) return;
  const PackedFormat* quantized = nullptr;  // what the activations are ready for
  bool rounded = false;                     // they are for weights of bf16
  size_t begin = 0;                         // of what waits to be multiplied
  for (size_t i = 0; i < group.size(); ++i) {
    const ops::MatmulParams& params = group[i];
    HASTEN_CHECK(params.x.data() == group.front().x.data() &&
                 params.rows.data() == group.front().rows.data() &&
                 params.weight.in_features() == rows.columns);
    const WeightLayout& layout = cpu_weight(params).layout();
    const auto kind = layout.packed;
    if (!kind) {
      const bool ready =
          rounds_activations(layout) ? std::exchange(rounded, true) : rows.tiles != nullptr;
      if (!ready) prepare_rows(layout, rows);
      continue;
    }
    const PackedFormat& format = format_of(*kind);
    if (quantized == nullptr || !take_same_activations(*quantized, format)) {
      if (quantized != nullptr) {
        multiply(group.subspan(begin, i - begin), rows);
        begin = i;
      }
      prepare_rows(layout, rows);
    }
    quantized = &format;
  }
  multiply(group.subspan(begin), rows);
}

}  // namespace hasten::cpu
