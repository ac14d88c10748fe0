// SPDX-License-Identifier: Apache-2.0
// Products of quantised weights with activations of eight bits. Each output element is summed in
// one order, part after part along the columns, however many rows there are:
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
// unit is smaller than 1, and overflows sooner than the output. Few rows read the packed weights;
// many rows share a panel that is unpacked once.
#pragma once

#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/packed_weights.inl"
#include "backends/cpu/kernels/prefetcher.inl"

namespace hasten::cpu {
namespace {

/// dot[g][r] += part kPart of a block of source g times row r of the tile of activations at x.
/// Calls behind_quad(Constant<i>) behind the products of quad i of the block.
template <int kPart, int kGroups, int kRows, class Source, class F>
HASTEN_INLINE inline void multiply_part(const Source* sources, int64_t block, const uint8_t* x,
                                        I32x16 (&dot)[kGroups][kRows], F&& behind_quad) {
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
HASTEN_INLINE inline void accumulate(const Source* sources, int64_t count, const uint8_t* x,
                                     F32x16 (&total)[kGroups][kRows], F&& before_block) {
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

/// As accumulate(), of weights with integer scales and an even count of at least 2: add(g, r, n,
/// scale) is to add n * scale to total[g][r]. With kWoven, what is left to do for a pair of blocks
/// stands between the products of the next one: the ports that multiply would wait for it at its
/// end.
template <bool kWoven, int kGroups, int kRows, class Source, class Add, class F>
HASTEN_INLINE inline void accumulate_pairs(const Source* sources, int64_t count, const uint8_t* x,
                                           Add&& add, F&& before_block) {
  constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, Source::kSplit ? 2 : 1);
  constexpr int64_t kShiftsAt = kBlockBytes - 8 * kRows;
  constexpr int64_t kPairBytes = 2 * kBlockBytes + Source::kSpanBytes * kRows;
  I32x16 joined[kGroups][kRows];
  const auto finish = [&](auto item, int64_t block, const uint8_t* pair) HASTEN_INLINE {
    constexpr int kG = decltype(item)::value % kGroups;
    constexpr int kR = decltype(item)::value / kGroups;
    const uint8_t* behind = pair + 2 * kBlockBytes + 4 * kR;
    I32x16 sum = multiply_pairs(joined[kG][kR], sources[kG].pair_scales(block));
    if constexpr (Source::kOffsets) {
      const auto sums = load_scalar<int32_t>(behind + 4 * kRows);
      sum = add_pair_products(sum, sources[kG].pair_offsets(block), sums);
    }
    add(kG, kR, to_float(sum), set1(load_scalar<float>(behind)));
  };
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
        unroll<kQuad * kItems / 8, (kQuad + 1) * kItems / 8>(
            [&](auto item) HASTEN_INLINE { finish(item, block - 2, x - kPairBytes); });
      }
    });
    before_block(block + 1);
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      const auto shift = load_scalar<int32_t>(x + kShiftsAt + 4 * r.value);
      low[g.value][r.value] = shift_right(low[g.value][r.value], shift);
    });
    const uint8_t* second = x + kBlockBytes;
    start(second, high);
    multiply_part<0>(sources, block + 1, second, high, [](auto) HASTEN_INLINE {});
    // Constant indices: in a loop, GCC keeps `joined` in memory.
    unroll_tile<kRows, kGroups>([&](auto row, auto group) HASTEN_INLINE {
      constexpr int kR = decltype(row)::value;
      constexpr int kG = decltype(group)::value;
      const auto shift = load_scalar<int32_t>(second + kShiftsAt + 4 * kR);
      joined[kG][kR] = join_halves(low[kG][kR], shift_left(high[kG][kR], shift));
      keep_order(joined[kG][kR]);
    });
    if constexpr (!kWoven) {
      unroll<0, kItems>([&](auto item) HASTEN_INLINE { finish(item, block, x); });
    }
    x += kPairBytes;
  };
  multiply_pair(Constant<1>{}, 0);
  for (int64_t i = 2; i < count; i += 2) multiply_pair(Constant<0>{}, i);
  if constexpr (kWoven) {
    unroll<0, kItems>([&](auto item) HASTEN_INLINE { finish(item, count - 2, x - kPairBytes); });
  }
}

/// What a thread multiplies later, of groups of which it takes two side by side: lines behind those
/// of a pair of blocks in the strips of both, or, where those end, in the next two.
template <class Source>
class TwoStripsAhead {
 public:
  /// `distance`: bytes from a strip to the next.
  TwoStripsAhead(const Source& first, int64_t distance)
      : units_(first.unit_of(0)), distance_(distance) {}

  /// While the pair of blocks from `block` on is multiplied: asks for lines [kPart, kPart + 1) /
  /// kParts of what lies kAhead bytes behind it. A few at a time: a core drops what it is asked for
  /// at once.
  template <int64_t kAhead, int kPart, int kParts>
  HASTEN_INLINE void fetch(int64_t block) const {
    constexpr int64_t kBlockBytes = Source::kUnit.bytes_per_block();
    constexpr int kLines = static_cast<int>(2 * kBlockBytes / 64);  // of each group
    const int64_t at = block * kBlockBytes + kAhead;
    const uint8_t* lines = units_ + at + (at < distance_ ? 0 : distance_);
    constexpr int kFirst = 2 * kLines * kPart / kParts;
    constexpr int kEnd = 2 * kLines * (kPart + 1) / kParts;
    unroll<kFirst, kEnd>([&](auto index) HASTEN_INLINE {
      constexpr int kLine = decltype(index)::value;
      prefetch(lines + (kLine % 2 == 0 ? 0 : distance_) + kLine / 2 * 64);
    });
  }

 private:
  const uint8_t* units_;
  int64_t distance_;
};

/// As accumulate_pairs(), for two groups and more rows than there is room for in registers: up to
/// kTallRows at a time, whose dot products of a first block wait as int16, those of both groups in
/// one register, and sums[r][g][16] in memory. That is ten loads for sixteen products, where one
/// group and eight rows have nine for eight, more than a core of Zen 5 has time for (65 % of its
/// int8 peak with all in the caches, this 75 to 78).
template <int kRows, class Source>
HASTEN_INLINE inline void accumulate_tall(const Source* sources, int64_t count, const uint8_t* x,
                                          float* sums, const TwoStripsAhead<Source>& ahead) {
  static_assert(!Source::kSplit);
  constexpr int kGroups = 2;
  constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, 1);
  constexpr int64_t kShiftsAt = kBlockBytes - 8 * kRows;
  constexpr int64_t kPairBytes = 2 * kBlockBytes + Source::kSpanBytes * kRows;
  constexpr int kTurns = (kRows + kTallRows - 1) / kTallRows;
  for (int64_t block = 0; block < count; block += 2, x += kPairBytes) {
    unroll<0, kTurns>([&](auto turn_index) HASTEN_INLINE {
      constexpr int kTurn = decltype(turn_index)::value;
      constexpr int kFirst = kTurn * kRows / kTurns;
      constexpr int kCount = (kTurn + 1) * kRows / kTurns - kFirst;
      // Has the codes of the next rows unpacked again, which costs nothing that products wait for;
      // GCC 12 would keep them in memory.
      if constexpr (kTurns > 1) __asm__ volatile("" ::: "memory");
      const auto multiply = [&](auto index_of_block, I32x16(&dot)[kGroups][kCount]) HASTEN_INLINE {
        constexpr int kBlock = decltype(index_of_block)::value;
        const uint8_t* at = x + kBlock * kBlockBytes;
        unroll_tile<kCount, kGroups>([&](auto r, auto g) HASTEN_INLINE {
          const uint8_t* starts = at + kShiftsAt + 4 * kRows;
          dot[g.value][r.value] = set1_i32(load_scalar<int32_t>(starts + 4 * (kFirst + r.value)));
        });
        multiply_part<0>(sources, block + kBlock, at + kFirst * kBlockColumns, dot,
                         [&](auto quad) HASTEN_INLINE {
                           constexpr int kQuads = 8;
                           constexpr int kPart =
                               (2 * kTurn + kBlock) * kQuads + decltype(quad)::value;
                           ahead.template fetch<4096, kPart, 2 * kTurns * kQuads>(block);
                           if constexpr (kTurns == 1) {
                             ahead.template fetch<8192, kPart, 2 * kTurns * kQuads>(block);
                           }
                         });
      };
      const auto shift_of = [&](int of_block, int r) HASTEN_INLINE {
        return load_scalar<int32_t>(x + of_block * kBlockBytes + kShiftsAt + 4 * (kFirst + r));
      };
      I32x16 waiting[kCount];
      I32x16 dot[kGroups][kCount];
      multiply(Constant<0>{}, dot);
      unroll<0, kCount>([&](auto r) HASTEN_INLINE {
        const int32_t shift = shift_of(0, r.value);
        const I32x16 second = shift_left(shift_right(dot[1][r.value], shift), 16);
        waiting[r.value] = join_halves(shift_right(dot[0][r.value], shift), second);
        keep_order(waiting[r.value]);
      });
      multiply(Constant<1>{}, dot);
      unroll_tile<kCount, kGroups>([&](auto r, auto g) HASTEN_INLINE {
        constexpr int kG = decltype(g)::value;
        const I32x16 first = kG == 0 ? waiting[r.value] : shift_right(waiting[r.value], 16);
        const I32x16 joined =
            join_halves(first, shift_left(dot[kG][r.value], shift_of(1, r.value)));
        const uint8_t* behind = x + 2 * kBlockBytes + 4 * (kFirst + r.value);
        I32x16 sum = multiply_pairs(joined, sources[kG].pair_scales(block));
        if constexpr (Source::kOffsets) {
          const auto sums_of_x = load_scalar<int32_t>(behind + 4 * kRows);
          sum = add_pair_products(sum, sources[kG].pair_offsets(block), sums_of_x);
        }
        float* to = sums + ((kFirst + r.value) * kGroups + kG) * kGroupRows;
        F32x16 total = load(to);
        add_product(total, to_float(sum), set1(load_scalar<float>(behind)));
        store(to, total);
      });
    });
  }
}

/// Bytes ahead of what several rows are multiplied with. A core that meets lines in their order
/// fetches ahead by itself, but not far enough for all that it has to do where others use memory,
/// too (4 rows of q4_0 take 1.7 times as long then).
constexpr int64_t kStripAhead = 8192;

/// As accumulate_tall(), for one group whose lines are loaded in their order: a core that fetches
/// ahead by itself gains more by that than by every other load that two groups save.
template <int kRows, class Source>
HASTEN_INLINE inline void accumulate_tall_in_order(const Source& source, int64_t count,
                                                   const uint8_t* x, float* sums) {
  static_assert(!Source::kSplit);
  constexpr int64_t kBlockBytes = activation_block_bytes(kRows, 1, 1);
  constexpr int64_t kShiftsAt = kBlockBytes - 8 * kRows;
  constexpr int64_t kPairBytes = 2 * kBlockBytes + Source::kSpanBytes * kRows;
  for (int64_t block = 0; block < count; block += 2, x += kPairBytes) {
    const auto multiply = [&](auto index_of_block, I32x16(&dot)[1][kRows]) HASTEN_INLINE {
      constexpr int kBlock = decltype(index_of_block)::value;
      const uint8_t* at = x + kBlock * kBlockBytes;
      source.load_in_order(block + kBlock);
      source.prefetch_ahead(block + kBlock, kStripAhead);
      unroll<0, kRows>([&](auto r) HASTEN_INLINE {
        const uint8_t* starts = at + kShiftsAt + 4 * kRows;
        dot[0][r.value] = set1_i32(load_scalar<int32_t>(starts + 4 * r.value));
      });
      multiply_part<0>(&source, block + kBlock, at, dot, [](auto) HASTEN_INLINE {});
    };
    const auto shift_of = [&](int of_block, int r) HASTEN_INLINE {
      return load_scalar<int32_t>(x + of_block * kBlockBytes + kShiftsAt + 4 * r);
    };
    I32x16 waiting[kRows];
    I32x16 dot[1][kRows];
    multiply(Constant<0>{}, dot);
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      waiting[r.value] = shift_right(dot[0][r.value], shift_of(0, r.value));
      keep_order(waiting[r.value]);
    });
    multiply(Constant<1>{}, dot);
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      const I32x16 joined =
          join_halves(waiting[r.value], shift_left(dot[0][r.value], shift_of(1, r.value)));
      const uint8_t* behind = x + 2 * kBlockBytes + 4 * r.value;
      I32x16 sum = multiply_pairs(joined, source.pair_scales(block));
      if constexpr (Source::kOffsets) {
        const auto sums_of_x = load_scalar<int32_t>(behind + 4 * kRows);
        sum = add_pair_products(sum, source.pair_offsets(block), sums_of_x);
      }
      float* to = sums + r.value * kGroupRows;
      F32x16 total = load(to);
      add_product(total, to_float(sum), set1(load_scalar<float>(behind)));
      store(to, total);
    });
  }
}

/// Of activations, what some blocks are multiplied with.
template <class Source, int kRows>
constexpr int64_t activation_bytes_of(int64_t blocks) {
  return activation_bytes(kRows, blocks, Source::kParts, Source::kSplit ? 2 : 1,
                          Source::kSpanBlocks, Source::kSpanBytes);
}

/// `num_groups` groups of a stack, from `first` of the task on: strip after strip, of all of them;
/// two by two or, with kInOrder, one by one.
template <class Source, int kRows, bool kInOrder>
inline void quant_matmul_tall(const QuantMatmulTask& task, int64_t first, int64_t num_groups) {
  constexpr int kTogether = kInOrder ? 1 : 2;
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const PackedGroups<Source> groups(task.groups, blocks);
  constexpr int64_t kGroupSums = kRows * kGroupRows;
  alignas(64) float sums[kStackGroups * kGroupSums];  // of two together [kRows][2][16]
  for (int64_t i = 0; i < kStackGroups * kGroupSums; i += kGroupRows) store(sums + i, zero());
  if constexpr (kInOrder) {
    for (int64_t g = 0; g < num_groups; ++g) groups.from(first + g, 0).load_head();
  }
  int64_t count = 0;
  const uint8_t* x = task.x.tiles;
  for (int64_t strip = 0; strip < blocks; strip += count) {
    count = blocks_from(groups.layout(), strip);
    for (int64_t g = 0; g < num_groups; g += kTogether) {
      const Source source = groups.from(first + g, strip);
      if constexpr (kInOrder) {
        accumulate_tall_in_order<kRows>(source, count, x, sums + g * kGroupSums);
      } else {
        // A last one that is alone is multiplied twice, and stored once.
        const Source sources[2] = {source,
                                   groups.from(first + (g + 1 < num_groups ? g + 1 : g), strip)};
        const TwoStripsAhead<Source> ahead(source, groups.distance(count));
        accumulate_tall<kRows>(sources, count, x, sums + g * kGroupSums, ahead);
      }
    }
    x += activation_bytes_of<Source, kRows>(count);
  }
  for (int64_t g = 0; g < num_groups; ++g) {
    const F32x16 units = groups.from(first + g, 0).row_units();
    const int64_t in_pair = g % kTogether;
    const float* of_group = sums + (g - in_pair) * kGroupSums + in_pair * kGroupRows;
    for (int r = 0; r < kRows; ++r) {
      const F32x16 total = mul(load(of_group + kTogether * r * kGroupRows), units);
      store_output(total, task.out, r, first + g);
    }
  }
}

/// `num_groups` groups of a stack, from `first` of the task on, as WeightStreams::in_order has
/// them: strip after strip, of all of them. With kWhole they are a whole stack, whose sums stay in
/// registers from strip to strip; in memory they are where GCC adds to them there, too.
template <class Source, int kRows, bool kWhole>
inline void quant_matmul_strips(const QuantMatmulTask& task, int64_t first, int64_t num_groups) {
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const PackedGroups<Source> groups(task.groups, blocks);
  F32x16 total[kStackGroups][1][kRows];
  unroll_tile<kStackGroups, kRows>([&](auto g, auto r)
                                       HASTEN_INLINE { total[g.value][0][r.value] = zero(); });
  for (int64_t g = 0; g < num_groups; ++g) groups.from(first + g, 0).load_head();
  int64_t count = 0;
  const uint8_t* x = task.x.tiles;
  for (int64_t strip = 0; strip < blocks; strip += count) {
    count = blocks_from(groups.layout(), strip);
    const int64_t distance = groups.distance(count);
    const uint8_t* units = groups.from(first, strip).unit_of(0);
    const auto multiply = [&](F32x16(&sums)[1][kRows]) HASTEN_INLINE {
      const Source source(nullptr, units);
      accumulate_pairs<false, 1, kRows>(
          &source, count, x,
          [&](int g, int r, F32x16 product, F32x16 scale)
              HASTEN_INLINE { add_product(sums[g][r], product, scale); },
          [&](int64_t block) HASTEN_INLINE {
            source.load_in_order(block);
            if constexpr (kRows > kOneStreamRows) source.prefetch_ahead(block, kStripAhead);
          });
      units += distance;
    };
    if constexpr (kWhole) {
      unroll<0, kStackGroups>([&](auto g) HASTEN_INLINE { multiply(total[g.value]); });
    } else {
      for (int64_t g = 0; g < num_groups; ++g) {
        F32x16 sums[1][kRows];
        unroll<0, kRows>([&](auto r) HASTEN_INLINE { sums[0][r.value] = total[g][0][r.value]; });
        multiply(sums);
        unroll<0, kRows>([&](auto r) HASTEN_INLINE { total[g][0][r.value] = sums[0][r.value]; });
      }
    }
    x += activation_bytes_of<Source, kRows>(count);
  }
  const auto finish = [&](int64_t g, const F32x16(&sums)[1][kRows]) HASTEN_INLINE {
    const F32x16 row_units = groups.from(first + g, 0).row_units();
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      store_output(mul(sums[0][r.value], row_units), task.out, r.value, first + g);
    });
  };
  if constexpr (kWhole) {
    unroll<0, kStackGroups>([&](auto g) HASTEN_INLINE { finish(g.value, total[g.value]); });
  } else {
    for (int64_t g = 0; g < num_groups; ++g) finish(g, total[g]);
  }
}

/// Groups begin_group + g * stride of the task, of rows that are not divided, straight from the
/// packed weights; with kInOrder, as WeightStreams::in_order has them.
template <class Source, int kGroups, int kRows, bool kInOrder = false>
inline void quant_matmul_direct(const QuantMatmulTask& task, int64_t begin_group, int64_t stride) {
  static_assert(!kInOrder || kGroups == 1);
  // Bytes, of each stream; measured. Codes that are split are whole bytes and nothing is unpacked:
  // there, fetching far ahead only disturbs what the hardware fetches by itself (Zen 3). A core
  // drops what it is asked to fetch while too much is on its way: one stream is asked for twice
  // (8 rows take 5 to 15 % less on Zen 5), but not for one row, which leaves the core so
  // much to fetch by itself that a second ask costs 1 to 4 %. Two streams gain nothing by it, and
  // without a dot instruction several rows are bound by arithmetic.
  constexpr bool kOnce = kHasDotInstruction && kRows == 1;
  constexpr bool kTwice = kGroups == 1 && !kOnce && (kHasDotInstruction || kRows <= kOneStreamRows);
  constexpr int64_t kAgain = kGroups == 1 ? 4096 : Source::kSplit ? 512 : 2048;
  constexpr int64_t kAhead = kTwice ? 8192 : kGroups == 1 && kOnce ? 6144 : kAgain;
  const int64_t group_bytes = Source::kUnit.group_bytes(task.x.columns);
  const uint8_t* groups = task.groups.matrix + (task.groups.first + begin_group) * group_bytes;
  Source sources[kGroups];
  F32x16 total[kGroups][kRows];
  for (int g = 0; g < kGroups; ++g) {
    sources[g] = Source(groups + g * stride * group_bytes);
    for (int r = 0; r < kRows; ++r) total[g][r] = zero();
  }
  const auto before_block = [&](int64_t block) HASTEN_INLINE {
    if constexpr (kInOrder) {
      sources[0].load_in_order(block);
    } else {
      for (int g = 0; g < kGroups; ++g) sources[g].prefetch_ahead(block, kAhead);
      if constexpr (kTwice) sources[0].prefetch_ahead(block, kAgain);
    }
  };
  const int64_t blocks = Source::num_blocks(task.x.columns);
  if constexpr (Source::kIntegerScales) {
    accumulate_pairs<false, kGroups, kRows>(
        sources, blocks, task.x.tiles,
        [&](int g, int r, F32x16 product, F32x16 scale)
            HASTEN_INLINE { add_product(total[g][r], product, scale); },
        before_block);
    for (int g = 0; g < kGroups; ++g) {
      for (int r = 0; r < kRows; ++r) total[g][r] = mul(total[g][r], sources[g].row_units());
    }
  } else {
    accumulate<kGroups, kRows>(sources, blocks, task.x.tiles, total, before_block);
  }
  for (int g = 0; g < kGroups; ++g) {
    for (int r = 0; r < kRows; ++r) {
      store_output(total[g][r], task.out, r, begin_group + g * stride);
    }
  }
}

/// Calls f(first, count) for the groups of a task, stack after stack; what is dealt to a thread of
/// few rows are whole ones.
template <class F>
HASTEN_INLINE inline void for_each_stack(const QuantMatmulTask& task, F&& f) {
  for (int64_t first = 0, count = 0; first < task.num_groups; first += count) {
    const int64_t in_stack = kStackGroups - (task.groups.first + first) % kStackGroups;
    const int64_t left = task.num_groups - first;
    count = left < in_stack ? left : in_stack;
    f(first, count);
  }
}

/// Few rows times rows that are divided.
template <class Source, int kRows>
inline void quant_matmul_divided(const QuantMatmulTask& task) {
  for_each_stack(task, [&](int64_t first, int64_t count) {
    if constexpr (kRows >= kLeastTallRows) {
      quant_matmul_tall<Source, kRows, kRows <= kTallRows>(task, first, count);
    } else {
      // Worth its code where the processor may be one that reads in order.
      if constexpr (kHasDotInstruction && kRows <= kOneStreamRows) {
        if (count == kStackGroups) {
          return quant_matmul_strips<Source, kRows, true>(task, first, count);
        }
      }
      quant_matmul_strips<Source, kRows, false>(task, first, count);
    }
  });
}

/// Up to kQuantDirectRows rows, which are one tile. Each of several streams of memory is a part of
/// the groups, one behind the other, but for tall tiles.
template <class Source>
inline void quant_matmul_few_rows(const QuantMatmulTask& task) {
  with_constant<kQuantDirectRows>(task.x.num_rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    if constexpr (Source::kIntegerScales) {
      if (task.groups.divided) return quant_matmul_divided<Source, kRows>(task);
    }
    int64_t group = 0;
    if constexpr (Source::kIntegerScales && kRows >= kLeastTallRows) {
      for_each_stack(task, [&](int64_t first, int64_t count) {
        quant_matmul_tall<Source, kRows, false>(task, first, count);
      });
    } else {
      constexpr int kGroups = direct_groups(kRows);
      // Not of weights with floats for scales: between their lines is so much arithmetic that a
      // core sees too few of them ahead.
      if constexpr (Source::kIntegerScales && kRows <= kOneStreamRows) {
        if (task.streams == WeightStreams::in_order) {
          for (; group < task.num_groups; ++group) {
            quant_matmul_direct<Source, 1, kRows, true>(task, group, 0);
          }
          return;
        }
      }
      if (task.streams == WeightStreams::several || kRows > kOneStreamRows) {
        const int64_t stride = task.num_groups / kGroups;
        for (; group < stride; ++group) {
          quant_matmul_direct<Source, kGroups, kRows>(task, group, stride);
        }
        group = stride * kGroups;
      }
      for (; group < task.num_groups; ++group) {
        quant_matmul_direct<Source, 1, kRows>(task, group, 0);
      }
    }
  });
}

/// sums[r][g] += `count` blocks of panel g times row r of a tile of activations, for kGroups of the
/// kQuantGroups. Not inlined: all formats whose panels look alike share it.
template <class PanelType, int kGroups, int kRows>
__attribute__((noinline)) void multiply_panels(const PanelType* panels, int64_t count,
                                               const uint8_t* x, Prefetcher& prefetcher,
                                               float* sums) {
  const auto before_block = [&](int64_t) HASTEN_INLINE { prefetcher.next(); };
  PanelType own[kGroups];  // which no store reaches
  for (int g = 0; g < kGroups; ++g) own[g] = panels[g];
  if constexpr (PanelType::kIntegerScales) {
    accumulate_pairs<kHasDotInstruction, kGroups, kRows>(
        own, count, x,
        [&](int g, int r, F32x16 product, F32x16 scale) HASTEN_INLINE {
          float* sum = sums + (r * kQuantGroups + g) * kGroupRows;
          F32x16 total = load(sum);
          add_product(total, product, scale);
          store(sum, total);
        },
        before_block);
  } else {
    F32x16 total[kGroups][kRows];
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      total[g.value][r.value] = load(sums + (r.value * kQuantGroups + g.value) * kGroupRows);
    });
    accumulate<kGroups, kRows>(own, count, x, total, before_block);
    unroll_tile<kRows, kGroups>([&](auto r, auto g) HASTEN_INLINE {
      store(sums + (r.value * kQuantGroups + g.value) * kGroupRows, total[g.value][r.value]);
    });
  }
}

/// Writes the sums [kRows][kQuantGroups][16] of the groups of `out`. `whole`: it has all of them,
/// and no bias.
template <int kRows, class Source>
HASTEN_INLINE inline void finish_tile(const float* sums, const Source* sources,
                                      const ProductRows& out, int64_t first_row, bool whole) {
  unroll_tile<kRows, kQuantGroups>([&](auto row, auto group) HASTEN_INLINE {
    constexpr int kRow = decltype(row)::value;
    constexpr int kGroup = decltype(group)::value;
    F32x16 total = load(sums + (kRow * kQuantGroups + kGroup) * kGroupRows);
    if constexpr (Source::kIntegerScales) total = mul(total, sources[kGroup].row_units());
    if (whole) {
      store(out.data + (first_row + kRow) * out.stride + kGroup * kGroupRows, total);
    } else {
      store_output(total, out, first_row + kRow, kGroup);
    }
  });
}

/// Groups that a register tile is multiplied as if it had, if it has no more: the last one.
constexpr int kLessGroups = kQuantGroups > 2 ? kQuantGroups - 1 : kQuantGroups;

/// The tiles [first_tile, end_tile) of the rows and the groups of one register tile, panel after
/// panel.
template <class Source>
inline void quant_matmul_pass(const QuantMatmulTask& task, int64_t begin_group,
                              const RowTiles& tiles, int64_t first_tile, int64_t end_tile) {
  using Layout = PanelOf<Source>;
  using PanelType = typename Layout::Type;
  constexpr int64_t kPanelBytes = Layout::kBytes;
  static_assert(kQuantGroups * (kPanelBytes + kPassRows * kGroupRows * 4) <= kMatmulScratchBytes);
  static_assert(kPanelBlocks % Source::kUnit.blocks == 0 && kStripBlocks % kPanelBlocks == 0);
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const int64_t first_row = tiles.first_row(first_tile);
  const int64_t left_groups = task.num_groups - begin_group;
  const int64_t num_groups = left_groups < kQuantGroups ? left_groups : kQuantGroups;
  const int used_groups = num_groups > kLessGroups ? kQuantGroups : kLessGroups;
  const PackedGroups<Source> groups(task.groups, blocks);
  Source sources[kQuantGroups];
  PanelType panels[kQuantGroups];
  for (int g = 0; g < kQuantGroups; ++g) {
    if constexpr (!Source::kIsPanel) {
      // Without gaps: what lies whole ways apart would meet in few sets of the first-level cache.
      panels[g].code_bytes = task.scratch + g * Layout::kCodes;
      panels[g].scales = reinterpret_cast<float*>(task.scratch + kQuantGroups * Layout::kCodes) +
                         g * Layout::kScales;
      panels[g].offsets = panels[g].scales + kQuantGroups * Layout::kScales;
    }
  }
  ProductRows out = task.out;  // of these groups; the matrix may go on
  out.data += begin_group * kGroupRows;
  out.columns -= begin_group * kGroupRows;
  if (out.columns > num_groups * kGroupRows) out.columns = num_groups * kGroupRows;
  if (out.bias != nullptr) out.bias += begin_group * kGroupRows;
  const bool whole = out.columns >= kQuantGroups * kGroupRows && out.bias == nullptr;
  out.data += (first_row - task.first_out_row) * out.stride;
  // [rows of the tiles][kQuantGroups][16]: where the outputs go, if that is how they lie there.
  constexpr int64_t kRowSums = kQuantGroups * kGroupRows;
  const bool in_place = whole && out.stride == kRowSums;
  auto* sums =
      in_place ? out.data : reinterpret_cast<float*>(task.scratch + kQuantGroups * kPanelBytes);

  for (int64_t first = 0; first < blocks; first += kPanelBlocks) {
    const int64_t left = blocks - first;
    const int64_t count = left < kPanelBlocks ? left : kPanelBlocks;
    const bool last = count == left;
    for (int g = 0; g < kQuantGroups; ++g) {
      // The last tile may have groups too few; it repeats its last one and does not store it.
      sources[g] = groups.from(begin_group + (g < num_groups ? g : num_groups - 1), first);
      if (g >= used_groups) continue;
      if constexpr (Source::kIsPanel) {
        panels[g] = sources[g];
      } else {
        panels[g].low = sources[g].unit_of(0);
        unpack(sources[g], count, panels[g]);
      }
    }
    Prefetcher prefetcher;
    if (!last) {
      for (int64_t g = 0; g < num_groups; ++g) {
        prefetcher.add(groups.from(begin_group + g, first + count).unit_of(0));
      }
    } else {
      const bool more = left_groups > kQuantGroups;
      const int64_t next_group = more ? begin_group + kQuantGroups : 0;
      const PackedGroups<Source> next(
          more || end_tile < task.end_tile ? task.groups : task.next_groups, blocks);
      const int64_t next_left = next.num_left(next_group);
      for (int64_t g = 0; g < kQuantGroups && g < next_left; ++g) {
        prefetcher.add(next.from(next_group + g, 0).unit_of(0));
      }
      for (int64_t g = 0; g < num_groups; ++g) sources[g].prefetch_head();
    }
    prefetcher.spread(kPanelBlocks * Source::kUnit.bytes_per_block(),
                      (end_tile - first_tile) * count);
    int64_t row = first_row;
    for (int64_t t = first_tile; t < end_tile; ++t) {
      const int64_t end = tiles.first_row(t + 1);
      float* tile_sums = sums + (row - first_row) * kRowSums;
      if (last && !in_place) {
        for (int64_t r = row; r < end; ++r) {
          for (int64_t g = 0; g < num_groups; ++g) prefetch_output(out, r - first_row, g);
        }
      }
      with_constant<kQuantRows>(end - row, [&](auto rows) {
        constexpr int kRows = decltype(rows)::value;
        constexpr int64_t kRowBlockBytes =
            activation_block_bytes(1, Source::kParts, Source::kSplit ? 2 : 1);
        const ActivationTile tile{.num_rows = task.x.num_rows,
                                  .num_blocks = blocks,
                                  .span_blocks = Source::kSpanBlocks,
                                  .span_bytes = Source::kSpanBytes,
                                  .first_row = row,
                                  .rows = kRows};
        // Here, where they are read at once: all of them before the first panel would go through
        // the second-level cache.
        if (first == 0) {
          unroll<0, kRows * kQuantGroups>(
              [&](auto i) HASTEN_INLINE { store(tile_sums + i.value * kGroupRows, zero()); });
        }
        const uint8_t* x = task.x.tiles + tile.at(first, kRowBlockBytes);
        const auto multiply = [&](auto used) HASTEN_INLINE {
          multiply_panels<PanelType, decltype(used)::value, kRows>(panels, count, x, prefetcher,
                                                                   tile_sums);
        };
        used_groups > kLessGroups ? multiply(Constant<kQuantGroups>{})
                                  : multiply(Constant<kLessGroups>{});
        if (last) finish_tile<kRows>(tile_sums, sources, out, row - first_row, whole);
      });
      row = end;
    }
  }
}

template <const PackedFormat& kFormat>
inline void quant_matmul(const QuantMatmulTask& task) {
  using Source = PackedStrip<kFormat>;
  if (task.x.num_rows <= kQuantDirectRows) return quant_matmul_few_rows<Source>(task);
  const auto tiles = RowTiles::of(task.x.num_rows, kQuantDirectRows, kQuantRows);
  constexpr int64_t kMost = kPassRows / kQuantRows;
  const int64_t count = task.end_tile - task.first_tile;
  const int64_t passes = (count + kMost - 1) / kMost;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = task.first_tile + pass * count / passes;
    const int64_t end = task.first_tile + (pass + 1) * count / passes;
    for (int64_t begin_group = 0; begin_group < task.num_groups; begin_group += kQuantGroups) {
      quant_matmul_pass<Source>(task, begin_group, tiles, first, end);
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
