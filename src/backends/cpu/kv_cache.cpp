// SPDX-License-Identifier: Apache-2.0
// Sizes of cache blocks, what is written to them, and copies.
#include "backends/cpu/kv_cache.h"

#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "ops/kv_row.h"

namespace hasten::cpu {
namespace {

KvKind kind_of(DType type) {
  switch (type) {
    case DType::f32:
      return KvKind::f32;
    case DType::f16:
      return KvKind::f16;
    case DType::bf16:
      return KvKind::bf16;
    case DType::f8_e4m3:
      return KvKind::f8_e4m3;
    case DType::q8_0:
      return KvKind::q8_0;
    case DType::q4_0:
      return KvKind::q4_0;
    default:
      break;
  }
  fail(ErrorCode::internal, "no kernel reads keys and values kept as {}", info(type).name);
}

/// Whether tiles of pairs are whole vectors.
bool fits_pairs(const ops::KvCacheSpec& spec) {
  return spec.types.keys == DType::bf16 && spec.types.values == DType::bf16 &&
         spec.head_dim % kGroupRows == 0 && spec.block_size % kGroupRows == 0;
}

/// Bytes of the keys, or the values, of one head in one block. Every part begins where any of its
/// elements may lie.
int64_t part_bytes(const ops::KvCacheSpec& spec, DType type) {
  return round_up(row_bytes(type, spec.block_size * spec.head_dim), 16);
}

/// Where one token's units (elements, code bytes or scales) lie among those of a block.
struct Place {
  int64_t first;
  int64_t stride;
};

/// Takes a row apart into codes and scales.
template <class PlaceOf>
void scatter_row(DType type, KvKind kind, int64_t head_dim, int64_t block_size, const float* x,
                 uint8_t* block, PlaceOf place_of) {
  static thread_local std::vector<uint8_t> row;  // kept: nothing is allocated in a decode step
  row.resize(static_cast<size_t>(row_bytes(type, head_dim)));
  ops::encode_kv_row(type, x, head_dim, row.data());
  const int64_t num_scales = head_dim / info(type).block_size;
  const int64_t scale_bytes = has_scales(kind) ? kKvScaleBytes : 0;
  const int64_t code_bytes = info(type).block_bytes - scale_bytes;
  const Place codes = place_of(num_scales * code_bytes);
  const Place scales = place_of(num_scales);
  uint8_t* all_scales = block + kv_code_bytes(kind, block_size * head_dim);
  const uint8_t* from = row.data();
  uint8_t* to = block + codes.first;
  for (int64_t j = 0; j < num_scales; ++j) {
    std::memcpy(all_scales + (scales.first + j * scales.stride) * scale_bytes, from,
                static_cast<size_t>(scale_bytes));
    from += scale_bytes;
    for (int64_t i = 0; i < code_bytes; ++i, to += codes.stride) *to = *from++;
  }
}

}  // namespace

CpuKvCache::CpuKvCache(const ops::KvCacheSpec& spec, const KernelTable& kernels)
    : KvCache(spec),
      kernels_(kernels),
      key_kind_(kind_of(spec.types.keys)),
      value_kind_(kind_of(spec.types.values)),
      key_bytes_(part_bytes(spec, spec.types.keys)),
      value_bytes_(part_bytes(spec, spec.types.values)),
      memory_(num_bytes(spec)) {
  if (kernels.attend_pairs != nullptr && fits_pairs(spec))
    key_kind_ = value_kind_ = KvKind::bf16_pairs;
}

int64_t CpuKvCache::num_bytes(const ops::KvCacheSpec& spec) {
  ops::check_kv_types(spec);
  int64_t bytes = part_bytes(spec, spec.types.keys) + part_bytes(spec, spec.types.values);
  for (const int64_t factor : {spec.num_layers, spec.num_blocks, spec.num_kv_heads}) {
    const auto product = checked_mul(bytes, factor);
    if (!product) fail(ErrorCode::resource_exhausted, "a KV cache that large has no size");
    bytes = *product;
  }
  return bytes;
}

void CpuKvCache::store(int64_t layer, int64_t slot, int64_t head, const float* k,
                       const float* v) const {
  const int64_t block_size = spec().block_size;
  const int64_t head_dim = spec().head_dim;
  const int64_t block = slot / block_size;
  const int64_t offset = slot % block_size;
  uint8_t* to_keys = keys(layer, block, head);
  uint8_t* to_values = values(layer, block, head);
  const auto put = [&](KvKind kind, const float* x, uint8_t* to, Place place) {
    kernels_.kv_store({.x = x,
                       .count = head_dim,
                       .kind = kind,
                       .data = to,
                       .first = place.first,
                       .stride = place.stride});
  };
  if (key_kind_ == KvKind::bf16_pairs) {
    put(KvKind::bf16_pairs, k, to_keys, {.first = offset, .stride = block_size});
    put(KvKind::bf16, v, to_values, {.first = offset / 2 * 2 * head_dim + offset % 2, .stride = 2});
    return;
  }
  const auto put_row = [&](DType type, KvKind kind, const float* x, uint8_t* to, auto place_of) {
    if (kind > KvKind::bf16) return scatter_row(type, kind, head_dim, block_size, x, to, place_of);
    put(kind, x, to, place_of(head_dim));
  };
  put_row(spec().types.keys, key_kind_, k, to_keys,
          [&](int64_t) { return Place{.first = offset, .stride = block_size}; });
  put_row(spec().types.values, value_kind_, v, to_values,
          [&](int64_t row_units) { return Place{.first = offset * row_units, .stride = 1}; });
}

void CpuKvCache::copy_block(int64_t from, int64_t to) {
  HASTEN_CHECK(from >= 0 && from < spec().num_blocks && to >= 0 && to < spec().num_blocks);
  if (from == to) return;
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memcpy(keys(layer, to, 0), keys(layer, from, 0), layer_bytes());
  }
}

void CpuKvCache::export_block(int64_t block, std::span<std::byte> to) const {
  check_block(block, to.size());
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memcpy(to.data(), keys(layer, block, 0), layer_bytes());
    to = to.subspan(layer_bytes());
  }
}

void CpuKvCache::import_block(int64_t block, std::span<const std::byte> from) {
  check_block(block, from.size());
  for (int64_t layer = 0; layer < spec().num_layers; ++layer) {
    std::memcpy(keys(layer, block, 0), from.data(), layer_bytes());
    from = from.subspan(layer_bytes());
  }
}

void CpuKvCache::check_block(int64_t block, size_t num_bytes) const {
  HASTEN_CHECK(block >= 0 && block < spec().num_blocks);
  HASTEN_CHECK(num_bytes == layer_bytes() * static_cast<size_t>(spec().num_layers));
}

}  // namespace hasten::cpu
