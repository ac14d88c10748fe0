// SPDX-License-Identifier: Apache-2.0
// Keys and values element by element into the cache, and from it to tiles of floats.
#pragma once

#include <type_traits>

#include "backends/cpu/kernels/elementwise.inl"
#include "backends/cpu/kernels/kv_elements.inl"

namespace hasten::cpu {
namespace {

inline void kv_store(const KvStoreTask& task) {
  const auto scatter = [&](int64_t first, const auto* lanes, int64_t n) {
    using Element = std::remove_cvref_t<decltype(*lanes)>;
    auto* to = static_cast<Element*>(task.data) + task.first + first * task.stride;
    for (int64_t lane = 0; lane < n; ++lane) to[lane * task.stride] = lanes[lane];
  };
  const auto put = [&](int64_t i, F32x16 v, int64_t n) {
    if (task.kind == KvKind::f32) {
      float lanes[16];
      store(lanes, v);
      return scatter(i, lanes, n);
    }
    uint16_t lanes[16];
    if (task.kind == KvKind::f16) {
      constexpr float kLargest = 65504.0F;  // min and max let a NaN through as their second
      store_f16(lanes, max(set1(-kLargest), min(set1(kLargest), v)));
    } else {
      store_bf16(lanes, v);
    }
    scatter(i, lanes, n);
  };
  for_lanes(
      task.count, [&](int64_t i) { put(i, load(task.x + i), 16); },
      [&](int64_t i, int64_t n) { put(i, load_first(task.x + i, n), n); });
}

template <KvKind kKind>
inline void load_keys(const KvRunTask& task) {
  const int64_t row_bytes = kv_key_row_bytes(kKind, task.block_size);
  const uint8_t* scales = task.keys + kv_code_bytes(kKind, task.block_size * task.head_dim) +
                          task.first * kKvScaleBytes;
  for (int64_t i = 0; i < task.count; i += 16) {
    const int64_t n = task.count - i < 16 ? task.count - i : 16;
    const uint8_t* codes = task.keys + kv_key_row_bytes(kKind, task.first + i);
    float* to = task.tile_keys + task.at + i;
    for (int64_t j = 0; j < num_key_row_runs<kKind>(task.head_dim); ++j) {
      F32x16 scale = zero();
      if constexpr (has_scales(kKind)) {
        scale = load_first_kv_scales(scales + (j * task.block_size + i) * kKvScaleBytes, n);
      }
      for_key_rows<kKind>(task.head_dim, j, [&](int64_t row, auto high) {
        F32x16 keys = load_first_kv_codes<kKind, decltype(high)::value>(codes + row * row_bytes, n);
        if constexpr (has_scales(kKind)) keys = mul(keys, scale);
        if (n == 16) {
          store(to, keys);
        } else {
          store_first(to, keys, n);
        }
        to += kTileKeys;
      });
    }
  }
}

template <KvKind kKind>
inline void load_values(const KvRunTask& task) {
  const int64_t row_bytes = kv_code_bytes(kKind, task.head_dim);
  const int64_t scale_bytes = value_scale_bytes<kKind>(task.head_dim);
  const uint8_t* scales = task.values + task.block_size * row_bytes;
  for (int64_t t = 0; t < task.count; ++t) {
    const uint8_t* codes = task.values + (task.first + t) * row_bytes;
    const uint8_t* scale = scales + (task.first + t) * scale_bytes;
    float* to = task.tile_values + (task.at + t) * task.padded_dim;
    for (int64_t d = 0; d < task.head_dim; d += 16) {
      const int64_t n = task.head_dim - d < 16 ? task.head_dim - d : 16;
      const uint8_t* at = codes + value_code_at<kKind>(d);
      const bool high = kKind == KvKind::q4_0 && d % 32 != 0;
      const F32x16 elements =
          high ? load_first_kv_codes<kKind, true>(at, n) : load_first_kv_codes<kKind, false>(at, n);
      store(to + d, scale_value_codes<kKind>(elements, scale, d));
    }
  }
}

inline void kv_load(const KvRunTask& task) {
  with_kv_kind(task.key_kind, [&](auto kind) { load_keys<KvKind{decltype(kind)::value}>(task); });
  with_kv_kind(task.value_kind,
               [&](auto kind) { load_values<KvKind{decltype(kind)::value}>(task); });
}

}  // namespace
}  // namespace hasten::cpu
