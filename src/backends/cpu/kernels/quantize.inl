// SPDX-License-Identifier: Apache-2.0
// Activations as int8, in the tiles of QuantizedRows: values = round(x / scale), where scale =
// peak / 127 of kScaleBlocks blocks, less as many powers of two as a part of a block leaves.
// Sixteen parts at a time, of one row or of some blocks of four: where there is one number for a
// part, each lane has one. A row that holds infinity or NaN gets a scale that is none, so that its
// outputs say so.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/packed_weights.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

constexpr int kBatchParts = 16;

/// How the activations of some weights are quantised: see PackedFormat and QuantizedRows.
template <int kColumns, int kSpan, ScaleKind kKind, int kBytes>
struct QuantizeKind {
  static constexpr int kPartColumns = kColumns;
  static constexpr int kParts = kBlockColumns / kColumns;
  static constexpr int kSpanBlocks = kSpan;
  static constexpr int kBatchBlocks = kBatchParts / kParts;
  static constexpr ScaleKind kScaleKind = kKind;
  static constexpr bool kIntegerScales = kKind != ScaleKind::floats;
  static constexpr int64_t kSpanBytes = activation_span_bytes(kKind);
  static constexpr int kValueBytes = kBytes;
};

/// 2^n for n in [-126, 127].
HASTEN_INLINE inline float exact_power_of_two(int32_t n) {
  return __builtin_bit_cast(float, (n + 127) << 23);
}

/// Writes 16 values to the places of QuantizedRows.
template <int kValueBytes, class Values>
HASTEN_INLINE inline void store_values(uint8_t* at, Values values) {
  if constexpr (kValueBytes == 2) {
    store_split_i16(at, values);
  } else {
    store_i8(reinterpret_cast<int8_t*>(at), values);
  }
}

/// Of a row whose spans are quantised one after another: what the next one has to know.
struct SpanChain {
  float last_scale = 0;
  float largest_peak = 0;
  uint8_t* last_factor = nullptr;

  /// The next span has that scale, and its factor will lie at `factor`: writes that of the last.
  HASTEN_INLINE void add(float scale, uint8_t* factor) {
    set_factor(last_scale / scale);
    last_scale = scale;
    last_factor = factor;
  }
  HASTEN_INLINE void end() const { set_factor(last_scale); }
  /// What was written at `from`, the last factor's place among it, lies at `to` now.
  HASTEN_INLINE void move(const uint8_t* from, uint8_t* to) {
    last_factor = to + (last_factor - from);
  }

 private:
  HASTEN_INLINE void set_factor(float factor) const {
    if (last_factor != nullptr) __builtin_memcpy(last_factor, &factor, 4);
  }
};

/// The lanes of all parts that have one scale become the largest of them.
template <int kScaleParts>
HASTEN_INLINE inline I32x16 largest_of_each(I32x16 v) {
  static_assert(kScaleParts == 4 || kScaleParts == 8);
  v = max_i32(v, swap_lanes<1>(v));
  v = max_i32(v, swap_lanes<2>(v));
  if constexpr (kScaleParts == 8) v = max_i32(v, swap_lanes<4>(v));
  return v;
}

/// How parts are brought to whole numbers.
struct PartScales {
  F32x16 of_spans;  // NaN if a value with that scale is not a number or infinite
  F32x16 steps;     // what the part's values are multiplied with: at most 1e38, so that values
                    // below about 1e-36 come out smaller than they are
  I32x16 shifts;    // how often the part is doubled before
};

/// `peaks`: bits of the parts' largest magnitudes. The chain learns of the largest of them.
template <class Kind>
HASTEN_INLINE inline PartScales scales_of(I32x16 peaks, SpanChain& chain) {
  const F32x16 largest = as_float(largest_of_each<kScaleBlocks * Kind::kParts>(peaks));
  F32x16 scale_peaks = min(largest, set1(3.40282347e38F));
  // Below, 127 / peak overflows, or the scale times 2^-kIntegerScaleBits is subnormal.
  float least = Kind::kIntegerScales ? 5e-32F : 1e-35F;
  if constexpr (!Kind::kIntegerScales) {
    // So that no quotient of scales overflows: what is smaller than 2^-kMostSpanShift of the row's
    // largest value, up to the end of this batch, is as good as zero.
    const float most = reduce_max(scale_peaks);
    if (most > chain.largest_peak) chain.largest_peak = most;
    const float smallest = chain.largest_peak * exact_power_of_two(-kMostSpanShift);
    if (smallest > least) least = smallest;
  }
  scale_peaks = max(scale_peaks, set1(least));
  // The difference of the bits is one of exponents, less one where the part's mantissa is larger:
  // so often can it be doubled before its peak exceeds the largest.
  constexpr int32_t kMostShift = Kind::kIntegerScales ? kMostPairShift : kMostSpanShift;
  const I32x16 doublings = shift_right(sub_i32(as_bits(scale_peaks), peaks), 23);
  const I32x16 shifts = min_i32(max_i32(doublings, zero_i32()), set1_i32(kMostShift));
  const F32x16 steps = mul(div(set1(127.0F), scale_peaks), power_of_two(shifts));
  const F32x16 none = mul(largest, zero());  // NaN of what is infinite or none
  return {add(div(scale_peaks, set1(127.0F)), none), min(steps, set1(1e38F)), shifts};
}

/// A block of a tile, or what lies behind it, and a row of the tile.
struct TilePlace {
  uint8_t* at;
  int64_t row;
  int64_t tile_rows;
};

/// Sixteen parts of one row, or fewer at its end: where they are read and written.
template <class Kind>
struct PartsOfRow {
  static constexpr int64_t kPartColumns = Kind::kPartColumns;

  const float* x;
  uint8_t* to;          // the tile's first block of these
  int64_t row;          // of the tile
  int64_t tile_rows;    // of it
  int64_t num_blocks;   // that are written
  int64_t blocks_of_x;  // of them; the last may be there only to make a span whole

  HASTEN_INLINE bool are_whole() const { return blocks_of_x >= Kind::kBatchBlocks; }
  HASTEN_INLINE bool has_values(int64_t part) const { return part < blocks_of_x * Kind::kParts; }
  /// Vector i of part `part`.
  HASTEN_INLINE F32x16 vector(int64_t part, int64_t i) const {
    return load(x + part * kPartColumns + 16 * i);
  }
  /// The next panel of the row: the other rows of this one come first, and few processors follow so
  /// many streams.
  HASTEN_INLINE void fetch_next(int64_t part) const {
    const float* at = x + part * kPartColumns + kPanelBlocks * kBlockColumns;
    for (int64_t i = 0; i < kPartColumns; i += 16) {
      prefetch(reinterpret_cast<const uint8_t*>(at + i));
    }
  }

  /// f(block, its place) of all blocks, g(last block, the place behind it) of all spans; places are
  /// of the tile, and of this row of it.
  template <class F, class G>
  HASTEN_INLINE void for_each(F&& f, G&& g) const {
    TilePlace place{.at = to, .row = row, .tile_rows = tile_rows};
    for (int64_t first = 0; first < num_blocks; first += Kind::kSpanBlocks) {
      const int64_t behind = first + Kind::kSpanBlocks;
      const int64_t end = behind < num_blocks ? behind : num_blocks;
      for (int64_t b = first; b < end; ++b) {
        f(b, place);
        place.at += activation_block_bytes(tile_rows, Kind::kParts, Kind::kValueBytes);
      }
      g(end - 1, place);
      place.at += Kind::kSpanBytes * tile_rows;
    }
  }
  HASTEN_INLINE int64_t num_parts() const { return num_blocks * Kind::kParts; }
};

/// The four parts of two spans, of four rows.
template <class Kind>
struct PartsOfSpans {
  static_assert(Kind::kParts == 1 && Kind::kSpanBlocks == 2 && Kind::kPartColumns == 32);
  static constexpr int kRows = kBatchParts / kScaleBlocks;

  const float* const* groups;  // eight
  int64_t offsets[kRows];      // of the rows, floats from there on
  TilePlace places[kRows];     // of the first block

  static constexpr bool are_whole() { return true; }
  static constexpr bool has_values(int64_t /*part*/) { return true; }
  static constexpr int64_t num_parts() { return kBatchParts; }
  HASTEN_INLINE F32x16 vector(int64_t part, int64_t i) const {
    return load(groups[part % kScaleBlocks * 2 + i] + offsets[part / kScaleBlocks]);
  }
  HASTEN_INLINE void fetch_next(int64_t /*part*/) const {}
  template <class F, class G>
  HASTEN_INLINE void for_each(F&& f, G&& g) const {
    for (int64_t i = 0; i < kRows; ++i) {
      TilePlace place = places[i];
      const int64_t block_bytes = activation_block_bytes(place.tile_rows, 1, Kind::kValueBytes);
      for (int64_t b = kScaleBlocks * i; b < kScaleBlocks * (i + 1); ++b) {
        f(b, place);
        place.at += block_bytes;
        if (b % 2 == 0) continue;
        g(b, place);
        place.at += Kind::kSpanBytes * place.tile_rows;
      }
    }
  }
};

/// Sixteen parts, which are PartsOfRow or PartsOfSpans.
template <class Kind, class Parts>
struct PartBatch {
  static constexpr int kParts = Kind::kParts;
  static constexpr int64_t kPartColumns = Kind::kPartColumns;
  static constexpr int64_t kValueBytes = Kind::kValueBytes;
  static constexpr bool kTwo = kPartColumns == 32;  // vectors in a part

  const Parts& parts;

  /// Bits of the largest magnitude of each part.
  template <bool kWhole>
  HASTEN_INLINE I32x16 peaks() const {
    return reduce_each_max([&](auto part) HASTEN_INLINE {
      constexpr int kPart = decltype(part)::value;
      if (!kWhole && !parts.has_values(kPart)) return zero_i32();
      parts.fetch_next(kPart);
      return max_magnitudes(parts.vector(kPart, 0), kTwo ? parts.vector(kPart, 1) : zero());
    });
  }

  /// Writes the values, each times the steps of its part; returns their sums.
  HASTEN_INLINE I32x16 write_values(F32x16 part_steps) const {
    alignas(64) float steps[kBatchParts];
    store(steps, part_steps);
    I32x16 sums[kBatchParts];
    const auto write_block = [&](int64_t b, const TilePlace& place) HASTEN_INLINE {
      uint8_t* at = place.at + place.row * kBlockColumns * kValueBytes;
      for (int p = 0; p < kParts; ++p, at += kPartColumns * kValueBytes) {
        const int64_t part = b * kParts + p;
        const F32x16 factor = set1(steps[part]);
        const auto write = [&](int64_t i) HASTEN_INLINE {
          const F32x16 v = parts.has_values(part) ? parts.vector(part, i) : zero();
          const I32x16 values = to_int(min(max(mul(v, factor), set1(-127.0F)), set1(127.0F)));
          store_values<kValueBytes>(at + 16 * i * kValueBytes, values);
          return values;
        };
        sums[part] = write(0);
        if constexpr (kTwo) sums[part] = add_i32(sums[part], write(1));
      }
    };
    parts.for_each(write_block, [](int64_t, const TilePlace&) HASTEN_INLINE {});
    for (int64_t p = parts.num_parts(); p < kBatchParts; ++p) sums[p] = zero_i32();
    return reduce_each_add([&](auto part) HASTEN_INLINE { return sums[part.value]; });
  }

  /// Two numbers of each part, and one of each span, beside those of the other rows:
  /// span(last block, its place, the tile's rows).
  template <class Span>
  HASTEN_INLINE void write_numbers(I32x16 first, I32x16 second, Span&& span) const {
    alignas(64) int32_t firsts[kBatchParts];
    alignas(64) int32_t seconds[kBatchParts];
    store_i32(reinterpret_cast<uint8_t*>(firsts), first);
    store_i32(reinterpret_cast<uint8_t*>(seconds), second);
    parts.for_each(
        [&](int64_t b, const TilePlace& place) HASTEN_INLINE {
          uint8_t* at = place.at + place.tile_rows * kBlockColumns * kValueBytes + 4 * place.row;
          for (int p = 0; p < kParts; ++p, at += 8 * place.tile_rows) {
            __builtin_memcpy(at, firsts + b * kParts + p, 4);
            __builtin_memcpy(at + 4 * place.tile_rows, seconds + b * kParts + p, 4);
          }
        },
        [&](int64_t b, const TilePlace& place)
            HASTEN_INLINE { span(b, place.at + 4 * place.row, place.tile_rows); });
  }

  HASTEN_INLINE void quantize(const PackedFormat& format, SpanChain& chain) const {
    const PartScales scales =
        scales_of<Kind>(parts.are_whole() ? peaks<true>() : peaks<false>(), chain);
    const I32x16 sums = write_values(scales.steps);
    const I32x16 excess = mul_i32(sums, set1_i32(format.zero_point));
    alignas(64) float of_spans[kBatchParts];
    if constexpr (Kind::kIntegerScales) {
      static_assert(kParts == 1 && Kind::kSpanBlocks == 2);
      // Of each span's first block to the right, of its second one 16 less that to the left.
      alignas(64) static constexpr int32_t kFactors[] = {1, -1, 1, -1, 1, -1, 1, -1,
                                                         1, -1, 1, -1, 1, -1, 1, -1};
      alignas(64) static constexpr int32_t kAddends[] = {0, 16, 0, 16, 0, 16, 0, 16,
                                                         0, 16, 0, 16, 0, 16, 0, 16};
      // Ties are rounded up in a first block and down in a second one: all of them up would add
      // half of a dot product's unit for each block to all outputs.
      alignas(64) static constexpr int32_t kIsSecond[] = {0, 1, 0, 1, 0, 1, 0, 1,
                                                          0, 1, 0, 1, 0, 1, 0, 1};
      const int dot_bits = wide_dot_bits(format);
      const I32x16 right = add_i32(scales.shifts, set1_i32(dot_bits));
      const I32x16 half = to_int(power_of_two(sub_i32(right, set1_i32(1))));  // 0 of 1/2
      const I32x16 start = sub_i32(half, min_i32(half, load_i32(kIsSecond)));
      store(of_spans, mul(scales.of_spans, set1(exact_power_of_two(dot_bits - kIntegerScaleBits))));
      alignas(64) int32_t shifted[kBatchParts];  // sums
      if constexpr (Kind::kScaleKind == ScaleKind::integers_and_offsets) {
        const F32x16 factors = power_of_two(sub_i32(set1_i32(kSumBits), scales.shifts));
        store_i32(reinterpret_cast<uint8_t*>(shifted), to_int(mul(to_float(sums), factors)));
      }
      write_numbers(add_i32(mul_i32(right, load_i32(kFactors)), load_i32(kAddends)),
                    sub_i32(start, excess),
                    [&](int64_t b, uint8_t* scale, int64_t tile_rows) HASTEN_INLINE {
                      __builtin_memcpy(scale, of_spans + b, 4);
                      if constexpr (Kind::kScaleKind == ScaleKind::integers_and_offsets) {
                        const auto low = static_cast<uint16_t>(shifted[b - 1]);
                        const uint32_t joined = static_cast<uint32_t>(shifted[b]) << 16 | low;
                        __builtin_memcpy(scale + 4 * tile_rows, &joined, 4);
                      }
                    });
    } else {
      const I32x16 bases = sub_i32(set1_i32(kFloatBits), shift_left(scales.shifts, 23));
      const F32x16 shifted_sums =
          mul(to_float(sums), power_of_two(sub_i32(zero_i32(), scales.shifts)));
      store(of_spans, scales.of_spans);
      write_numbers(bases, format.offsets ? as_bits(shifted_sums) : sub_i32(bases, excess),
                    [&](int64_t b, uint8_t* factor, int64_t)
                        HASTEN_INLINE { chain.add(of_spans[b * kParts], factor); });
    }
  }
};

/// Copies what one thread has written and all will read behind order_stores(): past the caches if
/// `to` is a multiple of 16, but for the last bytes.
HASTEN_INLINE inline void publish(const uint8_t* from, int64_t bytes, uint8_t* to) {
  const int64_t past = reinterpret_cast<uintptr_t>(to) % 16 == 0 ? bytes / 16 * 16 : 0;
  for (int64_t i = 0; i < past; i += 16) store_past_caches(from + i, to + i);
  __builtin_memcpy(to + past, from + past, bytes - past);
}

/// All rows of a panel before the next panel: they share the lines that are written. A panel is
/// made in memory of this thread's own: in that of all threads each line has to come back from
/// another core's cache, and of stores of four bytes few wait for theirs at the same time. With
/// floats for scales the copy waits, too, but in wide stores.
template <class Kind>
inline void quantize_tile_of(const QuantizeTileTask& task) {
  constexpr int kMostRows = kQuantRows > kQuantDirectRows ? kQuantRows : kQuantDirectRows;
  constexpr int64_t kRowBlockBytes = activation_block_bytes(1, Kind::kParts, Kind::kValueBytes);
  static_assert(kPanelBlocks % Kind::kBatchBlocks == 0);
  constexpr int64_t kMostBytes =
      activation_bytes(kMostRows, kPanelBlocks, Kind::kParts, Kind::kValueBytes, Kind::kSpanBlocks,
                       Kind::kSpanBytes);
  const int64_t num_blocks = task.tile.num_blocks;
  alignas(64) uint8_t own[kMostBytes];
  SpanChain chains[kMostRows];
  const ActivationTile own_tile{.num_rows = task.tile.rows,
                                .num_blocks = kPanelBlocks,
                                .span_blocks = Kind::kSpanBlocks,
                                .span_bytes = Kind::kSpanBytes,
                                .first_row = 0,
                                .rows = task.tile.rows};
  for (int64_t panel = 0; panel < num_blocks; panel += kPanelBlocks) {
    const int64_t end = panel + kPanelBlocks < num_blocks ? panel + kPanelBlocks : num_blocks;
    for (int64_t row = 0; row < task.tile.rows; ++row) {
      for (int64_t first = panel; first < end; first += Kind::kBatchBlocks) {
        const int64_t left = end - first;
        const PartsOfRow<Kind> parts{
            .x = task.x + row * task.columns + first * kBlockColumns,
            .to = own + own_tile.at(first - panel, kRowBlockBytes),
            .row = row,
            .tile_rows = task.tile.rows,
            .num_blocks = left < Kind::kBatchBlocks ? left : Kind::kBatchBlocks,
            .blocks_of_x = task.columns / kBlockColumns - first};
        PartBatch<Kind, PartsOfRow<Kind>>{parts}.quantize(task.format, chains[row]);
      }
    }
    uint8_t* const to = task.tiles + task.tile.at(panel, kRowBlockBytes);
    const int64_t bytes = activation_bytes(task.tile.rows, end - panel, Kind::kParts,
                                           Kind::kValueBytes, Kind::kSpanBlocks, Kind::kSpanBytes);
    if constexpr (Kind::kIntegerScales) {
      publish(own, bytes, to);
    } else {
      // Not past the caches: each row's last factor is written there later.
      __builtin_memcpy(to, own, bytes);
      for (int64_t row = 0; row < task.tile.rows; ++row) chains[row].move(own, to);
    }
  }
  if constexpr (Kind::kIntegerScales) {
    order_stores();
  } else {
    for (int64_t row = 0; row < task.tile.rows; ++row) chains[row].end();
  }
}

/// Four rows at a time, of one tile after the other.
template <class Kind>
inline void quantize_spans_of(const QuantizeSpansTask& task) {
  using Parts = PartsOfSpans<Kind>;
  constexpr int64_t kRowBlockBytes = activation_block_bytes(1, Kind::kParts, Kind::kValueBytes);
  Parts parts{.groups = task.groups, .offsets = {}, .places = {}};
  const PartBatch<Kind, Parts> batch{parts};
  SpanChain none;  // integer scales have no factors
  int count = 0;
  int64_t offset = 0;
  for (int64_t t = task.first_tile; t < task.end_tile; ++t) {
    const int64_t first_row = task.split.first_row(t);
    const ActivationTile tile{.num_rows = task.split.num_rows,
                              .num_blocks = task.num_blocks,
                              .span_blocks = Kind::kSpanBlocks,
                              .span_bytes = Kind::kSpanBytes,
                              .first_row = first_row,
                              .rows = task.split.first_row(t + 1) - first_row};
    uint8_t* at = task.tiles + tile.at(task.block, kRowBlockBytes);
    for (int64_t row = 0; row < tile.rows; ++row, offset += task.stride) {
      parts.offsets[count] = offset;
      parts.places[count] = {.at = at, .row = row, .tile_rows = tile.rows};
      if (++count < Parts::kRows) continue;
      batch.quantize(task.format, none);
      count = 0;
    }
  }
  if (count == 0) return;
  for (int i = count; i < Parts::kRows; ++i) {  // the last one again
    parts.offsets[i] = parts.offsets[count - 1];
    parts.places[i] = parts.places[count - 1];
  }
  batch.quantize(task.format, none);
}

template <int kValueBytes>
inline void quantize_spans_to(const QuantizeSpansTask& task) {
  if (task.format.offsets) {
    using Kind = QuantizeKind<32, 2, ScaleKind::integers_and_offsets, kValueBytes>;
    return quantize_spans_of<Kind>(task);
  }
  quantize_spans_of<QuantizeKind<32, 2, ScaleKind::integers, kValueBytes>>(task);
}

inline void quantize_spans(const QuantizeSpansTask& task) {
  if constexpr (kSplitsWideCodes) {
    if (task.value_bytes == 2) return quantize_spans_to<2>(task);
  }
  quantize_spans_to<1>(task);
}

template <int kValueBytes>
inline void quantize_tile_to(const QuantizeTileTask& task) {
  switch (scale_kind(task.format)) {
    case ScaleKind::floats:
      return quantize_tile_of<QuantizeKind<16, 4, ScaleKind::floats, kValueBytes>>(task);
    case ScaleKind::integers:
      return quantize_tile_of<QuantizeKind<32, 2, ScaleKind::integers, kValueBytes>>(task);
    case ScaleKind::integers_and_offsets:
      return quantize_tile_of<QuantizeKind<32, 2, ScaleKind::integers_and_offsets, kValueBytes>>(
          task);
  }
}

/// With integer scales, whether a dot product of a block fits in an int16, what it is shifted by in
/// 16 bits, and the sum of products of kScaleBlocks blocks in an int32.
constexpr bool fits_integer_scales(const PackedFormat& format) {
  constexpr int64_t kMostSum = int64_t{127} * kBlockColumns;
  constexpr int64_t kLimit = int64_t{1} << 31;
  const int bits = wide_dot_bits(format);
  if (kMostPairShift + bits > 16) return false;
  if (!format.offsets) {
    // One that is an int16 as it is (PackedStrip::kNarrow) has half of its last kept bit added
    // before it is shifted.
    const int64_t half = bits == 0 ? int64_t{1} << (kMostPairShift - 1) : 0;
    return most_level(format) <= 2 * format.zero_point &&
           (kMostSum * format.zero_point >> bits) + half < 32768 &&
           ((kMostSum * format.zero_point >> bits) + 1) * kScaleBlocks * kMostIntegerScale < kLimit;
  }
  // What products and sums of offsets make together is at most the activations times the largest
  // weight, which is offset_parts() times the largest scale at most (make_integer_scales), and what
  // each of the four products is rounded by: less than one in both of its factors.
  return format.zero_point == 0 && offset_parts(format) == 1 << (bits + kSumBits) &&
         (kMostSum << kSumBits) < 32768 &&
         ((kMostSum << kSumBits) * kMostIntegerScale + 2 * 32768 + 2 * 32768) * kScaleBlocks <
             kLimit;
}

/// Whether there is a QuantizeKind for the format.
constexpr bool is_known(const PackedFormat& format) {
  if (has_integer_scales(format)) return fits_integer_scales(format);
  return format.scales_per_block == 2 && format.super_scales &&
         format.offsets != format.signed_scales;
}
constexpr bool all_are_known() {
  for (const PackedFormat& format : kPackedFormats) {
    if (!is_known(format)) return false;
  }
  return true;
}
static_assert(all_are_known());

inline void quantize_tile(const QuantizeTileTask& task) {
  if constexpr (kSplitsWideCodes) {
    if (task.value_bytes == 2) return quantize_tile_to<2>(task);
  }
  quantize_tile_to<1>(task);
}

}  // namespace
}  // namespace hasten::cpu
