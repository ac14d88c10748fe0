// SPDX-License-Identifier: Apache-2.0
// All kernels but the products of quantised weights (quant_products.inl), compiled once per
// instruction set by the file that includes this one behind its simd header. Everything has
// internal linkage; only the table leaves the file.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/cached_attention.inl"
#include "backends/cpu/kernels/elementwise.inl"
#include "backends/cpu/kernels/float_matmul.inl"
#include "backends/cpu/kernels/kv_copy.inl"
#include "backends/cpu/kernels/pack.inl"
#include "backends/cpu/kernels/packed_weights.inl"
#include "backends/cpu/kernels/peak.inl"
#include "backends/cpu/kernels/quantize.inl"

namespace hasten::cpu {
namespace {

/// Without `quant_matmul`.
constexpr KernelTable make_kernel_table(const char* name) {
  return {
      .name = name,
      .quant_direct_rows = kQuantDirectRows,
      .quant_tile_rows = kQuantRows,
      .quant_tile_groups = kQuantGroups,
      .reads_in_order = kReadsInOrder,
      .wide_value_bytes = kSplitsWideCodes ? 2 : 1,
      .float_matmul = {float_matmul<FloatKind::f32>, float_matmul<FloatKind::f16>,
                       float_matmul<FloatKind::bf16>},
      .interleave_rows = interleave_rows,
      .float_tile_rows = kFloatTileRows,
      .pack_quantized = {pack_quantized<0>, pack_quantized<1>, pack_quantized<2>, pack_quantized<3>,
                         pack_quantized<4>, pack_quantized<5>, pack_quantized<6>, pack_quantized<7>,
                         pack_quantized<8>, pack_quantized<9>, pack_quantized<10>,
                         pack_quantized<11>},
      .pack_floats = {pack_floats<FloatKind::f32>, pack_floats<FloatKind::f16>,
                      pack_floats<FloatKind::bf16>},
      .make_integer_scales = make_integer_scales,
      .order_stores = order_stores,
      .quantize_tile = quantize_tile,
      .quantize_spans = quantize_spans,
      .rms_norm_row = rms_norm_row,
      .add = add_row,
      .gate = gate,
      .soft_cap = soft_cap_row,
      .exp = exp_row,
      .scan_row = scan_row,
      .rope_token = rope_token,
      .kv_store = kv_store,
      .attention = {.kv_load = kv_load, .attend_tile = attend_tile, .attend_cached = attend_cached},
      .merge_softmax = merge_softmax,
      .finish_softmax = finish_softmax,
      .read_bytes = read_bytes,
      .peak_int8 = peak_int8,
      .peak_int4 = kSplitsWideCodes ? peak_int4 : nullptr,
      .peak_f32 = peak_f32,
  };
}

}  // namespace
}  // namespace hasten::cpu
