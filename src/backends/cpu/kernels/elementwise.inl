// SPDX-License-Identifier: Apache-2.0
// Operations on one row or one token at a time: exponentials, norms, activations, rotation,
// quantisation of activations.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/packed_weights.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// f(i) for whole vectors from element i, g(i, n) for the n < 16 elements left at i.
template <class Whole, class Rest>
HASTEN_INLINE inline void for_lanes(int64_t count, Whole&& f, Rest&& g) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) f(i);
  if (i < count) g(i, count - i);
}

/// e^x within 2 ulp for x in [-87, 88.3]; below it falls to zero, above it is infinite. NaN stays
/// NaN. x = n ln 2 + r, and the series of e^r to r^7 / 7!, whose error is below 1e-8.
inline F32x16 exponential(F32x16 x) {
  x = min(set1(89.0F), max(set1(-104.0F), x));
  // max again, so that a NaN gives some integer; it comes back with r.
  const I32x16 n = to_int(mul(max(x, set1(-104.0F)), set1(1.44269504F)));
  const F32x16 steps = to_float(n);
  // ln 2 in two parts; the first has 9 bits, so that its product with n is exact.
  F32x16 r = fma(steps, set1(-0.693359375F), x);
  r = fma(steps, set1(2.12194440e-4F), r);
  F32x16 e = set1(1.0F / 5040);
  e = fma(e, r, set1(1.0F / 720));
  e = fma(e, r, set1(1.0F / 120));
  e = fma(e, r, set1(1.0F / 24));
  e = fma(e, r, set1(1.0F / 6));
  e = fma(e, r, set1(0.5F));
  e = fma(e, r, set1(1.0F));
  e = fma(e, r, set1(1.0F));
  return mul(e, power_of_two(n));
}

/// tanh(x): its continued fraction to x^7 near zero, where 1 - 2 / (e^2x + 1) would cancel.
inline F32x16 hyperbolic_tangent(F32x16 x) {
  const F32x16 far = sub(set1(1.0F), div(set1(2.0F), add(exponential(add(x, x)), set1(1.0F))));
  const F32x16 y = mul(x, x);
  F32x16 above = add(y, set1(378.0F));
  above = fma(above, y, set1(17325.0F));
  above = mul(fma(above, y, set1(135135.0F)), x);
  F32x16 below = fma(set1(28.0F), y, set1(3150.0F));
  below = fma(below, y, set1(62370.0F));
  below = fma(below, y, set1(135135.0F));
  return select_less(abs(x), set1(1.0F), div(above, below), far);
}

inline F32x16 sigmoid(F32x16 x) {
  return div(set1(1.0F), add(set1(1.0F), exponential(sub(zero(), x))));
}

inline void exp_row(const float* x, float* out, int64_t count) {
  for_lanes(
      count, [&](int64_t i) { store(out + i, exponential(load(x + i))); },
      [&](int64_t i, int64_t n) { store_first(out + i, exponential(load_first(x + i, n)), n); });
}

inline void add_row(float* x, const float* delta, int64_t count) {
  for_lanes(
      count, [&](int64_t i) { store(x + i, add(load(x + i), load(delta + i))); },
      [&](int64_t i, int64_t n) {
        store_first(x + i, add(load_first(x + i, n), load_first(delta + i, n)), n);
      });
}

inline void soft_cap_row(float* x, int64_t count, float cap) {
  const auto capped = [&](F32x16 v) {
    return mul(set1(cap), hyperbolic_tangent(div(v, set1(cap))));
  };
  for_lanes(
      count, [&](int64_t i) { store(x + i, capped(load(x + i))); },
      [&](int64_t i, int64_t n) { store_first(x + i, capped(load_first(x + i, n)), n); });
}

/// silu(x) = x sigmoid(x); gelu's tanh form is x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
inline void gate_row(GateKind kind, const float* gate, const float* up, float* out, int64_t count) {
  const auto activation = [&](F32x16 x) {
    if (kind == GateKind::silu) return mul(x, sigmoid(x));
    const F32x16 cube = mul(mul(x, x), x);
    return mul(x, sigmoid(mul(set1(1.59576912F), fma(cube, set1(0.044715F), x))));
  };
  for_lanes(
      count, [&](int64_t i) { store(out + i, mul(activation(load(gate + i)), load(up + i))); },
      [&](int64_t i, int64_t n) {
        store_first(out + i, mul(activation(load_first(gate + i, n)), load_first(up + i, n)), n);
      });
}

inline void rms_norm_row(const RmsNormRowTask& task) {
  F32x16 squares = zero();
  const auto take = [&](F32x16 v) { squares = fma(v, v, squares); };
  for_lanes(
      task.dim,
      [&](int64_t i) {
        F32x16 v = load(task.x + i);
        if (task.delta != nullptr) {
          v = add(v, load(task.delta + i));
          store(task.x + i, v);
        }
        take(v);
      },
      [&](int64_t i, int64_t n) {
        F32x16 v = load_first(task.x + i, n);
        if (task.delta != nullptr) {
          v = add(v, load_first(task.delta + i, n));
          store_first(task.x + i, v, n);
        }
        take(v);
      });
  const float mean = reduce_add(squares) / static_cast<float>(task.dim);
  const F32x16 factor = set1(1.0F / __builtin_sqrtf(mean + task.epsilon));
  for_lanes(
      task.dim,
      [&](int64_t i) {
        store(task.out + i, mul(mul(load(task.x + i), factor), load(task.weight + i)));
      },
      [&](int64_t i, int64_t n) {
        const F32x16 v = mul(load_first(task.x + i, n), factor);
        store_first(task.out + i, mul(v, load_first(task.weight + i, n)), n);
      });
}

/// Writes 16 values to the places of QuantizedRows.
template <class Values>
HASTEN_INLINE inline void store_values(uint8_t* at, Values values, int64_t value_bytes) {
  if constexpr (kSplitsWideCodes) {
    if (value_bytes == 2) return store_split_i16(at, values);
  }
  store_i8(reinterpret_cast<int8_t*>(at), values);
}

/// 2^n for n in [-126, 127].
inline float exact_power_of_two(int32_t n) {
  const int32_t bits = (n + 127) << 23;
  float power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return power;
}

/// The scale of a span of blocks, and what its parts make of it.
struct SpanScale {
  uint32_t peak_bits;  // of the largest value that it has codes for
  float scale;         // NaN if a value is not a number or infinite
  float inverse;

  static SpanScale of(uint32_t peak_bits, float largest_scale) {
    constexpr uint32_t kInfinity = 0x7f800000;
    if (peak_bits >= kInfinity) return {kInfinity - 1, __builtin_nanf(""), 0};
    // So that no quotient of scales overflows: what is smaller is as good as zero.
    const float least = largest_scale * exact_power_of_two(-kMostSpanShift) * 127;
    float peak;
    __builtin_memcpy(&peak, &peak_bits, sizeof peak);
    if (!(peak > least)) peak = least;
    if (!(peak > 1e-35F)) peak = 1e-35F;  // below, 127 / peak overflows
    __builtin_memcpy(&peak_bits, &peak, sizeof peak);
    return {peak_bits, peak / 127.0F, 127.0F / peak};
  }

  /// What values of a part are multiplied with; finite.
  float steps(int32_t shift) const {
    const float steps = inverse * exact_power_of_two(shift);
    return steps < 1e38F ? steps : 1e38F;
  }

  /// How often a part can be doubled, at most `most` times, before its peak exceeds that of the
  /// span.
  int32_t shift(uint32_t part_peak_bits, int32_t most) const {
    constexpr uint32_t kMantissa = 0x7fffff;
    const int32_t doublings = static_cast<int32_t>(peak_bits >> 23) -
                              static_cast<int32_t>(part_peak_bits >> 23) -
                              ((part_peak_bits & kMantissa) > (peak_bits & kMantissa) ? 1 : 0);
    return doublings < 0 ? 0 : doublings > most ? most : doublings;
  }
};

/// Of a row whose spans are quantised one after another: what the next one has to know.
struct SpanChain {
  float last_scale = 0;
  float largest_scale = 0;
  uint8_t* last_factor = nullptr;

  /// With the scale of the next span, of which the factor lies at `factor`.
  void add(float scale, uint8_t* factor) {
    set_factor(last_scale / scale);
    if (!(scale <= largest_scale)) largest_scale = scale;
    last_scale = scale;
    last_factor = factor;
  }
  void end() { set_factor(last_scale); }

 private:
  void set_factor(float factor) {
    if (last_factor != nullptr) __builtin_memcpy(last_factor, &factor, 4);
  }
};

/// Row `row` of the tile, the panel from first_block on. One loop over all peaks, one over all
/// scales, one over all values: what one part takes long for, the others do not wait for.
template <int kPartColumns>
inline void quantize_panel(const QuantizeTileTask& task, int64_t row, int64_t first_block,
                           SpanChain& chain) {
  constexpr int kParts = kBlockColumns / kPartColumns;
  constexpr bool kTwo = kPartColumns == 32;  // vectors in a part, and one reduction for both
  constexpr int64_t kMostParts = kParts * kPanelBlocks;
  const int64_t tile_rows = task.tile.rows;
  const int64_t row_bytes = kBlockColumns * task.value_bytes;
  const int64_t row_block_bytes = activation_block_bytes(1, kParts, task.value_bytes);
  const int64_t left = task.tile.num_blocks - first_block;
  const int64_t parts = kParts * (left < kPanelBlocks ? left : kPanelBlocks);
  const float* x = task.x + row * task.columns + first_block * kBlockColumns;
  // The last block may be there only to make a span whole.
  const int64_t left_parts = (task.columns / kBlockColumns - first_block) * kParts;
  const int64_t parts_of_x = parts < left_parts ? parts : left_parts;

  uint32_t peaks[kMostParts];
  for (int64_t p = parts_of_x; p < parts; ++p) peaks[p] = 0;
  for (int64_t p = 0; p < parts_of_x; ++p) {
    const float* at = x + p * kPartColumns;
    // The next panel of the row: the other rows of this one come first, and few processors follow
    // so many streams.
    for (int64_t i = 0; i < kPartColumns; i += 16) {
      prefetch(reinterpret_cast<const uint8_t*>(at + kPanelBlocks * kBlockColumns + i));
    }
    peaks[p] = max_magnitude_bits(load(at), kTwo ? load(at + 16) : zero());
  }

  uint8_t* blocks[kPanelBlocks];
  int32_t shifts[kMostParts];
  float steps[kMostParts];
  uint8_t* block = task.tiles + task.tile.at(first_block, row_block_bytes);
  const int64_t span_parts = task.tile.span_blocks * kParts;
  for (int64_t first = 0; first < parts; first += span_parts) {
    const int64_t end = first + span_parts < parts ? first + span_parts : parts;
    uint32_t peak = 0;
    for (int64_t p = first; p < end; ++p) peak = peaks[p] > peak ? peaks[p] : peak;
    const SpanScale span = SpanScale::of(peak, chain.largest_scale);
    for (int64_t p = first; p < end; ++p) {
      shifts[p] = span.shift(peaks[p], task.integer_scales ? kMostPairShift : kMostSpanShift);
      steps[p] = span.steps(shifts[p]);
    }
    for (int64_t b = first / kParts; b < end / kParts; ++b, block += tile_rows * row_block_bytes) {
      blocks[b] = block;
    }
    if (task.integer_scales) {
      const float scale = span.scale * exact_power_of_two(task.wide_dot_bits - kIntegerScaleBits);
      __builtin_memcpy(block + row * 4, &scale, 4);
    } else {
      chain.add(span.scale, block + row * 4);
    }
    block += tile_rows * 4;
  }

  int32_t sums[kMostParts];
  for (int64_t p = parts_of_x; p < parts; ++p) {
    __builtin_memset(blocks[p / kParts] + row * row_bytes, 0, static_cast<uint64_t>(row_bytes));
    sums[p] = 0;
  }
  for (int64_t p = 0; p < parts_of_x; ++p) {
    const float* at = x + p * kPartColumns;
    const F32x16 factor = set1(steps[p]);
    const auto rounded = [&](F32x16 v) HASTEN_INLINE {
      return to_int(min(max(mul(v, factor), set1(-127.0F)), set1(127.0F)));
    };
    uint8_t* values =
        blocks[p / kParts] + row * row_bytes + p % kParts * kPartColumns * task.value_bytes;
    I32x16 sum = rounded(load(at));
    store_values(values, sum, task.value_bytes);
    if constexpr (kTwo) {
      const I32x16 second = rounded(load(at + 16));
      store_values(values + 16 * task.value_bytes, second, task.value_bytes);
      sum = add_i32(sum, second);
    }
    sums[p] = reduce_add_i32(sum);
  }

  if (task.integer_scales) {
    for (int64_t p = 0; p < parts; ++p) {  // each is a block
      const int32_t right = shifts[p] + task.wide_dot_bits;
      const int32_t shift = p % 2 == 0 ? right : 16 - right;
      const int32_t start = (1 << right >> 1) - task.zero_point * sums[p];
      uint8_t* to = blocks[p] + tile_rows * row_bytes + row * 4;
      __builtin_memcpy(to, &shift, 4);
      __builtin_memcpy(to + tile_rows * 4, &start, 4);
    }
    return;
  }
  for (int64_t p = 0; p < parts; ++p) {
    uint8_t* bases = blocks[p / kParts] + tile_rows * (row_bytes + p % kParts * 8) + row * 4;
    const int32_t base = kFloatBits - shifts[p] * (1 << 23);
    const int32_t start = base - task.zero_point * sums[p];
    const float scaled_sum = static_cast<float>(sums[p]) * exact_power_of_two(-shifts[p]);
    __builtin_memcpy(bases, &base, 4);
    __builtin_memcpy(bases + tile_rows * 4,
                     task.offsets ? static_cast<const void*>(&scaled_sum) : &start, 4);
  }
}

/// values = round(x / scale), scale = peak / 127 of the span, less as many powers of two as a part
/// leaves. A row that holds infinity or NaN gets a scale that is none, so that its outputs say so.
/// All rows of a panel before the next panel: they share the lines that are written.
template <int kPartColumns>
inline void quantize_tile_in_parts(const QuantizeTileTask& task) {
  constexpr int kMostRows = kQuantRows > kQuantDirectRows ? kQuantRows : kQuantDirectRows;
  SpanChain chains[kMostRows];
  for (int64_t block = 0; block < task.tile.num_blocks; block += kPanelBlocks) {
    for (int64_t row = 0; row < task.tile.rows; ++row) {
      quantize_panel<kPartColumns>(task, row, block, chains[row]);
    }
  }
  for (int64_t row = 0; row < task.tile.rows; ++row) chains[row].end();
}

inline void quantize_tile(const QuantizeTileTask& task) {
  if (task.part_columns == 32) return quantize_tile_in_parts<32>(task);
  quantize_tile_in_parts<16>(task);
}

inline void rope_token(const RopeTokenTask& task) {
  for (int64_t h = 0; h < task.num_heads; ++h) {
    float* head = task.x + h * task.head_dim;
    if (task.interleaved) {
      for (int64_t j = 0; j < task.half; ++j) {
        const float a = head[2 * j];
        const float b = head[2 * j + 1];
        head[2 * j] = a * task.cos[j] - b * task.sin[j];
        head[2 * j + 1] = b * task.cos[j] + a * task.sin[j];
      }
      continue;
    }
    for (int64_t j = 0; j < task.half; ++j) {
      const float a = head[j];
      const float b = head[j + task.half];
      head[j] = a * task.cos[j] - b * task.sin[j];
      head[j + task.half] = b * task.cos[j] + a * task.sin[j];
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
