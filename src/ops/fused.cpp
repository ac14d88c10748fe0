// SPDX-License-Identifier: Apache-2.0
// Operations for backends that have none of their own: fused ones, composed of the plain ones,
// logits on one thread, caches whose memory is there from the start, bringing in the host's, and
// the refusal to move blocks.
#include <array>

#include "base/error.h"
#include "base/fresh_memory.h"
#include "ops/backend.h"

namespace hasten::ops {

void Backend::matmul_group(std::span<const MatmulParams> group) {
  for (const MatmulParams& params : group) matmul(params);
}

void Backend::gated_matmul(const GatedMatmulParams& params) {
  const std::array projections = {params.gate, params.up};
  matmul_group(projections);
  gated_activation({.activation = params.activation,
                    .gate = params.gate.out,
                    .up = params.up.out,
                    .out = params.out});
}

void Backend::add_rms_norm(const AddRmsNormParams& params) {
  if (params.delta.defined()) add(params.x, params.delta);
  rms_norm({.x = params.x, .weight = params.weight, .epsilon = params.epsilon, .out = params.out});
}

void Backend::norm_matmul_group(const AddRmsNormParams& norm, std::span<const MatmulParams> group) {
  add_rms_norm(norm);
  matmul_group(group);
}

void Backend::norm_gated_mlp(const AddRmsNormParams& norm, const GatedMatmulParams& gated,
                             const MatmulParams& down) {
  add_rms_norm(norm);
  gated_matmul(gated);
  matmul(down);
}

void ScanRowsParams::check() const {
  HASTEN_CHECK(columns <= stride && std::ssize(values) == num_rows() * stride);
}

void Backend::scan_rows(const ScanRowsParams& params) {
  params.check();
  for (int64_t i = 0; i < params.num_rows(); ++i)
    params.out[static_cast<size_t>(i)] = scan_row(params.row(i));
}

void Backend::bring_in(KvCache& /*cache*/, const std::function<void(double)>& progress) {
  progress(1);
}

void Backend::bring_in_memory(const Tensor& unused) {
  if (unused.device().kind == Device::Kind::cpu) bring_in_pages(unused.bytes());
}

void Backend::export_block(const KvCache& /*cache*/, int32_t /*block*/,
                           std::span<std::byte> /*to*/) {
  fail(ErrorCode::unsupported, "{} cannot move blocks of keys and values", name());
}

void Backend::import_block(KvCache& /*cache*/, int32_t /*block*/,
                           std::span<const std::byte> /*from*/) {
  fail(ErrorCode::unsupported, "{} cannot move blocks of keys and values", name());
}

}  // namespace hasten::ops
