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
//            have offsets, + sum(x) * offset of each block, whose sums are shifted likewise;
//   total += sum * the scale of the activations, which has 2^-kIntegerScaleBits;
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

/// What is left to do for row kR and group kG of a pair of blocks, the first of which is `block`,
/// behind their products: calls add as accumulate_pairs() says. `pair`: their activations.
template <int kG, int kR, int kGroups, int kRows, class Source, class Add>
HASTEN_INLINE inline void finish_pair(const Source (&sources)[kGroups], int64_t block,
                                      const uint8_t* pair, const I32x16 (&joined)[kGroups][kRows],
                                      Add&& add) {
  constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, Source::kSplit ? 2 : 1);
  const uint8_t* behind = pair + 2 * kBlockBytes + 4 * kR;
  I32x16 sum = multiply_pairs(joined[kG][kR], sources[kG].pair_scales(block));
  if constexpr (Source::kOffsets) {
    const auto sums = load_scalar<int32_t>(behind + 4 * kRows);
    sum = add_pair_products(sum, sources[kG].pair_offsets(block), sums);
  }
  add(kG, kR, to_float(sum), set1(load_scalar<float>(behind)));
}

/// As accumulate(), of weights with integer scales and an even count of at least 2: add(g, r, n,
/// scale) is to add n * scale to total[g][r]. With kWoven, what is left to do for a pair of blocks
/// stands between the products of the next one: the ports that multiply would wait for it at its
/// end.
template <bool kWoven, int kGroups, int kRows, class Source, class Add, class F>
HASTEN_INLINE inline void accumulate_pairs(const Source (&sources)[kGroups], int64_t count,
                                           const uint8_t* x, Add&& add, F&& before_block) {
  constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, Source::kSplit ? 2 : 1);
  constexpr int64_t kShiftsAt = kBlockBytes - 8 * kRows;
  constexpr int64_t kPairBytes = 2 * kBlockBytes + Source::kSpanBytes * kRows;
  I32x16 joined[kGroups][kRows];
  const auto start = [](const uint8_t* at, I32x16(&dot)[kGroups][kRows]) HASTEN_INLINE {
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      const auto first = load_scalar<int32_t>(at + kShiftsAt + 4 * (kRows + r.value));
      dot[g.value][r.value] = set1_i32(first);
    });
  };
  constexpr int kItems = kGroups * kRows;
  const auto multiply_pair = [&](auto is_first, int64_t block) HASTEN_INLINE {
    constexpr bool kFinish = kWoven && decltype(is_first)::value == 0;
    I32x16 low[kGroups][kRows];
    I32x16 high[kGroups][kRows];
    before_block(block);
    start(x, low);
    multiply_part<0>(sources, block, x, low, [&](auto quad) HASTEN_INLINE {
      if constexpr (kFinish) {
        constexpr int kQuad = decltype(quad)::value;
        unroll<kQuad * kItems / 8, (kQuad + 1) * kItems / 8>([&](auto item) HASTEN_INLINE {
          finish_pair<item.value % kGroups, item.value / kGroups>(sources, block - 2,
                                                                  x - kPairBytes, joined, add);
        });
      }
    });
    before_block(block + 1);
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      const auto shift = load_scalar<int32_t>(x + kShiftsAt + 4 * r.value);
      low[g.value][r.value] = first_of_pair<Source>(low[g.value][r.value], shift);
    });
    const uint8_t* second = x + kBlockBytes;
    start(second, high);
    multiply_part<0>(sources, block + 1, second, high, [](auto) HASTEN_INLINE {});
    // Constant indices: in a loop, GCC keeps `joined` in memory.
    unroll_tile<kRows, kGroups>([&](auto row, auto group) HASTEN_INLINE {
      constexpr int kR = decltype(row)::value;
      constexpr int kG = decltype(group)::value;
      const auto first_shift = load_scalar<int32_t>(x + kShiftsAt + 4 * kR);
      const auto shift = load_scalar<int32_t>(second + kShiftsAt + 4 * kR);
      joined[kG][kR] = keep_order(join_pair<Source>(low[kG][kR], first_shift, high[kG][kR], shift));
    });
    if constexpr (!kWoven) {
      unroll<0, kItems>([&](auto item) HASTEN_INLINE {
        finish_pair<item.value % kGroups, item.value / kGroups>(sources, block, x, joined, add);
      });
    }
    x += kPairBytes;
  };
  multiply_pair(Constant<1>{}, 0);
  for (int64_t i = 2; i < count; i += 2) multiply_pair(Constant<0>{}, i);
  if constexpr (kWoven) {
    unroll<0, kItems>([&](auto item) HASTEN_INLINE {
      finish_pair<item.value % kGroups, item.value / kGroups>(sources, count - 2, x - kPairBytes,
                                                              joined, add);
    });
  }
}

}  // namespace
}  // namespace hasten::cpu
