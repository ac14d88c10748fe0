// SPDX-License-Identifier: Apache-2.0
// Key/value storage as two plain arrays.
#include "ops/reference/paged_kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/fresh_memory.h"
#include "ops/kv_row.h"

namespace hasten::ops::reference {
namespace {

Shape storage_shape(const KvCacheSpec& spec) {
  return {spec.num_layers, spec.num_blocks * spec.block_size, spec.num_kv_heads, spec.head_dim};
}

}  // namespace

PagedKvCache::PagedKvCache(const KvCacheSpec& spec) : KvCache(spec) {
  check_kv_types(spec);
  keys_ = OwnedTensor(spec.types.keys, storage_shape(spec));
  values_ = OwnedTensor(spec.types.values, storage_shape(spec));
}

int64_t PagedKvCache::num_bytes(const KvCacheSpec& spec) {
  check_kv_types(spec);
  const int64_t num_elements = storage_shape(spec).num_elements();
  return row_bytes(spec.types.keys, num_elements) + row_bytes(spec.types.values, num_elements);
}

void PagedKvCache::bring_in() const {
  bring_in_pages(keys_.view.bytes());
  bring_in_pages(values_.view.bytes());
}

void PagedKvCache::copy_block(int64_t from, int64_t to) {
  HASTEN_CHECK(from >= 0 && from < spec().num_blocks && to >= 0 && to < spec().num_blocks);
  const int64_t block_size = spec().block_size;
  const int64_t size = block_size * spec().num_kv_heads * spec().head_dim;
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memmove(key(layer, to * block_size, 0), key(layer, from * block_size, 0),
                 static_cast<size_t>(row_bytes(spec().types.keys, size)));
    std::memmove(value(layer, to * block_size, 0), value(layer, from * block_size, 0),
                 static_cast<size_t>(row_bytes(spec().types.values, size)));
  }
}

std::vector<std::span<std::byte>> PagedKvCache::parts(int64_t block, size_t num_bytes) const {
  HASTEN_CHECK(block >= 0 && block < spec().num_blocks);
  const int64_t slot = block * spec().block_size;
  const int64_t size = spec().block_size * spec().num_kv_heads * spec().head_dim;
  const auto part = [&](DType type, void* begin) {
    return std::span(static_cast<std::byte*>(begin), static_cast<size_t>(row_bytes(type, size)));
  };
  std::vector<std::span<std::byte>> result;
  size_t total = 0;
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    result.push_back(part(spec().types.keys, key(layer, slot, 0)));
    result.push_back(part(spec().types.values, value(layer, slot, 0)));
    total += result.end()[-2].size() + result.back().size();
  }
  HASTEN_CHECK(total == num_bytes);
  return result;
}

void PagedKvCache::export_block(int64_t block, std::span<std::byte> to) const {
  for (const auto part : parts(block, to.size())) {
    std::ranges::copy(part, to.begin());
    to = to.subspan(part.size());
  }
}

void PagedKvCache::import_block(int64_t block, std::span<const std::byte> from) {
  for (const auto part : parts(block, from.size())) {
    std::ranges::copy(from.first(part.size()), part.begin());
    from = from.subspan(part.size());
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
