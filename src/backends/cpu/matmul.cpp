// SPDX-License-Identifier: Apache-2.0
// Quantises activations once for all products of a group, then deals groups of rows to threads.
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

namespace hasten::cpu {
namespace {

// Groups of 16 rows that a thread takes at a time are a multiple of this: the largest register
// tile.
constexpr int64_t kTileGroups = 4;
// Packed bytes of a piece of work: long enough to stream, short enough for threads to end together.
constexpr int64_t kPieceBytes = 256 * 1024;
// Activation columns that share a scale, at their fewest.
constexpr int64_t kSmallestPart = 16;
// Of the available memory this much stays free for everything else.
constexpr int64_t kMemoryMargin = int64_t{256} << 20;

/// Groups per piece: about kPieceBytes of weights, but several pieces for each thread.
int64_t piece_groups(const WeightLayout& layout, int32_t threads) {
  const int64_t by_bytes = kPieceBytes / std::max<int64_t>(1, layout.group.group_bytes);
  const int64_t by_threads = layout.num_groups / (4 * int64_t{threads});
  return std::max(kTileGroups, std::min(by_bytes, by_threads) / kTileGroups * kTileGroups);
}

const CpuWeight& cpu_weight(const ops::MatmulParams& params) {
  const auto* weight = dynamic_cast<const CpuWeight*>(&params.weight);
  HASTEN_CHECK(weight != nullptr);  // made by prepare_weight of this kind of backend
  return *weight;
}

}  // namespace

Matmul::Matmul(const KernelTable& kernels, Workers& workers)
    : kernels_(kernels), workers_(workers) {
  thread_scratch_.reserve(kMatmulScratchBytes * workers.num_threads());
}

std::unique_ptr<CpuWeight> Matmul::prepare(const Tensor& source, bool repack) {
  const WeightLayout layout = weight_layout(source);
  if (repack && layout.num_bytes() > measure_memory().available_bytes - kMemoryMargin) {
    log::warn("no memory to repack a weight of {} bytes: it is used from the file, slower",
              layout.num_bytes());
    repack = false;
  }
  if (!repack) {
    largest_tile_bytes_ = std::max(largest_tile_bytes_, kTileGroups * layout.group.group_bytes);
    unpacked_groups_.reserve(largest_tile_bytes_ * workers_.num_threads());
    return std::make_unique<CpuWeight>(source, layout, Memory());
  }
  Memory packed(layout.num_bytes());
  workers_.for_each(layout.num_groups, kTileGroups, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t g = begin; g < end; ++g) {
      pack_group(layout, source, g, packed.data() + g * layout.group.group_bytes);
    }
  });
  return std::make_unique<CpuWeight>(source, layout, std::move(packed));
}

void Matmul::reserve(const ops::StepLimits& limits) {
  const int64_t rows = limits.max_tokens;
  const int64_t columns = round_up(limits.max_features, kBlockColumns);
  const int64_t parts = columns / kSmallestPart;
  // Scoring a prompt asks for the logits of more rows than there are sequences.
  gathered_.reserve(rows * columns * 4);
  values_.reserve(rows * columns);
  scales_.reserve(parts * rows * 4);
  value_sums_.reserve(parts * rows * 4);
  sums_.reserve(parts * rows * 4);
}

Matmul::Rows Matmul::gather(const ops::MatmulParams& params) {
  const int64_t columns = params.weight.in_features();
  HASTEN_CHECK(params.x.shape().rank() == 2 && params.x.dim(1) == columns);
  if (params.rows.empty()) return {params.x.f32(), params.x.dim(0), columns};
  const auto count = static_cast<int64_t>(params.rows.size());
  auto* x = gathered_.get_array<float>(count * columns);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = params.rows[static_cast<size_t>(i)];
    HASTEN_CHECK(row >= 0 && row < params.x.dim(0));
    std::memcpy(x + i * columns, params.x.f32() + row * columns,
                static_cast<size_t>(columns) * sizeof(float));
  }
  return {x, count, columns};
}

/// Quantises the rows as `wanted` says; what `done` shows to be there already stays.
void Matmul::quantize(const Rows& rows, const Quantized& wanted, Quantized& done) {
  if (done == wanted) return;
  if (done.part_columns != wanted.part_columns) quantize_values(rows, wanted.part_columns);
  const int64_t count = rows.columns / wanted.part_columns * rows.count;
  const auto* value_sums = value_sums_.get_array<int32_t>(count);
  auto* start = sums_.get_array<int32_t>(count);
  auto* sums = reinterpret_cast<float*>(start);
  if (wanted.offsets) {
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<float>(value_sums[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) start[i] = kFloatBits - wanted.zero_point * value_sums[i];
  }
  done = wanted;
}

void Matmul::quantize_values(const Rows& rows, int64_t part_columns) {
  const int64_t parts = rows.columns / part_columns;
  auto* values = values_.get_array<int8_t>(rows.count * rows.columns);
  auto* scales = scales_.get_array<float>(parts * rows.count);
  auto* sums = value_sums_.get_array<int32_t>(parts * rows.count);
  // 16 rows write whole cache lines of scales and sums.
  workers_.for_each(rows.count, 16, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      kernels_.quantize_row({.x = rows.x + row * rows.columns,
                             .columns = rows.columns,
                             .part_columns = part_columns,
                             .values = values + row * rows.columns,
                             .scales = scales + row,
                             .sums = sums + row,
                             .stride = rows.count});
    }
  });
}

void Matmul::multiply_groups(const ops::MatmulParams& params, const Rows& rows, int64_t first,
                             int64_t count, int32_t thread) {
  const CpuWeight& weight = cpu_weight(params);
  const WeightLayout& layout = weight.layout();
  const uint8_t* groups = nullptr;
  if (weight.is_packed()) {
    groups = weight.group(first);
  } else {
    HASTEN_CHECK(count <= kTileGroups);
    uint8_t* to = unpacked_groups_.get(0) + thread * largest_tile_bytes_;
    for (int64_t g = 0; g < count; ++g) {
      pack_group(layout, weight.source(), first + g, to + g * layout.group.group_bytes);
    }
    groups = to;
  }
  uint8_t* scratch = thread_scratch_.get(0) + thread * kMatmulScratchBytes;
  const float* bias = params.bias.defined() ? params.bias.f32() : nullptr;
  if (!layout.packed) {
    kernels_.float_matmul[static_cast<int>(layout.floats)]({.groups = groups,
                                                            .group_bytes = layout.group.group_bytes,
                                                            .first_group = first,
                                                            .num_groups = count,
                                                            .x = rows.x,
                                                            .num_rows = rows.count,
                                                            .columns = rows.columns,
                                                            .bias = bias,
                                                            .out = params.out.f32(),
                                                            .out_features = weight.out_features(),
                                                            .scratch = scratch});
    return;
  }
  kernels_.quant_matmul[static_cast<int>(*layout.packed)](
      {.groups = groups,
       .layout = layout.group,
       .first_group = first,
       .num_groups = count,
       .x = {.values = values_.get_array<int8_t>(0),
             .scales = scales_.get_array<float>(0),
             .start = sums_.get_array<int32_t>(0),
             .sums = sums_.get_array<float>(0),
             .num_rows = rows.count,
             .columns = rows.columns},
       .bias = bias,
       .out = params.out.f32(),
       .out_features = weight.out_features(),
       .scratch = scratch});
}

void Matmul::multiply(const ops::MatmulParams& params, const Rows& rows) {
  const CpuWeight& weight = cpu_weight(params);
  const WeightLayout& layout = weight.layout();
  HASTEN_CHECK(params.out.dim(0) == rows.count && params.out.dim(1) == weight.out_features());
  HASTEN_CHECK(!params.bias.defined() || params.bias.num_elements() == weight.out_features());
  const int64_t piece =
      weight.is_packed() ? piece_groups(layout, workers_.num_threads()) : kTileGroups;
  workers_.for_each(layout.num_groups, piece, [&](int64_t begin, int64_t end, int32_t thread) {
    multiply_groups(params, rows, begin, end - begin, thread);
  });
}

void Matmul::run(std::span<const ops::MatmulParams> group) {
  if (group.empty()) return;
  const Rows rows = gather(group.front());
  if (rows.count == 0) return;
  Quantized done;
  for (const ops::MatmulParams& params : group) {
    HASTEN_CHECK(params.x.data() == group.front().x.data() &&
                 params.rows.data() == group.front().rows.data() &&
                 params.weight.in_features() == rows.columns);
    if (const auto kind = cpu_weight(params).layout().packed) {
      const PackedFormat& format = kPackedFormats[static_cast<int>(*kind)];
      quantize(rows,
               {.part_columns = format.activation_columns,
                .offsets = format.offsets,
                .zero_point = format.zero_point},
               done);
    }
    multiply(params, rows);
  }
}

}  // namespace hasten::cpu
