// SPDX-License-Identifier: Apache-2.0
// Packing of weights: 16 rows of a file's blocks become a group, codes and scales as they are. What
// four bytes of a row hold is brought into the row's lane first; the rest is the same for all
// lanes.
#pragma once

#include "backends/cpu/file_blocks.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/ask.inl"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Of a group, what is not read again before all of it is packed.
HASTEN_INLINE inline void put_line(const PackTask& task, uint8_t* to, U8x64 line) {
  if (task.past_caches)
    store_line_past_caches(to, line);
  else
    store_codes(to, line);
}

/// Bytes of a row that load_quads takes.
constexpr int64_t kQuadsBytes = 16;

// How often a line of the next rows is asked for; measured. Floats gain nothing by more of those
// into the first-level cache.
constexpr int kQuantizedAsks = 5;
constexpr int float_asks(CacheLevel into) { return into == CacheLevel::first ? 1 : 4; }

/// Fetches as many bytes of PackTask::next as are packed, some lines with each load_quads of
/// kLoads that take kBytes of each row: to see 16 rows coming is too much for a processor, and more
/// lines at a time than it has places to wait for stop it. A busy processor drops many of the lines
/// that it is asked for, so each is asked for kAsks times, 2 KiB apart.
template <int64_t kBytes, int kLoads, int kAsks, CacheLevel kInto>
struct NextRows {
  const uint8_t* at;

  template <int kLoad>
  HASTEN_INLINE void fetch() const {
    constexpr int64_t kLines = kGroupRows * kBytes / 64 + (kGroupRows * kBytes % 64 != 0);
    for (int64_t i = kLoad * kLines / kLoads; i < (kLoad + 1) * kLines / kLoads; ++i) {
      unroll<0, kAsks>([&](auto ask) HASTEN_INLINE {
        ask_for<kInto>(at + 64 * i - int64_t{2048} * decltype(ask)::value);
      });
    }
  }
};

/// The bytes [0, 4 * kQuads) of 16 rows in lanes: four of them to a vector of `quads`.
template <int kQuads, int kFirstLoad, class Next>
HASTEN_INLINE inline void bring_to_lanes(const uint8_t* rows, int64_t row_bytes, const Next& next,
                                         U8x64* quads) {
  unroll<0, kQuads / 4>([&](auto load) HASTEN_INLINE {
    constexpr int kLoad = decltype(load)::value;
    next.template fetch<kFirstLoad + kLoad>();
    load_quads(rows + kQuadsBytes * kLoad, row_bytes, quads + 4 * kLoad);
  });
}

/// The binary16 of a file's block: scales to `out` and, where there are any, offsets behind them.
template <FileBlock kBlock, PackedFormat kFormat>
HASTEN_INLINE inline void put_halves(const uint8_t* rows, int64_t row_bytes, uint8_t* out) {
  if constexpr (kFormat.offsets) {
    static_assert(kBlock.offset_at == kBlock.scale_at + 2);
    const U8x64 pairs = load_quad(rows + kBlock.scale_at, row_bytes);
    store_low_halves(out, pairs);
    store_high_halves(out + 2 * kGroupRows,
                      kFormat.super_scales ? flip_bits(pairs, 0x80000000U) : pairs);
  } else if constexpr (kBlock.scale_at == 0) {
    store_low_halves(out, load_quad(rows, row_bytes));
  } else {
    static_assert(kBlock.scale_at + 2 == kBlock.bytes);  // nothing behind it may be read
    store_high_halves(out, load_quad(rows + kBlock.scale_at - 2, row_bytes));
  }
}

/// The integer scales (and offsets) of a super-block's blocks, as UnitLayout has them.
template <InnerScales kInner>
HASTEN_INLINE inline void put_inner(const uint8_t* rows, int64_t row_bytes, uint8_t* out) {
  U8x64 quads[4];
  if constexpr (kInner == InnerScales::bytes) {
    load_quads(rows, row_bytes, quads);
    for (int i = 0; i < 4; ++i) store_bytes(out + 64 * i, kGroupRows, quads[i]);
  } else if constexpr (kInner == InnerScales::k) {
    load_quads(rows - 4, row_bytes, quads);
    const auto put_four = [&](int64_t first_pair, U8x64 scales, U8x64 offsets) HASTEN_INLINE {
      // Doubled; blocks in the order 0 2 1 3: those of a pair are now even bytes, or odd ones.
      const U8x64 s = exchange_bits<8>(shift_and<1>(scales, 254), 0x0000ff00);
      const U8x64 o = exchange_bits<8>(shift_and<1>(offsets, 254), 0x0000ff00);
      uint8_t* to = out + 64 * first_pair;
      store_codes(to, bit_or(shift_and<-8>(shift_and<8>(s, 255), 255), shift_and<8>(o, 255)));
      store_codes(to + 64, bit_or(shift_and<-8>(s, 255), shift_and<8>(shift_and<-8>(o, 255), 255)));
    };
    put_four(0, shift_and<0>(quads[1], 63), shift_and<0>(quads[2], 63));
    put_four(2, bit_or(shift_and<0>(quads[3], 15), shift_and<-2>(quads[1], 48)),
             bit_or(shift_and<-4>(quads[3], 15), shift_and<-2>(quads[2], 48)));
  } else if constexpr (kInner == InnerScales::q3_k) {
    load_quads(rows - 4, row_bytes, quads);  // the 12 bytes are followed by two only
    unroll<0, 4>([&](auto index) HASTEN_INLINE {
      constexpr int kIndex = decltype(index)::value;
      const U8x64 low = shift_and<-4 * (kIndex / 2)>(quads[1 + kIndex % 2], 15);
      const U8x64 high = shift_and<4 - 2 * kIndex>(quads[3], 48);
      store_bytes(out + 64 * kIndex, kGroupRows, add_bytes(bit_or(low, high), -32));
    });
  } else if constexpr (kInner == InnerScales::iq4_xs) {
    load_quads(rows - 2, row_bytes, quads);
    // The upper half holds two bits for each of eight scales: four for each byte below.
    const U8x64 halves = exchange_bits<16>(quads[0], 0x0000ffff);
    const U8x64 bytes = exchange_bits<8>(halves, 0x0000ff00);
    const U8x64 pairs = exchange_bits<4>(bytes, 0x00f000f0);
    const U8x64 low_even = bit_or(shift_and<0>(quads[1], 15), shift_and<4>(pairs, 48));
    const U8x64 low_odd = bit_or(shift_and<-4>(quads[1], 15), shift_and<2>(pairs, 48));
    const I32x16 even = as_lanes(shift_and<2>(add_bytes(low_even, -32), 252));
    const I32x16 odd = as_lanes(shift_and<2>(add_bytes(low_odd, -32), 252));
    store_i32(out, join_halves(even, shift_left(odd, 16)));
    store_i32(out + 64, join_halves(shift_right(even, 16), odd));
  }
}

/// Makes the packed planes (CodeBits) of a block, whose first quad of columns is kFirst, of planes
/// as the file has them in lanes; kFlip changes the sign of bytes.
template <CodePlanes kPlanes, int kFirst, bool kFlip>
HASTEN_INLINE inline void put_planes(const PackTask& task, const U8x64* quads, uint8_t* out) {
  constexpr int kQuads = 8 / kPlanes.bits;   // that share a vector
  constexpr int kWidth = kPlanes.width / 4;  // quads that share bits of their bytes in the file
  constexpr int kMask = (1 << kPlanes.bits) - 1;
  unroll<0, kPlanes.bits>([&](auto vector) HASTEN_INLINE {
    U8x64 bits = quads[0];
    unroll<0, kQuads>([&](auto index) HASTEN_INLINE {
      constexpr int kIndex = decltype(index)::value;
      constexpr int kQuad = kFirst + decltype(vector)::value * kQuads + kIndex;
      constexpr int kFrom = kPlanes.bits * (kQuad / kWidth % kQuads);
      constexpr int kTo = kPlanes.bits * kIndex;
      constexpr int kAt = kQuad / (kQuads * kWidth) * kWidth + kQuad % kWidth;
      const U8x64 moved = shift_and<kTo - kFrom>(quads[kAt], kMask << kTo);
      bits = kIndex == 0 ? moved : bit_or(bits, moved);
    });
    if constexpr (kFlip) bits = add_bytes(bits, -128);
    put_line(task, out + 64 * decltype(vector)::value, bits);
  });
}

/// Which of the 32 bits of a lane is column 4 * j + t goes from place 4 * j + t to 8 * t + j, where
/// a packed plane has it: the five bits of its number are turned by two, two exchanged at a time.
HASTEN_INLINE inline U8x64 turn_bits(U8x64 v) {
  v = exchange_bits<14>(v, 0x0000cccc);
  v = exchange_bits<7>(v, 0x00aa00aa);
  v = exchange_bits<2>(v, 0x0c0c0c0c);
  return exchange_bits<1>(v, 0x22222222);
}

/// The codes of one block of each row.
template <int kKind, CacheLevel kInto>
inline void pack_codes(const PackTask& task, const uint8_t* rows, const uint8_t* next_rows,
                       uint8_t* out) {
  const int64_t row_bytes = task.row_bytes;
  constexpr FileBlock kBlock = kFileBlocks[kKind];
  constexpr CodeBits kBits = kPackedFormats[kKind].bits;
  constexpr CodePlanes kLow = kBlock.low;
  constexpr CodePlanes kHigh = kBlock.high;
  constexpr bool kHasFifth = kBlock.fifth_at != 0;
  static_assert(code_bytes(kBits) == 64 * (kLow.bits + kHigh.bits + (kHasFifth ? 1 : 0)));

  constexpr int kLowQuads = kBlock.columns * kLow.bits / 32;
  constexpr int kHighQuads = kBlock.columns * kHigh.bits / 32;
  constexpr int kLowLoads = kLowQuads / 4;
  const NextRows<kBlock.bytes, kLowLoads + kHighQuads / 4, kQuantizedAsks, kInto> next{next_rows};
  U8x64 low[kLowQuads];
  bring_to_lanes<kLowQuads, 0>(rows + kLow.at, row_bytes, next, low);
  U8x64 high[kHighQuads + 1];
  bring_to_lanes<kHighQuads, kLowLoads>(rows + kHigh.at, row_bytes, next, high);
  unroll<0, kBlock.columns / kBlockColumns>([&](auto block) HASTEN_INLINE {
    constexpr int kIndex = decltype(block)::value;
    uint8_t* to = out + kIndex * code_bytes(kBits);
    put_planes<kLow, 8 * kIndex, kBlock.is_signed>(task, low, to);
    if constexpr (kHighQuads > 0)
      put_planes<kHigh, 8 * kIndex, false>(task, high, to + 64 * kLow.bits);
  });
  if constexpr (kHasFifth) {
    U8x64 quads[4];
    load_quads(rows + kBlock.fifth_at, row_bytes, quads);
    put_line(task, out + 64 * kLow.bits, turn_bits(quads[0]));
  }
}

template <int kKind, CacheLevel kInto>
inline void pack_blocks(const PackTask& task) {
  constexpr FileBlock kBlock = kFileBlocks[kKind];
  constexpr PackedFormat kFormat = kPackedFormats[kKind];
  constexpr UnitLayout kUnit = unit_layout(kFormat);
  constexpr int64_t kBlocks = kBlock.columns / kBlockColumns;
  constexpr int64_t kUnitFileBlocks = kUnit.blocks / kBlocks;
  const int64_t count = task.columns / kBlock.columns;
  if (count % kUnitFileBlocks != 0) {  // the last unit has no scales in some places
    __builtin_memset(task.out + count / kUnitFileBlocks * kUnit.bytes(), 0,
                     kFormat.super_scales ? kUnit.codes_at : kUnit.bytes());
  }
  for (int64_t b = 0; b < count; ++b) {
    const int64_t in_unit = b % kUnitFileBlocks;
    uint8_t* unit = task.out + b / kUnitFileBlocks * kUnit.bytes();
    const uint8_t* rows = task.rows + b * kBlock.bytes;
    uint8_t* halves = unit + in_unit * kUnit.half_bytes;
    put_halves<kBlock, kFormat>(rows, task.row_bytes, halves);
    put_inner<kBlock.inner>(rows + kBlock.inner_at, task.row_bytes,
                            unit + kUnit.inner_at + in_unit * kBlocks * kUnit.inner_bytes);
    pack_codes<kKind, kInto>(task, rows, task.next + kGroupRows * b * kBlock.bytes,
                             unit + kUnit.codes_at + in_unit * kBlocks * kUnit.code_bytes);
  }
}

template <int kKind>
void pack_quantized(const PackTask& task) {
  if constexpr (kMayAskIntoSecond) {
    if (task.asks_into == CacheLevel::second) return pack_blocks<kKind, CacheLevel::second>(task);
  }
  pack_blocks<kKind, CacheLevel::first>(task);
}

/// A row's unit is as small as int16 allow for its scales, its offsets and, so that sums fit in an
/// int32, its weights. Scales and offsets that are not finite give units that are NaN. A unit has
/// so many entries, of blocks or super-blocks.
template <bool kOffsets, int64_t kEntries>
inline int32_t make_integer_scales_of(const IntegerScalesTask& task) {
  constexpr int64_t kEntry = (kOffsets ? 2 : 1) * kGroupRows;  // binary16
  const F32x16 infinity = set1(__builtin_inff());
  const StackLayout& layout = task.layout;
  const UnitLayout unit = unit_layout(task.format);
  const auto for_each_unit = [&](auto&& f) {
    int64_t blocks = 0;
    for (int64_t strip = 0; strip < layout.num_blocks; strip += blocks) {
      blocks = blocks_from(layout, strip);
      uint8_t* at = task.matrix + unit_at(unit, layout, task.group, strip);
      for (int64_t b = 0; b < blocks; b += unit.blocks, at += unit.bytes()) {
        f(reinterpret_cast<uint16_t*>(at));
      }
    }
  };
  const auto magnitude = [&](F32x16 v) {  // infinity for NaN
    return select_less(abs(v), infinity, abs(v), infinity);
  };
  const auto parts = static_cast<float>(offset_parts(task.format));
  const F32x16 inverse_parts = set1(1 / parts);
  const F32x16 most_code = set1(parts - 1);
  F32x16 most = zero();
  for_each_unit([&](const uint16_t* scales) {
    for (int64_t e = 0; e < kEntries; ++e) {
      const uint16_t* at = scales + e * kEntry;
      const F32x16 scale = load_f16(at);
      most = max(most, magnitude(scale));
      if constexpr (kOffsets) {
        const F32x16 offset = load_f16(at + kGroupRows);
        const F32x16 largest = magnitude(add(mul(scale, most_code), offset));
        most = max(most, mul(max(magnitude(offset), largest), inverse_parts));
      }
    }
  });
  const float unit_parts = static_cast<float>(inner_unit(task.format) << kIntegerScaleBits);
  const F32x16 units = select_less(most, infinity, mul(most, set1(unit_parts / kMostIntegerScale)),
                                   set1(__builtin_nanf("")));
  store(reinterpret_cast<float*>(task.matrix + head_at(unit, layout, task.group)), units);
  const F32x16 inverse =
      select_less(zero(), units, div(set1(kMostIntegerScale), most), zero());  // NaN: zero
  const F32x16 limit = set1(kMostIntegerScale);
  const auto rounded = [&](F32x16 v) {
    const F32x16 finite = select_less(abs(v), infinity, v, zero());
    return to_int(max(min(mul(finite, inverse), limit), sub(zero(), limit)));
  };
  const float ratio = task.format.super_scales ? 2.0F / kMostScaleRatio : 1.0F / kMostScaleRatio;
  const F32x16 small = select_less(most, infinity, mul(most, set1(ratio)), zero());
  F32x16 majority = zero();  // of entries that ask for little: less the others, but for nothing
  const auto vote = [&](const uint16_t* at) {
    F32x16 asked = abs(load_f16(at));
    if constexpr (kOffsets) asked = max(asked, abs(mul(load_f16(at + kGroupRows), inverse_parts)));
    const F32x16 its = select_less(asked, small, set1(1.0F), set1(-1.0F));
    majority = add(majority, select_less(zero(), asked, its, zero()));
  };
  const auto rounded_scale = [&](const uint16_t* at) { return rounded(load_f16(at)); };
  const auto rounded_offset = [&](const uint16_t* at) {
    return rounded(mul(load_f16(at + kGroupRows), inverse_parts));
  };
  for_each_unit([&](uint16_t* at) {
    for (int64_t e = 0; e < kEntries; ++e) vote(at + e * kEntry);
    auto* to = reinterpret_cast<uint8_t*>(at);
    const auto put = [&](int64_t index, I32x16 low, I32x16 high) {
      store_i32(to + 64 * index, join_halves(low, shift_left(high, 16)));
    };
    const I32x16 first = rounded_scale(at);
    if constexpr (kEntries == 1) {
      put(0, first, rounded_offset(at));
    } else {
      const I32x16 second = rounded_scale(at + kEntry);
      if constexpr (kOffsets) {
        const I32x16 first_offset = rounded_offset(at);
        const I32x16 second_offset = rounded_offset(at + kEntry);
        put(1, first_offset, second_offset);
      }
      put(0, first, second);
    }
  });
  return static_cast<int32_t>(reduce_add(select_less(zero(), majority, set1(1.0F), zero())));
}

inline int32_t make_integer_scales(const IntegerScalesTask& task) {
  if (!task.format.offsets) return make_integer_scales_of<false, 2>(task);
  return task.format.super_scales ? make_integer_scales_of<true, 1>(task)
                                  : make_integer_scales_of<true, 2>(task);
}

/// [columns][16] of float, or of pairs of bf16; for f16 the halves of each pair come apart. Rows
/// often begin a multiple of 4 KiB apart, where a first-level cache has places for eight or twelve
/// of the sixteen lines: taken in pieces, a line would have to come again for each. It is copied
/// first, therefore.
template <FloatKind kKind, CacheLevel kInto>
inline void pack_lines(const PackTask& task) {
  constexpr int64_t kElementBytes = kKind == FloatKind::f32 ? 4 : 2;
  constexpr int64_t kRowPart = 64;  // bytes: a line
  const int64_t bytes = task.columns * kElementBytes;
  const auto pack_quads = [&](const uint8_t* rows, int64_t row_bytes, int64_t at) HASTEN_INLINE {
    U8x64 quads[4];
    const NextRows<kQuadsBytes, 1, float_asks(kInto), kInto> next{task.next + kGroupRows * at};
    bring_to_lanes<4, 0>(rows, row_bytes, next, quads);
    uint8_t* out = task.out + kGroupRows * at;
    for (int i = 0; i < 4; ++i) {
      if constexpr (kKind == FloatKind::f16) {
        store_low_halves(out + 64 * i, quads[i]);
        store_high_halves(out + 64 * i + 32, quads[i]);
      } else {
        put_line(task, out + 64 * i, quads[i]);
      }
    }
  };
  int64_t at = 0;
  for (; at + kRowPart <= bytes; at += kRowPart) {
    uint8_t lines[kGroupRows * kRowPart];
    for (int r = 0; r < kGroupRows; ++r) {
      __builtin_memcpy(lines + kRowPart * r, task.rows + r * task.row_bytes + at, kRowPart);
    }
    for (int64_t i = 0; i < kRowPart; i += kQuadsBytes) pack_quads(lines + i, kRowPart, at + i);
  }
  for (; at < bytes; at += kQuadsBytes) pack_quads(task.rows + at, task.row_bytes, at);
}

template <FloatKind kKind>
void pack_floats(const PackTask& task) {
  if constexpr (kMayAskIntoSecond) {
    if (task.asks_into == CacheLevel::second) return pack_lines<kKind, CacheLevel::second>(task);
  }
  pack_lines<kKind, CacheLevel::first>(task);
}

}  // namespace
}  // namespace hasten::cpu
