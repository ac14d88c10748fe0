// SPDX-License-Identifier: Apache-2.0
// Matrix products: what they take of activations, and how their work is split over threads.
#pragma once

#include <array>
#include <span>
#include <stop_token>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/products.h"
#include "backends/cpu/weight_store.h"
#include "backends/cpu/workers.h"
#include "base/error.h"
#include "ops/backend.h"

namespace hasten::cpu {

inline GateKind gate_kind(ops::Activation activation) {
  return activation == ops::Activation::silu ? GateKind::silu : GateKind::gelu_tanh;
}

/// Fails where the tensors of a norm do not fit together.
inline void check_norm(const ops::AddRmsNormParams& norm) {
  HASTEN_CHECK(norm.weight.num_elements() == norm.x.shape().back() &&
               norm.out.shape() == norm.x.shape() &&
               (!norm.delta.defined() || norm.delta.shape() == norm.x.shape()));
}

/// One row of a norm, written to `out`.
inline RmsNormRowTask norm_row_task(const ops::AddRmsNormParams& norm, int64_t row, float* out) {
  const int64_t dim = norm.x.shape().back();
  return {.x = norm.x.f32() + row * dim,
          .delta = norm.delta.defined() ? norm.delta.f32() + row * dim : nullptr,
          .weight = norm.weight.f32(),
          .epsilon = norm.epsilon,
          .out = out,
          .dim = dim};
}

/// Not thread-safe: it owns the scratch memory of one backend.
class Matmul {
 public:
  /// `streams`: of few rows, and such as the kernels have; the products are the same numbers either
  /// way.
  Matmul(const KernelTable& kernels, Workers& workers, WeightStreams streams);

  /// A weight that is packed together with others, before finish_weights() returns or a product
  /// begins, or left in the file: without `repack`, or when memory is short, which the log says
  /// once. The products are the same numbers either way.
  std::unique_ptr<CpuWeight> prepare(const Tensor& source, bool repack);
  void finish_weights() { weights_.finish(); }
  void bring_in_weights(std::span<const Tensor> sources, const std::stop_token& stop) {
    weights_.bring_in(sources, stop);
  }
  void reserve(const ops::StepLimits& limits);
  /// All that reserve() allocates, and what prepare() does for products.
  std::array<const Scratch*, 9> scratch() const {
    return {&gathered_, &normed_, &quantized_,      &quantized_gated_, &interleaved_,
            &rounded_,  &gated_,  &thread_scratch_, &unpacked_groups_};
  }

  /// Products of the same x and rows. With a norm, for which can_norm() must be asked: it makes x,
  /// a few rows at a time that are rounded while they are in the cache, and never go to memory.
  void run(std::span<const ops::MatmulParams> group, const ops::AddRmsNormParams* norm = nullptr);
  /// Whether these, of one x and all of its rows, are worth a norm of their own: all take the
  /// activations alike, quantised, and there are tiles of many rows, one for each thread at least.
  bool can_norm(std::span<const ops::MatmulParams> group) const;

  /// Whether run_gated() is for these: both weights take the activations alike, and so many rows
  /// leave room for a tile of outputs in the cache.
  bool can_gate(const ops::GatedMatmulParams& params) const;
  /// Some outputs of both at a time, which meet while they are in the cache: they never go to
  /// memory. The same numbers as run() and the activation give.
  void run_gated(const ops::GatedMatmulParams& params, const ops::AddRmsNormParams* norm = nullptr);

  /// Whether run_mlp() is for these, of which can_norm() holds: `down` takes activations
  /// whose scales a thread can make alone, and there are enough of them, of enough rows.
  bool can_run_mlp(const ops::GatedMatmulParams& gated, const ops::MatmulParams& down) const;
  /// run_gated() and then run() of `down`, with the same numbers; but what lies between them is
  /// rounded for `down` while it is in the cache, and not written as floats.
  void run_mlp(const ops::AddRmsNormParams& norm, const ops::GatedMatmulParams& gated,
               const ops::MatmulParams& down);

 private:
  struct Rows {
    const float* x = nullptr;            // [count, columns]; null: the norm makes it, or rounded
    const uint8_t* quantized = nullptr;  // the same as QuantizedRows has them, where it is needed
    const float* tiles = nullptr;        // likewise as FloatMatmulTask has them
    int64_t count = 0;
    int64_t columns = 0;
    const ops::AddRmsNormParams* norm = nullptr;  // what makes x, not yet done
    RowPart part = {};                            // for quantised weights alone
  };

  /// Some groups of a weight, for one thread.
  struct Piece {
    const CpuWeight& weight;
    int64_t first;
    int64_t count;
    GroupsFrom next;  // packed, of the same format and as long; without a matrix: nobody knows
    ProductRows out;
    int64_t first_out_row = 0;  // see QuantMatmulTask; of quantised weights alone
  };

  /// Some groups of gate and up, whole register tiles, and where their outputs go.
  struct GatedTiles {
    int64_t first;
    int64_t count;
    int64_t next;               // group that comes next
    float* gate;                // [rows, stride]
    float* up;                  // likewise
    int64_t stride;             // floats
    int64_t first_out_row = 0;  // see QuantMatmulTask
  };

  /// Some groups of gate and up, whole scales of their outputs, for one thread.
  struct GatedPiece {
    int64_t first;
    int64_t end;
    int64_t next;  // group that comes next
    PackedFormat format;
    uint8_t* tiles;  // of QuantizedRows
    float* scratch;  // round_gated_floats()
  };

  struct Tiles;

  /// How a kernel takes rows: in tiles of tile_rows at most.
  struct RowTileKind {
    void (*write)(const RowTileTask&);
    int64_t tile_rows;
    int64_t row_bytes;  // in a tile
  };

  Rows gather(const ops::MatmulParams& params, const ops::AddRmsNormParams* norm);
  int64_t normed_floats(int64_t columns) const;
  const float* rows_of_tile(const Rows& rows, int64_t first, int64_t count, int32_t thread);
  int64_t tile_bytes(int64_t rows, int64_t columns, const PackedFormat& format) const;
  void quantize(Rows& rows, const PackedFormat& format);
  uint8_t* make_tiles(const Rows& rows, const RowTileKind& kind, Scratch& to);
  void round_to_bf16(const Rows& rows);
  const float* interleave(const Rows& rows);
  void prepare_rows(const WeightLayout& layout, Rows& rows);
  RowTiles quantized_tiles(int64_t num_rows) const;
  int64_t tile_groups(const WeightLayout& layout, int64_t num_rows) const;
  int64_t gated_groups(const WeightLayout& layout, int64_t num_rows) const;
  void multiply(std::span<const ops::MatmulParams> group, const Rows& rows);
  void multiply_tiles(const Tiles& tiles, const Rows& rows, int64_t begin, int64_t end,
                      int64_t next, int32_t thread);
  static void check_gated(const ops::GatedMatmulParams& params, const Rows& rows);
  int64_t piece_groups() const;
  int64_t scale_tiles() const;
  int64_t round_gated_floats(int64_t rows) const;
  void multiply_both(const ops::GatedMatmulParams& params, const Rows& rows,
                     const GatedTiles& tiles, int32_t thread);
  Rows round_gated(const ops::GatedMatmulParams& params, const Rows& rows,
                   const PackedFormat& format);
  void round_gated_piece(const ops::GatedMatmulParams& params, const Rows& rows,
                         const GatedPiece& piece, int32_t thread);
  static void check_shapes(const ops::MatmulParams& params, const Rows& rows);
  void multiply_groups(const Piece& piece, const Rows& rows, int32_t thread);
  void multiply_packed(const Piece& piece, const Rows& rows, const GroupsFrom& groups,
                       int32_t thread);
  bool rounds_activations(const WeightLayout& layout) const;

  const KernelTable& kernels_;
  Workers& workers_;
  const WeightStreams streams_;
  WeightStore weights_;
  Scratch gathered_;          // [rows, columns] f32
  Scratch normed_;            // [threads][rows of a tile, columns] f32
  Scratch quantized_;         // QuantizedRows::tiles
  Scratch quantized_gated_;   // likewise, of gated outputs
  Scratch interleaved_;       // FloatMatmulTask::tiles
  Scratch rounded_;           // Bf16MatmulTask::tiles
  Scratch gated_;             // [threads][gate, up] of gated_floats_, or GatedPiece::scratch
  Scratch thread_scratch_;    // [threads] of kMatmulScratchBytes
  Scratch unpacked_groups_;   // [threads] of a tile of groups, for weights left in the file
  int64_t gated_floats_ = 0;  // of gate's outputs, or up's, that a thread has room for
  int64_t largest_tile_bytes_ = 0;
  bool interleaves_ = false;   // some weights take FloatMatmulTask::tiles
  bool rounds_gated_ = false;  // some weights may be `down` of run_mlp()
};

}  // namespace hasten::cpu
