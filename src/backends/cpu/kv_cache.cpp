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

/// Whether both are of a type and tiles of pairs are whole vectors.
bool fits_pairs(const ops::KvCacheSpec& spec, DType type) {
  return spec.types.keys == type && spec.types.values == type && spec.head_dim % kGroupRows == 0 &&
         spec.block_size % kGroupRows == 0;
}

/// Bytes of the keys, or the values, of one head in one block. Every part begins where any of its
/// elements may lie.
int64_t part_bytes(const ops::KvCacheSpec& spec, DType type) {
  return round_up(row_bytes(type, spec.block_size * spec.head_dim), 16);
}

/// Where one token's units (elements, code bytes or scales) lie among those of a block.
struct Place {
  int64_t first;
  int64_t stride;      // from one to the next or, of pairs, from a pair to the next
  bool pairs = false;  // two lie side by side
  int64_t at(int64_t i) const { return first + (pairs ? i / 2 * stride + i % 2 : i * stride); }
};

/// Where a token's codes and scales lie.
struct RowPlace {
  Place codes;
  Place scales;
};

RowPlace key_place(KvKind kind, int64_t offset, int64_t block_size) {
  const Place each{.first = offset, .stride = block_size};
  if (kind != KvKind::q8_0_pairs) return {each, each};
  return {{.first = 2 * offset, .stride = 2 * block_size, .pairs = true}, each};
}

RowPlace value_place(KvKind kind, int64_t offset, const ops::KvCacheSpec& spec) {
  if (kind == KvKind::q8_0_pairs)
    return {{.first = offset / 2 * 2 * spec.head_dim + offset % 2, .stride = 2},
            {.first = offset, .stride = spec.block_size}};
  const int64_t units = kind <= KvKind::bf16 ? spec.head_dim : kv_code_bytes(kind, spec.head_dim);
  return {{.first = offset * units, .stride = 1},
          {.first = offset * (spec.head_dim / kKvScaleElements), .stride = 1}};
}

/// Takes a row apart into codes and scales.
void scatter_row(DType type, KvKind kind, const ops::KvCacheSpec& spec, const float* x,
                 uint8_t* block, const RowPlace& place) {
  static thread_local std::vector<uint8_t> row;  // kept: nothing is allocated in a decode step
  row.resize(static_cast<size_t>(row_bytes(type, spec.head_dim)));
  ops::encode_kv_row(type, x, spec.head_dim, row.data());
  const int64_t num_scales = spec.head_dim / info(type).block_size;
  const int64_t scale_bytes = has_scales(kind) ? kKvScaleBytes : 0;
  const int64_t code_bytes = info(type).block_bytes - scale_bytes;
  uint8_t* scales = block + kv_code_bytes(kind, spec.block_size * spec.head_dim);
  const uint8_t* from = row.data();
  int64_t code = 0;
  for (int64_t j = 0; j < num_scales; ++j) {
    std::memcpy(scales + place.scales.at(j) * scale_bytes, from, static_cast<size_t>(scale_bytes));
    from += scale_bytes;
    for (int64_t i = 0; i < code_bytes; ++i) block[place.codes.at(code++)] = *from++;
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
  if (kernels.bf16_pairs.exist() && fits_pairs(spec, DType::bf16))
    key_kind_ = value_kind_ = KvKind::bf16_pairs;
  if (kernels.q8_0_pairs.exist() && fits_pairs(spec, DType::q8_0))
    key_kind_ = value_kind_ = KvKind::q8_0_pairs;
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

void CpuKvCache::store(const Run& run) const {
  const int64_t block = run.slot / spec().block_size;
  const int64_t first = run.slot % spec().block_size;
  HASTEN_CHECK(first + run.count <= spec().block_size);
  if (stores_runs()) {
    return kernels_.bf16_pairs.store({.k = run.k,
                                      .v = run.v,
                                      .token_stride = run.token_stride,
                                      .count = run.count,
                                      .head_dim = spec().head_dim,
                                      .block_size = spec().block_size,
                                      .first = first,
                                      .keys = keys(run.layer, block, run.head),
                                      .values = values(run.layer, block, run.head)});
  }
  for (int64_t i = 0; i < run.count; ++i) store_token(run, i);
}

void CpuKvCache::store_token(const Run& run, int64_t index) const {
  const int64_t block = run.slot / spec().block_size;
  const int64_t offset = run.slot % spec().block_size + index;
  const auto put = [&](DType type, KvKind kind, const float* x, uint8_t* to,
                       const RowPlace& place) {
    if (kind > KvKind::bf16) return scatter_row(type, kind, spec(), x, to, place);
    kernels_.kv_store({.x = x,
                       .count = spec().head_dim,
                       .kind = kind,
                       .data = to,
                       .first = place.codes.first,
                       .stride = place.codes.stride});
  };
  put(spec().types.keys, key_kind_, run.k + index * run.token_stride,
      keys(run.layer, block, run.head), key_place(key_kind_, offset, spec().block_size));
  put(spec().types.values, value_kind_, run.v + index * run.token_stride,
      values(run.layer, block, run.head), value_place(value_kind_, offset, spec()));
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
