// SPDX-License-Identifier: Apache-2.0
// Few rows of activations times quantised weights: straight from the packed groups, in the order
// and by as many streams of memory as the processor likes (WeightStreams).
#pragma once

#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/kernels/quant_sums.inl"

namespace hasten::cpu {
namespace {

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

/// Of few rows, sums that have no room in registers: [rows][groups][16].
struct SumsInMemory {
  float* totals;
  uint8_t* of_first_pairs;  // int32
};

/// As finish_items(), of one row and group, whose sums begin with element `at`.
template <PairPlace kPlace, int kRows, class Source>
HASTEN_INLINE inline void finish_in_memory(I32x16 dots, const Source& source, int64_t block,
                                           const PairOfTile<Source, kRows>& x, int row,
                                           const SumsInMemory& sums, int64_t at) {
  uint8_t* const of_first = sums.of_first_pairs + 4 * at;
  const I32x16 first = kPlace == PairPlace::second ? load_halves(of_first) : zero_i32();
  const I32x16 sum = sum_of_pair<kPlace>(first, dots, source, block, x, row);
  if constexpr (kPlace == PairPlace::first) {
    store_i32(of_first, sum);
  } else {
    F32x16 total = load(sums.totals + at);
    add_product(total, to_float(sum), x.scale(row));
    store(sums.totals + at, total);
  }
}

/// As accumulate_pairs(), for two groups and more rows than there is room for in registers: up to
/// kTallRows at a time, whose dot products of a first block wait as int16, those of both groups in
/// one register, and sums in memory. That is ten loads for sixteen products, where one group and
/// eight rows have nine for eight, more than a core of Zen 5 has time for (65 % of its int8 peak
/// with all in the caches, this 75 to 78).
template <int kRows, class Source>
HASTEN_INLINE inline void accumulate_tall(const Source (&sources)[2], int64_t count,
                                          const uint8_t* x, const SumsInMemory& sums,
                                          const TwoStripsAhead<Source>& ahead) {
  static_assert(!Source::kSplit);
  constexpr int kGroups = 2;
  constexpr int kTurns = (kRows + kTallRows - 1) / kTallRows;
  PairOfTile<Source, kRows> pair{x};
  for (int64_t block = 0; block < count; block += 2, pair.at += pair.kBytes) {
    unroll<0, kTurns>([&](auto turn_index) HASTEN_INLINE {
      constexpr int kTurn = decltype(turn_index)::value;
      constexpr int kFirst = kTurn * kRows / kTurns;
      constexpr int kCount = (kTurn + 1) * kRows / kTurns - kFirst;
      // Has the codes of the next rows unpacked again, which costs nothing that products wait for;
      // GCC 12 would keep them in memory.
      if constexpr (kTurns > 1) __asm__ volatile("" ::: "memory");
      const auto multiply = [&](auto index_of_block, I32x16(&dot)[kGroups][kCount]) HASTEN_INLINE {
        constexpr int kBlock = decltype(index_of_block)::value;
        unroll_tile<kCount, kGroups>([&](auto r, auto g) HASTEN_INLINE {
          dot[g.value][r.value] = pair.start(kBlock, kFirst + r.value);
        });
        multiply_part<0>(sources, block + kBlock, pair.block(kBlock) + kFirst * kBlockColumns, dot,
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
      I32x16 waiting[kCount];
      I32x16 dot[kGroups][kCount];
      multiply(Constant<0>{}, dot);
      unroll<0, kCount>([&](auto r) HASTEN_INLINE {
        const int32_t shift = pair.shift(0, kFirst + r.value);
        waiting[r.value] =
            keep_order(join_halves(first_of_pair<Source>(dot[0][r.value], shift),
                                   shift_left(first_of_pair<Source>(dot[1][r.value], shift), 16)));
      });
      multiply(Constant<1>{}, dot);
      with_place(block, count, [&](auto place) HASTEN_INLINE {
        unroll_tile<kCount, kGroups>([&](auto r, auto g) HASTEN_INLINE {
          constexpr int kG = decltype(g)::value;
          const I32x16 first = kG == 0 ? waiting[r.value] : shift_right(waiting[r.value], 16);
          const I32x16 dots = join_pair<Source>(first, pair.shift(0, kFirst + r.value),
                                                dot[kG][r.value], pair.shift(1, kFirst + r.value));
          finish_in_memory<PairPlace{decltype(place)::value}>(
              dots, sources[kG], block, pair, kFirst + r.value, sums,
              ((kFirst + r.value) * kGroups + kG) * kGroupRows);
        });
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
HASTEN_INLINE inline void accumulate_tall_in_order(const Source (&sources)[1], int64_t count,
                                                   const uint8_t* x, const SumsInMemory& sums) {
  static_assert(!Source::kSplit);
  PairOfTile<Source, kRows> pair{x};
  for (int64_t block = 0; block < count; block += 2, pair.at += pair.kBytes) {
    const auto multiply = [&](auto index_of_block, I32x16(&dot)[1][kRows]) HASTEN_INLINE {
      constexpr int kBlock = decltype(index_of_block)::value;
      sources[0].load_in_order(block + kBlock);
      sources[0].prefetch_ahead(block + kBlock, kStripAhead);
      unroll<0, kRows>([&](auto r)
                           HASTEN_INLINE { dot[0][r.value] = pair.start(kBlock, r.value); });
      multiply_part<0>(sources, block + kBlock, pair.block(kBlock), dot, [](auto) HASTEN_INLINE {});
    };
    I32x16 waiting[kRows];
    I32x16 dot[1][kRows];
    multiply(Constant<0>{}, dot);
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      waiting[r.value] = keep_order(first_of_pair<Source>(dot[0][r.value], pair.shift(0, r.value)));
    });
    multiply(Constant<1>{}, dot);
    with_place(block, count, [&](auto place) HASTEN_INLINE {
      unroll<0, kRows>([&](auto r) HASTEN_INLINE {
        const I32x16 dots = join_pair<Source>(waiting[r.value], pair.shift(0, r.value),
                                              dot[0][r.value], pair.shift(1, r.value));
        finish_in_memory<PairPlace{decltype(place)::value}>(dots, sources[0], block, pair, r.value,
                                                            sums, r.value * kGroupRows);
      });
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
HASTEN_KERNEL void quant_matmul_tall(const QuantMatmulTask& task, int64_t first,
                                     int64_t num_groups) {
  constexpr int kTogether = kInOrder ? 1 : 2;
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const PackedGroups<Source> groups(task.groups, blocks);
  constexpr int64_t kGroupSums = kRows * kGroupRows;
  alignas(64) float sums[kStackGroups * kGroupSums];  // of two together [kRows][2][16]
  alignas(64) uint8_t of_first_pairs[kTogether * kGroupSums * 4];
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
      const SumsInMemory tall{.totals = sums + g * kGroupSums, .of_first_pairs = of_first_pairs};
      if constexpr (kInOrder) {
        const Source sources[1] = {source};
        accumulate_tall_in_order<kRows>(sources, count, x, tall);
      } else {
        // A last one that is alone is multiplied twice, and stored once.
        const Source sources[2] = {source,
                                   groups.from(first + (g + 1 < num_groups ? g + 1 : g), strip)};
        const TwoStripsAhead<Source> ahead(source, groups.distance(count));
        accumulate_tall<kRows>(sources, count, x, tall, ahead);
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
/// registers from strip to strip (docs/performance-log.md, "Strips of columns").
template <class Source, int kRows, bool kWhole>
HASTEN_KERNEL void quant_matmul_strips(const QuantMatmulTask& task, int64_t first,
                                       int64_t num_groups) {
  const int64_t blocks = Source::num_blocks(task.x.columns);
  const PackedGroups<Source> groups(task.groups, blocks);
  F32x16 total[kStackGroups][kRows];
  unroll_tile<kStackGroups, kRows>([&](auto g, auto r)
                                       HASTEN_INLINE { total[g.value][r.value] = zero(); });
  for (int64_t g = 0; g < num_groups; ++g) groups.from(first + g, 0).load_head();
  int64_t count = 0;
  const uint8_t* x = task.x.tiles;
  for (int64_t strip = 0; strip < blocks; strip += count) {
    count = blocks_from(groups.layout(), strip);
    const int64_t distance = groups.distance(count);
    const uint8_t* units = groups.from(first, strip).unit_of(0);
    const auto multiply = [&](F32x16(&sums)[kRows]) HASTEN_INLINE {
      const Source source[1] = {Source(nullptr, units)};
      F32x16 own[kRows];  // in registers, whatever `sums` are in
      unroll<0, kRows>([&](auto r) HASTEN_INLINE { own[r.value] = sums[r.value]; });
      accumulate_pairs<false, 1, kRows>(
          source, count, x,
          [&](int, int r, F32x16 product, F32x16 scale)
              HASTEN_INLINE { add_product(own[r], product, scale); },
          [&](int64_t block) HASTEN_INLINE {
            source[0].load_in_order(block);
            if constexpr (kRows > kOneStreamRows) source[0].prefetch_ahead(block, kStripAhead);
          });
      unroll<0, kRows>([&](auto r) HASTEN_INLINE { sums[r.value] = own[r.value]; });
      units += distance;
    };
    if constexpr (kWhole) {
      unroll<0, kStackGroups>([&](auto g) HASTEN_INLINE { multiply(total[g.value]); });
    } else {
      for (int64_t g = 0; g < num_groups; ++g) multiply(total[g]);
    }
    x += activation_bytes_of<Source, kRows>(count);
  }
  const auto finish = [&](int64_t g, const F32x16(&sums)[kRows]) HASTEN_INLINE {
    const F32x16 row_units = groups.from(first + g, 0).row_units();
    unroll<0, kRows>([&](auto r) HASTEN_INLINE {
      store_output(mul(sums[r.value], row_units), task.out, r.value, first + g);
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
HASTEN_KERNEL void quant_matmul_direct(const QuantMatmulTask& task, int64_t begin_group,
                                       int64_t stride) {
  static_assert(!kInOrder || kGroups == 1);
  // Bytes, of each stream; measured. Codes that are split are whole bytes and nothing is unpacked:
  // there, fetching far ahead only disturbs what the hardware fetches by itself (Zen 3). A core
  // drops what it is asked to fetch while too much is on its way: one stream is asked for twice
  // (8 rows take 5 to 15 % less on Zen 5), but not for one row, which leaves the core so
  // much to fetch by itself that a second ask costs 1 to 4 %. Two streams gain nothing by it, and
  // without a dot instruction several rows are bound by arithmetic. Cores that like several streams
  // have more lines on their way to the second-level cache than to the first, and are asked for
  // both: one row takes 3 to 11 % less by it (Emerald Rapids).
  constexpr bool kOnce = kHasDotInstruction && kRows == 1;
  constexpr bool kTwice = kGroups == 1 && !kOnce && (kHasDotInstruction || kRows <= kOneStreamRows);
  constexpr int64_t kAgain = kGroups == 1 ? 4096 : Source::kSplit ? 512 : 2048;
  constexpr int64_t kAhead = kTwice ? 8192 : kGroups == 1 && kOnce ? 6144 : kAgain;
  constexpr int64_t kFarAhead = 8192;
  const bool asks_far = kMayAskIntoSecond && kGroups > 1 &&
                        (kRows <= kOneStreamRows || task.streams == WeightStreams::several);
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
      for (int g = 0; asks_far && g < kGroups; ++g) {
        sources[g].template prefetch_ahead<CacheLevel::second>(block, kFarAhead);
      }
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
      // Where a vector is one register, and the sums of a stack leave some of 32.
      if constexpr (kRows <= kOneStreamRows && kHasDotInstruction) {
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
    if constexpr (kReadsInOrder && Source::kIntegerScales) {
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
      if constexpr (kReadsInOrder && Source::kIntegerScales && kRows <= kOneStreamRows) {
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

}  // namespace
}  // namespace hasten::cpu
