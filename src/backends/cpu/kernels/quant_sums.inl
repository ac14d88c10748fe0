// SPDX-License-Identifier: Apache-2.0
// Sums of products of quantised weights with activations of eight bits. Each output element is
// summed in one order, part after part along the columns, however many rows there are:
//   dot    = -zero_point * sum(x) + sum(code * x), in integers, exact;
//   total += 2^k * dot * scale;
//   total += 2^k * sum(x) * offset, of weights that have offsets;
// and behind each span of blocks, whose parts share an activation scale but for the 2^k,
//   total *= the span's scale / that of the next one, which is 1 behind the last.
// The dot products start at the bits of 2^k * kFloatBase: theirs are floats then, times 2^k, and
// what is left beside them is one subtraction and one multiplication, where a conversion or a scale
// of its own would take another turn of the two ports that the products need.
// Weights with integer scales are summed a pair of blocks after the other:
//   dot    = (start + sum(code * x)) >> n, of each block, an int16: start has -zero_point * sum(x),
//            and half of 2^n to round (QuantizedRows);
//   sum    = dot * scale + dot of the second block * its scale, in integers, and, of weights that
//            have offsets, + sum(x) * offset of each block, whose sums are shifted likewise; of
//            two pairs that have one scale of activations, or of a last one alone;
//   total += sum * that scale, which has 2^-kIntegerScaleBits;
// and total *= the unit of the row's scales, in the end: until then it is as much larger as the
// unit is smaller than 1, and overflows sooner than the output.
#pragma once

#include "backends/cpu/kernels/packed_weights.inl"

namespace hasten::cpu {
namespace {

/// dot[g][r] += part kPart of a block of source g times row r of the tile of activations at x.
/// Calls behind_quad(Constant<i>) behind the products of quad i of the block.
template <int kPart, int kGroups, int kRows, class Source, class F>
HASTEN_INLINE inline void multiply_part(const Source (&sources)[kGroups], int64_t block,
                                        const uint8_t* x, I32x16 (&dot)[kGroups][kRows],
                                        F&& behind_quad) {
  constexpr int kQuads = 8 / Source::kParts;
  constexpr int kFirst = kPart * kQuads;
  if constexpr (Source::kSplit) {
    unroll<2 * kFirst, 2 * (kFirst + kQuads)>([&](auto index) HASTEN_INLINE {
      constexpr int kIndex = decltype(index)::value;
      for (int g = 0; g < kGroups; ++g) {
        const auto codes = sources[g].template split_codes<kIndex>(block);
        for (int r = 0; r < kRows; ++r) {
          const auto pair = load_scalar<int32_t>(x + 2 * r * kBlockColumns + 4 * kIndex);
          dot[g][r] = add_pair_products(dot[g][r], codes, pair);
        }
      }
      if constexpr (kIndex % 2 == 1) behind_quad(Constant<kIndex / 2>{});
    });
  } else {
    constexpr int kRun = Source::kRun;
    static_assert(kQuads % kRun == 0);
    unroll<0, kQuads / kRun>([&](auto index_of_run) HASTEN_INLINE {
      constexpr int kFirstOfRun = kFirst + kRun * decltype(index_of_run)::value;
      ProductRun run[kGroups][kRows];
      unroll_tile<kGroups, kRows>([&](auto g, auto r) HASTEN_INLINE {
        run[g.value][r.value] = begin_run(dot[g.value][r.value]);
      });
      unroll<kFirstOfRun, kFirstOfRun + kRun>([&](auto index) HASTEN_INLINE {
        constexpr int kIndex = decltype(index)::value;
        U8x64 codes[kGroups];
        unroll<0, kGroups>([&](auto g) HASTEN_INLINE {
          codes[g.value] = sources[g.value].template codes<kIndex>(block);
        });
        unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
          const auto quad = load_scalar<int32_t>(x + r.value * kBlockColumns + 4 * kIndex);
          run[g.value][r.value] = add_products(run[g.value][r.value], codes[g.value], quad);
        });
        behind_quad(index);
      });
      unroll_tile<kGroups, kRows>([&](auto g, auto r) HASTEN_INLINE {
        dot[g.value][r.value] = end_run(dot[g.value][r.value], run[g.value][r.value]);
      });
    });
  }
}

/// total[g][r] += the first `count` blocks of source g times row r of a tile of activations, whose
/// matching blocks begin at x. Calls before_block(i) before block i.
template <int kGroups, int kRows, class Source, class F>
HASTEN_INLINE inline void accumulate(const Source (&sources)[kGroups], int64_t count,
                                     const uint8_t* x, F32x16 (&total)[kGroups][kRows],
                                     F&& before_block) {
  constexpr int kParts = Source::kParts;
  constexpr int kValueBytes = Source::kSplit ? 2 : 1;
  for (int64_t i = 0; i < count; ++i, x += activation_block_bytes(kRows, kParts, kValueBytes)) {
    before_block(i);
    unroll<0, kParts>([&](auto part_index) HASTEN_INLINE {
      constexpr int kPart = decltype(part_index)::value;
      const uint8_t* bases = x + kRows * (kBlockColumns * kValueBytes + 8 * kPart);
      const uint8_t* sums = bases + kRows * 4;
      I32x16 dot[kGroups][kRows];
      for (int r = 0; r < kRows; ++r) {
        const I32x16 start =
            set1_i32(load_scalar<int32_t>((Source::kOffsets ? bases : sums) + 4 * r));
        for (int g = 0; g < kGroups; ++g) dot[g][r] = start;
      }
      multiply_part<kPart>(sources, i, x, dot, [](auto) HASTEN_INLINE {});
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 scale = sources[g].scale(i, kPart);
        for (int r = 0; r < kRows; ++r) {
          const F32x16 base = set1(load_scalar<float>(bases + 4 * r));
          add_product(total[g][r], sub(as_float(dot[g][r]), base), scale);
        }
        if constexpr (Source::kOffsets) {
          const F32x16 offset = sources[g].offset(i, kPart);
          for (int r = 0; r < kRows; ++r) {
            add_product(total[g][r], set1(load_scalar<float>(sums + 4 * r)), offset);
          }
        }
      }
    });
    constexpr int kSpan = Source::kSpanBlocks;
    if (i % kSpan == kSpan - 1 || i == count - 1) {
      const uint8_t* factors = x + activation_block_bytes(kRows, kParts, kValueBytes);
      for (int r = 0; r < kRows; ++r) {
        const F32x16 factor = set1(load_scalar<float>(factors + 4 * r));
        for (int g = 0; g < kGroups; ++g) total[g][r] = mul(total[g][r], factor);
      }
      x += 4 * kRows;
    }
  }
}

/// A pair of blocks in a tile of kRows rows of activations for weights with integer scales: where
/// the values of its blocks are, and its numbers (QuantizedRows).
template <class Source, int kRows>
struct PairOfTile {
  static constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, Source::kSplit ? 2 : 1);
  static constexpr int64_t kBytes = 2 * kBlockBytes + Source::kSpanBytes * kRows;
  static constexpr int64_t kNumbersAt = kBlockBytes - 8 * kRows;

  const uint8_t* at;

  HASTEN_INLINE const uint8_t* block(int index) const { return at + index * kBlockBytes; }
  HASTEN_INLINE I32x16 start(int index, int row) const {
    return set1_i32(load_scalar<int32_t>(block(index) + kNumbersAt + 4 * (kRows + row)));
  }
  HASTEN_INLINE int32_t shift(int index, int row) const {
    return load_scalar<int32_t>(block(index) + kNumbersAt + 4 * row);
  }
  HASTEN_INLINE F32x16 scale(int row) const { return set1(load_scalar<float>(block(2) + 4 * row)); }
  HASTEN_INLINE int32_t sums(int row) const {
    return load_scalar<int32_t>(block(2) + 4 * (kRows + row));
  }
};

/// The dot products of a first block as they wait for those of the second: shifted, unless
/// join_pair() does it (kNarrow).
template <class Source>
HASTEN_INLINE inline I32x16 first_of_pair(I32x16 dot, int32_t shift) {
  return Source::kNarrow ? dot : shift_right(dot, shift);
}
/// The int16 of both blocks side by side; of `first`, the lower halves of lanes.
template <class Source>
HASTEN_INLINE inline I32x16 join_pair(I32x16 first, int32_t first_shift, I32x16 second,
                                      int32_t second_shift) {
  second = shift_left(second, second_shift);
  return Source::kNarrow ? join_shifted(first, first_shift, second) : join_halves(first, second);
}

/// Where a pair of blocks is among those with one scale.
enum class PairPlace : uint8_t { first, second, alone };

/// Whether the pair that begins with this block is the second of two.
HASTEN_INLINE inline bool is_second_pair(int64_t block) { return block % kScaleBlocks != 0; }

/// The sum of what the pair that begins with `block` makes for a row of a tile, x, and, of a second
/// one, `first`, that of the first, which others need not have. `dots`: of both blocks.
template <PairPlace kPlace, int kRows, class Source>
HASTEN_INLINE inline I32x16 sum_of_pair(const I32x16& first, I32x16 dots, const Source& source,
                                        int64_t block, const PairOfTile<Source, kRows>& x,
                                        int row) {
  I32x16 sum =
      add_pairs(kPlace == PairPlace::second ? first : zero_i32(), dots, source.pair_scales(block));
  if constexpr (Source::kOffsets) {
    sum = add_pair_products(sum, source.pair_offsets(block), x.sums(row));
  }
  return sum;
}

/// Calls f(Constant<place>) for the place of the pair that begins with `block`, of `count` blocks.
template <class F>
HASTEN_INLINE inline void with_place(int64_t block, int64_t count, F&& f) {
  if (is_second_pair(block)) {
    f(Constant<static_cast<int>(PairPlace::second)>{});
  } else if (block + 2 < count) {
    f(Constant<static_cast<int>(PairPlace::first)>{});
  } else {
    f(Constant<static_cast<int>(PairPlace::alone)>{});
  }
}

/// What is left to do for items [kBegin, kEnd) of a tile, row after row, behind the dot products of
/// a pair: the sums of a first one wait in `sums` for the second, with which, or alone,
/// accumulate_pairs()'s `add` is called.
template <PairPlace kPlace, int kBegin, int kEnd, int kGroups, int kRows, class Source, class Add>
HASTEN_INLINE inline void finish_items(const Source (&sources)[kGroups], int64_t block,
                                       const PairOfTile<Source, kRows>& x,
                                       const I32x16 (&dots)[kGroups][kRows],
                                       I32x16 (&sums)[kGroups][kRows], Add&& add) {
  unroll<kBegin, kEnd>([&](auto item) HASTEN_INLINE {
    constexpr int kG = decltype(item)::value % kGroups;
    constexpr int kR = decltype(item)::value / kGroups;
    const I32x16 sum = sum_of_pair<kPlace>(sums[kG][kR], dots[kG][kR], sources[kG], block, x, kR);
    if constexpr (kPlace == PairPlace::first) {
      sums[kG][kR] = sum;
    } else {
      add(kG, kR, to_float(sum), x.scale(kR));
    }
  });
}

/// As accumulate(), of weights with integer scales and an even count of at least 2: add(g, r, n,
/// scale) is to add n * scale to total[g][r]. With kWoven, what is left to do for a pair of blocks
/// stands between the products of the next one: the ports that multiply would wait for it at its
/// end.
template <bool kWoven, int kGroups, int kRows, class Source, class Add, class F>
HASTEN_INLINE inline void accumulate_pairs(const Source (&sources)[kGroups], int64_t count,
                                           const uint8_t* x, Add&& add, F&& before_block) {
  constexpr int kItems = kGroups * kRows;
  PairOfTile<Source, kRows> pair{x};
  I32x16 dots[kGroups][kRows];
  // Woven, without a value to begin with, which all of them get before they are read: GCC 12 would
  // keep dot products in memory, too (6 % of a prefill).
  I32x16 sums[kGroups][kRows];
  if constexpr (!kWoven) {
    unroll_tile<kRows, kGroups>([&](auto r, auto g)
                                    HASTEN_INLINE { sums[g.value][r.value] = zero_i32(); });
  }
  const auto start = [&](auto index, I32x16(&dot)[kGroups][kRows]) HASTEN_INLINE {
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      dot[g.value][r.value] = pair.start(decltype(index)::value, r.value);
    });
  };
  // With Constant<1>, also what is left to do for the pair before.
  const auto multiply_pair = [&](auto finishes_last, int64_t block) HASTEN_INLINE {
    I32x16 low[kGroups][kRows];
    I32x16 high[kGroups][kRows];
    before_block(block);
    start(Constant<0>{}, low);
    multiply_part<0>(sources, block, pair.block(0), low, [&](auto quad) HASTEN_INLINE {
      if constexpr (decltype(finishes_last)::value != 0) {
        constexpr int kBegin = decltype(quad)::value * kItems / 8;
        constexpr int kEnd = (decltype(quad)::value + 1) * kItems / 8;
        const PairOfTile<Source, kRows> last{pair.at - pair.kBytes};
        if (is_second_pair(block - 2)) {
          finish_items<PairPlace::second, kBegin, kEnd>(sources, block - 2, last, dots, sums, add);
        } else {
          finish_items<PairPlace::first, kBegin, kEnd>(sources, block - 2, last, dots, sums, add);
        }
      }
    });
    before_block(block + 1);
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      low[g.value][r.value] = first_of_pair<Source>(low[g.value][r.value], pair.shift(0, r.value));
    });
    start(Constant<1>{}, high);
    multiply_part<0>(sources, block + 1, pair.block(1), high, [](auto) HASTEN_INLINE {});
    // Constant indices: in a loop, GCC keeps `dots` in memory.
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      dots[g.value][r.value] =
          keep_order(join_pair<Source>(low[g.value][r.value], pair.shift(0, r.value),
                                       high[g.value][r.value], pair.shift(1, r.value)));
    });
  };
  const auto finish_pair = [&](int64_t block) HASTEN_INLINE {
    with_place(block, count, [&](auto place) HASTEN_INLINE {
      finish_items<PairPlace{decltype(place)::value}, 0, kItems>(sources, block, pair, dots, sums,
                                                                 add);
    });
  };
  if constexpr (kWoven) {
    multiply_pair(Constant<0>{}, 0);
    for (int64_t i = 2; i < count; i += 2) {
      pair.at += pair.kBytes;
      multiply_pair(Constant<1>{}, i);
    }
    finish_pair(count - 2);
  } else {
    for (int64_t i = 0; i < count; i += 2, pair.at += pair.kBytes) {
      multiply_pair(Constant<0>{}, i);
      finish_pair(i);
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
