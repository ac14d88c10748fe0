// SPDX-License-Identifier: Apache-2.0
// Rows of keys and values over the codecs of weights, with what a cache needs beside them.
#include "ops/kv_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "quant/codec.h"
#include "tensor/float8.h"
#include "tensor/half.h"
#include "tensor/kv_types.h"

namespace hasten::ops {
namespace {

constexpr float kLargestF16 = 65504.0F;

uint16_t saturated_f16(float x) {
  return f32_to_f16(std::isnan(x) ? x : std::clamp(x, -kLargestF16, kLargestF16));
}

/// Encodes blocks that start with their binary16 scale; one with an element that is no number gets
/// a scale that is none.
void encode_blocks(DType type, const float* x, int64_t size, void* row) {
  const DTypeInfo& block = info(type);
  auto* at = static_cast<std::byte*>(row);
  for (int64_t i = 0; i < size; i += block.block_size, at += block.block_bytes) {
    const auto is_number = [](float v) { return std::isfinite(v); };
    if (std::all_of(x + i, x + i + block.block_size, is_number)) {
      quant::encode_row(type, x + i, at, block.block_size);
      continue;
    }
    const uint16_t scale = f32_to_f16(std::numeric_limits<float>::quiet_NaN());
    std::memset(at, 0, static_cast<size_t>(block.block_bytes));
    std::memcpy(at, &scale, sizeof scale);
  }
}

}  // namespace

void check_kv_types(const KvCacheSpec& spec) {
  for (const DType type : {spec.types.keys, spec.types.values}) {
    if (!is_kv_type(type))
      fail(ErrorCode::unsupported,
           "keys and values cannot be kept as {}: choose f32, f16, bf16, f8_e4m3, q8_0 or q4_0",
           info(type).name);
    if (spec.head_dim % info(type).block_size != 0)
      fail(ErrorCode::unsupported,
           "keys and values of {} elements cannot be kept as {}, in blocks of {}: choose f32, f16, "
           "bf16 or f8_e4m3",
           spec.head_dim, info(type).name, info(type).block_size);
  }
}

void rotate(float* x, int64_t size) {
  const int64_t block = size & -size;
  const float scale = 1.0F / std::sqrt(static_cast<float>(block));
  for (float* end = x + size; x < end; x += block) {
    for (int64_t half = 1; half < block; half *= 2) {
      for (int64_t i = 0; i < block; i += 2 * half) {
        for (int64_t j = i; j < i + half; ++j) {
          const float sum = x[j] + x[j + half];
          x[j + half] = x[j] - x[j + half];
          x[j] = sum;
        }
      }
    }
    for (int64_t i = 0; i < block; ++i) x[i] *= scale;
  }
}

void encode_kv_row(DType type, const float* x, int64_t size, void* row) {
  HASTEN_CHECK(is_kv_type(type) && size % info(type).block_size == 0);
  switch (type) {
    case DType::f16:
      for (int64_t i = 0; i < size; ++i) static_cast<uint16_t*>(row)[i] = saturated_f16(x[i]);
      return;
    case DType::f8_e4m3:
      for (int64_t i = 0; i < size; ++i) static_cast<uint8_t*>(row)[i] = f32_to_f8_e4m3(x[i]);
      return;
    case DType::q8_0:
      return encode_blocks(type, x, size, row);
    case DType::q4_0: {
      static thread_local std::vector<float> rotated;  // kept: allocates once per thread
      rotated.assign(x, x + size);
      rotate(rotated.data(), size);
      return encode_blocks(type, rotated.data(), size, row);
    }
    default:
      return quant::encode_row(type, x, row, size);
  }
}

void decode_kv_row(DType type, const void* row, int64_t size, float* out) {
  if (type != DType::f8_e4m3) return quant::decode_row(type, row, out, size);
  for (int64_t i = 0; i < size; ++i) out[i] = f8_e4m3_to_f32(static_cast<const uint8_t*>(row)[i]);
}

}  // namespace hasten::ops
