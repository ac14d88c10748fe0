// SPDX-License-Identifier: Apache-2.0
// The CPU backend: checks, and the split of simple operations over threads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <stop_token>

#include "backends/cpu/attention.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kv_cache.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/workers.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/fresh_memory.h"
#include "quant/codec.h"

namespace hasten::cpu {
namespace {

// Elements below which an operation is faster than waking a thread.
constexpr int64_t kPieceElements = 16 * 1024;
// Logits that a thread looks through at a time, at least.
constexpr int64_t kScanElements = 16 * 1024;
// Such parts of all rows together, where a row is more than one.
constexpr int64_t kMostScans = 256;
// Sines and cosines in double precision cost about 50 elements of anything else.
constexpr int64_t kPieceAngles = 512;

// Elements of keys and values that are kept one by one count so many times: pieces are smaller.
constexpr int64_t kElementwiseCost = 4;
// Tokens of a run that are kept together.
constexpr int64_t kRunTokens = 16;
// Of a cache, that each thread brings in between two reports of progress.
constexpr int64_t kReportedPages = 16;

/// Rows per piece of work so that a piece has about `elements` elements.
int64_t piece_rows(int64_t elements, int64_t row_elements) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, row_elements));
}

/// How many of the slots, of which there are some, follow the first in its block.
int64_t run_length(std::span<const int32_t> slots, int64_t block_size) {
  const int64_t first = slots.front();
  const int64_t left = std::min(std::ssize(slots), block_size - first % block_size);
  int64_t count = 1;
  while (count < left && slots[static_cast<size_t>(count)] == first + count) ++count;
  return count;
}

class CpuBackend final : public ops::Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : kernels_(select_kernels(options.isa)),
        repack_(options.repack),
        workers_(options.threads),
        matmul_(kernels_, workers_, weight_streams(kernels_)),
        attention_(kernels_, workers_) {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} thread{})", kernels_.name, workers_.num_threads(),
                       workers_.num_threads() == 1 ? "" : "s");
  }
  Device device() const override { return {}; }

  ops::DeviceTensor allocate(DType dtype, Shape shape) override {
    auto owned = std::make_shared<OwnedTensor>(dtype, shape);
    const Tensor view = owned->view;
    return {.view = view, .owner = std::move(owned)};
  }
  void upload(const Tensor& host, const Tensor& device) override { copy(host, device); }
  void download(const Tensor& device, const Tensor& host) override { copy(device, host); }
  void synchronize() override { matmul_.finish_weights(); }

  void expect_weights(std::span<const Tensor> sources, const std::stop_token& stop) override {
    if (repack_) matmul_.bring_in_weights(sources, stop);
  }
  std::unique_ptr<ops::Weight> prepare_weight(const Tensor& source) override {
    return matmul_.prepare(source, repack_);
  }
  std::unique_ptr<ops::Weight> prepare_embedding(const Tensor& source) override {
    HASTEN_CHECK(source.shape().rank() == 2 && quant::has_codec(source.dtype()));
    return std::make_unique<ops::Weight>(source);
  }
  void reserve(const ops::StepLimits& limits) override {
    matmul_.reserve(limits);
    attention_.reserve(limits);
  }

  std::unique_ptr<ops::KvCache> make_kv_cache(const ops::KvCacheSpec& spec) override {
    return std::make_unique<CpuKvCache>(spec, kernels_);
  }
  int64_t kv_cache_bytes(const ops::KvCacheSpec& spec) const override {
    return CpuKvCache::num_bytes(spec);
  }
  void bring_in(ops::KvCache& cache, const std::function<void(double)>& progress) override;
  void bring_in_memory(const Tensor& unused) override { bring_in(unused.bytes()); }
  void bring_in_reserved() override {
    for (const Scratch* scratch : matmul_.scratch()) bring_in(scratch->bytes());
    for (const Scratch* scratch : attention_.scratch()) bring_in(scratch->bytes());
  }
  void copy_blocks(ops::KvCache& cache,
                   std::span<const std::pair<int32_t, int32_t>> pairs) override {
    auto& blocks = dynamic_cast<CpuKvCache&>(cache);
    for (const auto& [from, to] : pairs) blocks.copy_block(from, to);
  }
  std::string kv_layout() const override {
    return fmt::format("cpu {} {}", kernels_.name, CpuKvCache::kLayoutVersion);
  }
  void export_block(const ops::KvCache& cache, int32_t block, std::span<std::byte> to) override {
    dynamic_cast<const CpuKvCache&>(cache).export_block(block, to);
  }
  void import_block(ops::KvCache& cache, int32_t block, std::span<const std::byte> from) override {
    dynamic_cast<CpuKvCache&>(cache).import_block(block, from);
  }

  void embed(const ops::EmbedParams& params) override;
  void rms_norm(const ops::RmsNormParams& params) override {
    add_rms_norm({.x = params.x,
                  .delta = {},
                  .weight = params.weight,
                  .epsilon = params.epsilon,
                  .out = params.out});
  }
  void add_rms_norm(const ops::AddRmsNormParams& params) override;
  void norm_matmul_group(const ops::AddRmsNormParams& norm,
                         std::span<const ops::MatmulParams> group) override {
    if (!matmul_.can_norm(group)) return Backend::norm_matmul_group(norm, group);
    matmul_.run(group, &norm);
  }
  void norm_gated_mlp(const ops::AddRmsNormParams& norm, const ops::GatedMatmulParams& gated,
                      const ops::MatmulParams& down) override {
    const std::array projections = {gated.gate, gated.up};
    const bool can_norm = matmul_.can_norm(projections);
    if (can_norm && matmul_.can_run_mlp(gated, down)) {
      return matmul_.run_mlp(norm, gated, down);
    }
    if (!can_norm || !matmul_.can_gate(gated)) {
      return Backend::norm_gated_mlp(norm, gated, down);
    }
    matmul_.run_gated(gated, &norm);
    matmul(down);
  }
  void matmul(const ops::MatmulParams& params) override { matmul_.run({&params, 1}); }
  void matmul_group(std::span<const ops::MatmulParams> group) override { matmul_.run(group); }
  void gated_matmul(const ops::GatedMatmulParams& params) override {
    if (!matmul_.can_gate(params)) return Backend::gated_matmul(params);
    matmul_.run_gated(params);
  }
  void gated_activation(const ops::GatedActivationParams& params) override;
  void add(const Tensor& x, const Tensor& delta) override;
  void take_rows(const Tensor& x, std::span<const int32_t> rows) override;
  void soft_cap(const ops::SoftCapParams& params) override;
  void rope_angles(const ops::RopeAnglesParams& params) override;
  void rope(const ops::RopeParams& params) override;
  void kv_write(const ops::KvWriteParams& params) override;
  void attention(const ops::AttentionParams& params) override { attention_.run(params); }
  void scan_rows(const ops::ScanRowsParams& params) override;

 private:
  static void copy(const Tensor& from, const Tensor& to) {
    HASTEN_CHECK(from.dtype() == to.dtype() && from.shape() == to.shape());
    if (from.num_bytes() > 0) {
      std::memcpy(to.data(), from.data(), static_cast<size_t>(from.num_bytes()));
    }
  }

  void bring_in(std::span<std::byte> unused);

  const KernelTable& kernels_;
  bool repack_;
  Workers workers_;
  Matmul matmul_;
  Attention attention_;
};

void CpuBackend::embed(const ops::EmbedParams& params) {
  const Tensor& table = params.table.source();
  const int64_t dim = table.dim(1);
  const auto num_tokens = static_cast<int64_t>(params.ids.size());
  HASTEN_CHECK(params.out.shape() == (Shape{num_tokens, dim}));
  for (const int32_t id : params.ids) {
    if (id < 0 || id >= table.dim(0)) {
      fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", id,
           table.dim(0));
    }
  }
  workers_.for_each(
      num_tokens, piece_rows(kPieceElements, dim), [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t t = begin; t < end; ++t) {
          float* out = params.out.f32() + t * dim;
          quant::decode_row(table.dtype(), table.row(params.ids[static_cast<size_t>(t)]), out, dim);
          if (params.scale == 1.0F) continue;
          for (int64_t i = 0; i < dim; ++i) out[i] *= params.scale;
        }
      });
}

void CpuBackend::add_rms_norm(const ops::AddRmsNormParams& params) {
  check_norm(params);
  const int64_t dim = params.x.shape().back();
  workers_.for_each(
      params.x.num_rows(), piece_rows(kPieceElements, dim),
      [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t row = begin; row < end; ++row) {
          kernels_.rms_norm_row(norm_row_task(params, row, params.out.f32() + row * dim));
        }
      });
}

void CpuBackend::gated_activation(const ops::GatedActivationParams& params) {
  HASTEN_CHECK(params.up.shape() == params.gate.shape() &&
               params.out.shape() == params.gate.shape());
  const GateKind kind = gate_kind(params.activation);
  workers_.for_each(params.gate.num_elements(), kPieceElements,
                    [&](int64_t begin, int64_t end, int32_t) {
                      kernels_.gate({.kind = kind,
                                     .gate = params.gate.f32() + begin,
                                     .up = params.up.f32() + begin,
                                     .stride = 0,
                                     .rows = 1,
                                     .columns = end - begin,
                                     .out = params.out.f32() + begin,
                                     .out_stride = 0});
                    });
}

void CpuBackend::add(const Tensor& x, const Tensor& delta) {
  HASTEN_CHECK(x.shape() == delta.shape());
  workers_.for_each(x.num_elements(), kPieceElements, [&](int64_t begin, int64_t end, int32_t) {
    kernels_.add(x.f32() + begin, delta.f32() + begin, end - begin);
  });
}

/// On one thread: they are few but where all logits of a prompt's end are asked for.
void CpuBackend::take_rows(const Tensor& x, std::span<const int32_t> rows) {
  int64_t to = 0;
  for (const int32_t row : rows) {
    HASTEN_CHECK(row >= to && row < x.dim(0));
    if (row > to) copy(x.slice(row, 1), x.slice(to, 1));
    ++to;
  }
}

void CpuBackend::soft_cap(const ops::SoftCapParams& params) {
  HASTEN_CHECK(params.cap > 0.0F);
  workers_.for_each(params.x.num_elements(), kPieceElements,
                    [&](int64_t begin, int64_t end, int32_t) {
                      kernels_.soft_cap(params.x.f32() + begin, end - begin, params.cap);
                    });
}

/// In parts of rows, so that one row keeps all threads busy, too.
void CpuBackend::scan_rows(const ops::ScanRowsParams& params) {
  params.check();
  const int64_t rows = params.num_rows();
  const int64_t most_parts = kMostScans / std::max<int64_t>(1, rows);
  const int64_t parts = std::max<int64_t>(1, std::min(params.columns / kScanElements, most_parts));
  const auto first_of = [&](int64_t part) { return part * params.columns / parts; };
  const auto scan = [&](int64_t row, int64_t part) -> ops::RowScan {
    const float* x = params.row(row).data() + first_of(part);
    const RowScanResult result = kernels_.scan_row(x, first_of(part + 1) - first_of(part));
    return {.likeliest = result.likeliest,
            .most = result.most,
            .num_not_finite = result.num_not_finite};
  };
  if (parts == 1) {
    return workers_.for_each(rows, 1, [&](int64_t row, int64_t, int32_t) {
      params.out[static_cast<size_t>(row)] = scan(row, 0);
    });
  }
  std::array<ops::RowScan, kMostScans> scans;
  workers_.for_each(rows * parts, 1, [&](int64_t index, int64_t, int32_t) {
    scans[static_cast<size_t>(index)] = scan(index / parts, index % parts);
  });
  for (int64_t row = 0; row < rows; ++row) {
    ops::RowScan& whole = params.out[static_cast<size_t>(row)] = {};
    for (int64_t p = 0; p < parts; ++p)
      whole.join(scans[static_cast<size_t>(row * parts + p)], first_of(p));
  }
}

// Position times frequency (24 bits) is exact in double for positions below 2^29. In float, the
// angle of position 131072 would be off by up to 2^-8.
void CpuBackend::rope_angles(const ops::RopeAnglesParams& params) {
  const int64_t half = params.inv_freq.num_elements();
  const auto num_tokens = static_cast<int64_t>(params.positions.size());
  HASTEN_CHECK(params.out.shape() == (Shape{num_tokens, 2, half}));
  workers_.for_each(num_tokens, piece_rows(kPieceAngles, half),
                    [&](int64_t begin, int64_t end, int32_t) {
                      for (int64_t t = begin; t < end; ++t) {
                        float* cosines = params.out.f32() + t * 2 * half;
                        float* sines = cosines + half;
                        const double position = params.positions[static_cast<size_t>(t)];
                        for (int64_t j = 0; j < half; ++j) {
                          const double angle = position * double{params.inv_freq.f32()[j]};
                          cosines[j] = static_cast<float>(params.magnitude * std::cos(angle));
                          sines[j] = static_cast<float>(params.magnitude * std::sin(angle));
                        }
                      }
                    });
}

void CpuBackend::rope(const ops::RopeParams& params) {
  const int64_t num_tokens = params.x.dim(0);
  const int64_t num_heads = params.x.dim(1);
  const int64_t head_dim = params.x.dim(2);
  const int64_t half = params.angles.dim(2);
  HASTEN_CHECK(params.angles.shape() == (Shape{num_tokens, 2, half}) && 2 * half <= head_dim);
  workers_.for_each(
      num_tokens, piece_rows(kPieceElements, num_heads * head_dim),
      [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t t = begin; t < end; ++t) {
          const float* cosines = params.angles.f32() + t * 2 * half;
          kernels_.rope_token({.x = params.x.f32() + t * num_heads * head_dim,
                               .cos = cosines,
                               .sin = cosines + half,
                               .num_heads = num_heads,
                               .head_dim = head_dim,
                               .half = half,
                               .interleaved = params.layout == ops::RopeLayout::interleaved});
        }
      });
}

void CpuBackend::bring_in(ops::KvCache& cache, const std::function<void(double)>& progress) {
  const std::span<std::byte> all = dynamic_cast<const CpuKvCache&>(cache).bytes();
  const auto at_once = static_cast<size_t>(kReportedPages * kHugePage * workers_.num_threads());
  for (size_t first = 0; first < all.size(); first += at_once) {
    const size_t count = std::min(at_once, all.size() - first);
    bring_in(all.subspan(first, count));
    progress(static_cast<double>(first + count) / static_cast<double>(all.size()));
  }
}

/// Each page by one thread, if the first one is where `unused` begins: two that came to a new one
/// at the same time would both clear one.
void CpuBackend::bring_in(std::span<std::byte> unused) {
  workers_.for_each(std::ssize(unused), kHugePage, [&](int64_t begin, int64_t end, int32_t) {
    bring_in_pages(unused.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

void CpuBackend::kv_write(const ops::KvWriteParams& params) {
  const auto& cache = dynamic_cast<const CpuKvCache&>(params.cache);
  const ops::KvCacheSpec& spec = cache.spec();
  const int64_t num_tokens = params.batch.num_tokens();
  const Shape shape{num_tokens, spec.num_kv_heads, spec.head_dim};
  HASTEN_CHECK(params.k.shape() == shape && params.v.shape() == shape);
  HASTEN_CHECK(params.layer >= 0 && params.layer < spec.num_layers);
  const std::span<const int32_t> slots = params.batch.slots;
  for (const int32_t slot : slots) {
    HASTEN_CHECK(slot >= 0 && slot < spec.num_blocks * spec.block_size);
  }
  const int64_t row = spec.num_kv_heads * spec.head_dim;
  int64_t grain =
      piece_rows(kPieceElements, 2 * row * (cache.stores_runs() ? 1 : kElementwiseCost));
  if (cache.stores_runs() && grain > kRunTokens) grain = round_up(grain, kRunTokens);
  workers_.for_each(num_tokens, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t t = begin; t < end;) {
      const auto left = slots.subspan(static_cast<size_t>(t), static_cast<size_t>(end - t));
      const int64_t count = run_length(left, spec.block_size);
      for (int64_t h = 0; h < spec.num_kv_heads; ++h) {
        const int64_t at = t * row + h * spec.head_dim;
        cache.store({.layer = params.layer,
                     .head = h,
                     .slot = left.front(),
                     .count = count,
                     .k = params.k.f32() + at,
                     .v = params.v.f32() + at,
                     .token_stride = row});
      }
      t += count;
    }
  });
}

}  // namespace

std::unique_ptr<ops::Backend> make_cpu_backend(const CpuOptions& options) {
  if (options.threads < 0) {
    fail(ErrorCode::invalid_argument, "{} threads: give a positive number, or 0 for all cores",
         options.threads);
  }
  return std::make_unique<CpuBackend>(options);
}

}  // namespace hasten::cpu
