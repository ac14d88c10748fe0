// SPDX-License-Identifier: Apache-2.0
// Gated feed-forward blocks: products of gate and up whose outputs meet while they are in the
// cache, and are rounded there for the product with down.
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "backends/cpu/matmul.h"
#include "base/checked.h"
#include "base/error.h"

namespace hasten::cpu {
namespace {

// Of columns that share an activation scale.
constexpr int64_t kScaleGroups = std::extent_v<decltype(QuantizeSpansTask::groups)>;
static_assert(kScaleGroups * kGroupRows == kScaleBlocks * kBlockColumns);
// Rows whose outputs are worth rounding at once, at least: those of fewer stay in the cache anyway.
constexpr int64_t kLeastRows = 64;
// Pieces of gate and up for each thread that make it worth dealing whole ones, at least.
constexpr int64_t kLeastPieces = 2;

}  // namespace

bool Matmul::can_gate(const ops::GatedMatmulParams& params) const {
  const WeightLayout& gate = cpu_weight(params.gate).layout();
  const WeightLayout& up = cpu_weight(params.up).layout();
  const int64_t num_rows =
      params.gate.rows.empty() ? params.gate.x.dim(0) : std::ssize(params.gate.rows);
  if (gated_groups(gate, num_rows) == 0) return false;
  if (gate.packed && up.packed) {
    return take_same_activations(format_of(*gate.packed), format_of(*up.packed));
  }
  if (gate.packed || up.packed || rounds_activations(gate) != rounds_activations(up)) return false;
  // Many rows of interleaved floats stay in the cache while all groups of a piece pass, which has
  // to be long for that.
  return rounds_activations(gate) || num_rows <= kernels_.float_tile_rows;
}

/// Groups of gate and up whose outputs meet at a time, whole tiles: as many as have room in the
/// cache, since each change from one weight to the other waits for memory. 0: not one tile has.
int64_t Matmul::gated_groups(const WeightLayout& layout, int64_t num_rows) const {
  const int64_t tile = tile_groups(layout, num_rows);
  const int64_t tile_floats = std::max<int64_t>(1, num_rows) * tile * kGroupRows;
  return std::min(gated_floats_ / tile_floats, ceil_div(layout.num_groups, tile)) * tile;
}

void Matmul::check_gated(const ops::GatedMatmulParams& params, const Rows& rows) {
  HASTEN_CHECK(params.up.x.data() == params.gate.x.data() &&
               params.up.weight.in_features() == rows.columns &&
               params.up.rows.data() == params.gate.rows.data() &&
               params.out.shape() == params.gate.out.shape() &&
               params.out.shape() == params.up.out.shape());
  check_shapes(params.gate, rows);
  check_shapes(params.up, rows);
}

/// On one thread.
void Matmul::multiply_both(const ops::GatedMatmulParams& params, const Rows& rows,
                           const GatedTiles& tiles, int32_t thread) {
  const CpuWeight& gate = cpu_weight(params.gate);
  const CpuWeight& up = cpu_weight(params.up);
  const bool alike =
      gate.is_packed() && up.is_packed() && have_same_format(gate.layout(), up.layout());
  const auto multiply_one = [&](const ops::MatmulParams& product, float* outputs,
                                const GroupsFrom& next) {
    ProductRows out = from_group(product_rows(product), tiles.first);
    out.data = outputs;
    out.stride = tiles.stride;
    multiply_groups({.weight = cpu_weight(product),
                     .first = tiles.first,
                     .count = tiles.count,
                     .next = next,
                     .out = out,
                     .first_out_row = tiles.first_out_row},
                    rows, thread);
  };
  const bool goes_on = alike && tiles.next < gate.layout().num_groups;
  multiply_one(params.gate, tiles.gate, alike ? up.groups_from(tiles.first) : GroupsFrom{});
  multiply_one(params.up, tiles.up, goes_on ? gate.groups_from(tiles.next) : GroupsFrom{});
}

void Matmul::run_gated(const ops::GatedMatmulParams& params, const ops::AddRmsNormParams* norm) {
  const CpuWeight& gate = cpu_weight(params.gate);
  weights_.pack_added();
  Rows rows = gather(params.gate, norm);
  if (rows.count == 0) return;
  check_gated(params, rows);
  prepare_rows(gate.layout(), rows);

  const int64_t out_features = gate.out_features();
  const int64_t most = gated_groups(gate.layout(), rows.count);
  HASTEN_CHECK(most > 0);                                       // or can_gate() was not asked
  const int64_t tile = tile_groups(gate.layout(), rows.count);  // and that of up, which is alike
  float* scratch = gated_.get_array<float>(2 * gated_floats_ * workers_.num_threads());
  workers_.for_each_in_ranges(
      gate.layout().num_groups, tile,
      [&](int64_t begin, int64_t end, int64_t next, int32_t thread) {
        for (int64_t first = begin; first < end; first += most) {
          const int64_t count = std::min(most, end - first);
          const int64_t stride = count * kGroupRows;
          float* const gate_out = scratch + 2 * thread * gated_floats_;
          float* const up_out = gate_out + gated_floats_;
          multiply_both(params, rows,
                        {.first = first,
                         .count = count,
                         .next = first + count < end ? first + count : next,
                         .gate = gate_out,
                         .up = up_out,
                         .stride = stride},
                        thread);
          kernels_.gate({.kind = gate_kind(params.activation),
                         .gate = gate_out,
                         .up = up_out,
                         .stride = stride,
                         .rows = rows.count,
                         .columns = std::min(stride, out_features - first * kGroupRows),
                         .out = params.out.f32() + first * kGroupRows,
                         .out_stride = out_features});
        }
      });
}

bool Matmul::can_run_mlp(const ops::GatedMatmulParams& gated, const ops::MatmulParams& down) const {
  const CpuWeight& gate = cpu_weight(gated.gate);
  const auto kind = cpu_weight(down).layout().packed;
  // What is left in the file would be packed again for each pass over the rows.
  return kind && has_integer_scales(format_of(*kind)) && down.rows.empty() &&
         down.x.dim(0) >= kLeastRows && gate.is_packed() && cpu_weight(gated.up).is_packed() &&
         gate.out_features() % (kScaleGroups * kGroupRows) == 0 &&
         gate.layout().num_groups / piece_groups() >= kLeastPieces * workers_.num_threads();
}

/// Groups that are whole register tiles, and whose columns have whole scales.
int64_t Matmul::piece_groups() const { return std::lcm(kernels_.quant_tile_groups, kScaleGroups); }

/// Register tiles of groups that hold those of a scale.
int64_t Matmul::scale_tiles() const {
  return ceil_div(kScaleGroups - 1, kernels_.quant_tile_groups) + 1;
}

/// Of one thread: outputs of gate's tiles that hold a scale's, and of one of up's, of some rows or
/// as many as are multiplied at a time.
int64_t Matmul::round_gated_floats(int64_t rows) const {
  return (scale_tiles() + 1) * std::min(rows, kPassRows) * kernels_.quant_tile_groups * kGroupRows;
}

void Matmul::run_mlp(const ops::AddRmsNormParams& norm, const ops::GatedMatmulParams& gated,
                     const ops::MatmulParams& down) {
  HASTEN_CHECK(can_run_mlp(gated, down));
  weights_.pack_added();
  Rows rows = gather(gated.gate, &norm);
  if (rows.count == 0) return;
  check_gated(gated, rows);
  HASTEN_CHECK(down.x.data() == gated.out.data() && down.x.shape() == gated.out.shape() &&
               down.weight.in_features() == gated.out.shape().back());
  prepare_rows(cpu_weight(gated.gate).layout(), rows);
  const Rows rounded = round_gated(gated, rows, format_of(*cpu_weight(down).layout().packed));
  multiply({&down, 1}, rounded);
}

/// What products with weights of that format take of the gated outputs.
Matmul::Rows Matmul::round_gated(const ops::GatedMatmulParams& params, const Rows& rows,
                                 const PackedFormat& format) {
  const int64_t columns = params.out.shape().back();
  const int64_t num_groups = columns / kGroupRows;
  uint8_t* tiles = quantized_gated_.get(tile_bytes(rows.count, columns, format));
  const int64_t floats = round_gated_floats(rows.count);
  auto* scratch = gated_.get_array<float>(floats * workers_.num_threads());
  const int64_t groups = piece_groups();
  const RowTiles split = quantized_tiles(rows.count);
  const int64_t most_tiles = kPassRows / kernels_.quant_tile_rows;  // of rows, in a pass
  deal_pieces(workers_, ceil_div(num_groups, groups), split.count,
              [&](int64_t begin, int64_t end, int64_t next, RowPart part, int32_t thread) {
                const int64_t part_tiles = part.end_of(split.count) - part.first_of(split.count);
                const int64_t passes = ceil_div(part_tiles, most_tiles);
                for (int64_t pass = 0; pass < passes; ++pass) {
                  Rows some = rows;
                  some.part = part.of(pass, passes);
                  const GatedPiece piece{.first = begin * groups,
                                         .end = std::min(end * groups, num_groups),
                                         .next = (pass + 1 < passes ? begin : next) * groups,
                                         .format = format,
                                         .tiles = tiles,
                                         .scratch = scratch + thread * floats};
                  round_gated_piece(params, some, piece, thread);
                }
              });
  return {.quantized = tiles, .count = rows.count, .columns = columns};
}

/// On one thread, a register tile of both weights after the other. What has one scale is rounded as
/// soon as its last tile is there, while it is in the second-level cache.
void Matmul::round_gated_piece(const ops::GatedMatmulParams& params, const Rows& rows,
                               const GatedPiece& piece, int32_t thread) {
  const RowTiles split = quantized_tiles(rows.count);
  const int64_t first_tile = rows.part.first_of(split.count);
  const int64_t end_tile = rows.part.end_of(split.count);
  const int64_t first_row = split.first_row(first_tile);
  const int64_t tile = kernels_.quant_tile_groups;
  const int64_t stride = tile * kGroupRows;
  const int64_t floats = (split.first_row(end_tile) - first_row) * stride;
  float* const up_outputs = piece.scratch + scale_tiles() * floats;
  const auto outputs_of = [&](int64_t group) {  // of its tile
    return piece.scratch + group / tile % scale_tiles() * floats;
  };
  for (int64_t at = piece.first; at < piece.end; at += tile) {
    const int64_t behind = std::min(at + tile, piece.end);
    float* const outputs = outputs_of(at);
    multiply_both(params, rows,
                  {.first = at,
                   .count = behind - at,
                   .next = behind < piece.end ? behind : piece.next,
                   .gate = outputs,
                   .up = up_outputs,
                   .stride = stride,
                   .first_out_row = first_row},
                  thread);
    kernels_.gate({.kind = gate_kind(params.activation),
                   .gate = outputs,
                   .up = up_outputs,
                   .stride = 0,
                   .rows = 1,
                   .columns = floats,
                   .out = outputs,
                   .out_stride = 0});
    for (int64_t scale = at / kScaleGroups; scale < behind / kScaleGroups; ++scale) {
      QuantizeSpansTask task{
          .groups = {},
          .stride = stride,
          .block = scale * kScaleBlocks,
          .num_blocks = activation_blocks(params.out.shape().back(), piece.format),
          .format = piece.format,
          .value_bytes = value_bytes(kernels_, piece.format),
          .tiles = piece.tiles,
          .split = split,
          .first_tile = first_tile,
          .end_tile = end_tile};
      for (int64_t i = 0; i < kScaleGroups; ++i) {
        const int64_t group = scale * kScaleGroups + i;
        task.groups[i] = outputs_of(group) + group % tile * kGroupRows;
      }
      kernels_.quantize_spans(task);
    }
  }
}

}  // namespace hasten::cpu
