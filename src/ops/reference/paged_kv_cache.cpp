// SPDX-License-Identifier: Apache-2.0
// Key/value storage as two plain arrays.
#include "ops/reference/paged_kv_cache.h"

#include <cstring>

#include "base/error.h"

namespace hasten::ops::reference {
namespace {

Shape storage_shape(const KvCacheSpec& spec) {
  return {spec.num_layers, spec.num_blocks * spec.block_size, spec.num_kv_heads, spec.head_dim};
}

}  // namespace

PagedKvCache::PagedKvCache(const KvCacheSpec& spec) : KvCache(spec) {
  HASTEN_CHECK(spec.dtype == DType::f32 || spec.dtype == DType::f16 || spec.dtype == DType::bf16);
  keys_ = OwnedTensor(spec.dtype, storage_shape(spec));
  values_ = OwnedTensor(spec.dtype, storage_shape(spec));
}

int64_t PagedKvCache::num_bytes(const KvCacheSpec& spec) {
  return 2 * row_bytes(spec.dtype, storage_shape(spec).num_elements());
}

void PagedKvCache::copy_block(int64_t from, int64_t to) {
  HASTEN_CHECK(from >= 0 && from < spec().num_blocks && to >= 0 && to < spec().num_blocks);
  const int64_t block_size = spec().block_size;
  const int64_t bytes = row_bytes(spec().dtype, block_size * spec().num_kv_heads * spec().head_dim);
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memmove(key(layer, to * block_size, 0), key(layer, from * block_size, 0), bytes);
    std::memmove(value(layer, to * block_size, 0), value(layer, from * block_size, 0), bytes);
  }
}

void* PagedKvCache::row(const OwnedTensor& storage, int64_t layer, int64_t slot,
                        int64_t head) const {
  const int64_t num_slots = spec().num_blocks * spec().block_size;
  HASTEN_CHECK(layer >= 0 && layer < spec().num_layers);
  HASTEN_CHECK(slot >= 0 && slot < num_slots);
  HASTEN_CHECK(head >= 0 && head < spec().num_kv_heads);
  return storage.view.row((layer * num_slots + slot) * spec().num_kv_heads + head);
}

}  // namespace hasten::ops::reference
