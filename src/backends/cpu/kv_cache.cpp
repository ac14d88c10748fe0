// SPDX-License-Identifier: Apache-2.0
// Sizes and copies of cache blocks.
#include "backends/cpu/kv_cache.h"

#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace hasten::cpu {
namespace {

FloatKind kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return FloatKind::f32;
    case DType::f16:
      return FloatKind::f16;
    case DType::bf16:
      return FloatKind::bf16;
    default:
      fail(ErrorCode::unsupported,
           "keys and values cannot be kept as {} on the CPU; choose f32, f16 or bf16",
           info(dtype).name);
  }
}

}  // namespace

CpuKvCache::CpuKvCache(const ops::KvCacheSpec& spec)
    : KvCache(spec),
      kind_(kind_of(spec.dtype)),
      head_bytes_(row_bytes(spec.dtype, spec.block_size * spec.head_dim)),
      memory_(num_bytes(spec)) {}

int64_t CpuKvCache::num_bytes(const ops::KvCacheSpec& spec) {
  int64_t bytes = info(spec.dtype).block_bytes;
  for (const int64_t factor : {int64_t{2}, spec.num_layers, spec.num_blocks, spec.num_kv_heads,
                               spec.block_size, spec.head_dim}) {
    const auto product = checked_mul(bytes, factor);
    if (!product) fail(ErrorCode::resource_exhausted, "a KV cache that large has no size");
    bytes = *product;
  }
  return bytes;
}

void CpuKvCache::copy_block(int64_t from, int64_t to) {
  HASTEN_CHECK(from >= 0 && from < spec().num_blocks && to >= 0 && to < spec().num_blocks);
  if (from == to) return;
  const auto bytes = static_cast<size_t>(2 * head_bytes_ * spec().num_kv_heads);
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memcpy(keys(layer, to, 0), keys(layer, from, 0), bytes);
  }
}

}  // namespace hasten::cpu
