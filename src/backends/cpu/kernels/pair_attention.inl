// SPDX-License-Identifier: Apache-2.0
// What attention to pairs has in common, whatever they are of: keys and values lie in the cache as
// pairs, of neighbours in the head and of neighbouring keys, and are multiplied as they lie, two
// products to an instruction. The orders of sums are those of a tile, whoever shares it. Behind a
// simd header with fraction and scale_by_whole.
#pragma once

#include "backends/cpu/kernels/ask.inl"
#include "backends/cpu/kernels/attention.inl"

namespace hasten::cpu {
namespace {

constexpr float kLog2E = 1.44269504F;

HASTEN_INLINE inline I32x16 broadcast_pair(const float* p) {
  return set1_i32(load_scalar<int32_t>(reinterpret_cast<const uint8_t*>(p)));
}

/// 2^x within 3e-6 of itself, exact at zero: much less than weights are rounded by. Zero for
/// -infinity. The coefficients are minimax for the fraction of x.
HASTEN_INLINE inline F32x16 rough_power_of_two(F32x16 x) {
  const F32x16 f = fraction(x);
  F32x16 power = set1(0.0134266867F);
  power = fma(power, f, set1(0.0522424704F));
  power = fma(power, f, set1(0.241280207F));
  power = fma(power, f, set1(0.693044845F));
  power = fma(power, f, set1(1.0F));
  return scale_by_whole(power, x);
}

/// The weights of a tile's keys.
struct TileWeights {
  F32x16 of[kTileKeys / 16];
};

/// Softmax of a row of scores, which see some key (`whole`: all of them), as softmax_row; the
/// weights are returned.
HASTEN_INLINE inline TileWeights pair_softmax_row(const TileQueries& queries, int64_t row,
                                                  float* scores, bool whole) {
  const F32x16 shift = set1(-kLog2E * prepare_scores(queries, row, scores, whole));
  const F32x16 scale = set1(kLog2E * remaining_scale(queries));
  TileWeights weights;
  unroll<0, kTileKeys / 16>([&](auto i) HASTEN_INLINE {
    weights.of[i.value] = rough_power_of_two(fma(load(scores + 16 * i.value), scale, shift));
  });
  float* sums = queries.state.sums + row * kSumLanes;
  F32x16 sum = load(sums);
  unroll<0, kTileKeys / 32>([&](auto i) HASTEN_INLINE {
    sum = add(sum, add(weights.of[2 * i.value], weights.of[2 * i.value + 1]));
  });
  store(sums, sum);
  return weights;
}

/// Of pairs of bf16, those of 16 tokens or of 16 elements.
constexpr int64_t kLineBytes = 64;

/// What is fetched while queries meet a tile: runs of 16 keys [begin, end) of the next one.
///
/// A core has room for a few dozen lines on their way and drops what it is asked to fetch beyond
/// that (Zen 5: a tenth of 64 lines in a row). So what few queries read of whole tiles is asked for
/// twice: keys while the tile before is scored and again while it is weighed, values while that is
/// weighed and again while their own tile is scored (of bf16 more often, as kAsks says). With
/// more queries there are parts enough, each of which fetches a run.
///
/// Zen 5 comes nearest to its bandwidth with lines asked into the first-level cache; on Zen 4 these
/// come no sooner than those that nobody asked for, and lines asked into the second do.
template <CacheLevel kInto>
struct PairsAhead {
  const CachedTile* tile;  // this one
  const CachedTile* next;  // null only where begin == end
  int begin;
  int end;
  bool again;  // whether this part asks for all of it, more than once

  /// The next tile's, `at` bytes into those of each run.
  HASTEN_INLINE void fetch_keys(int64_t at) const {
    for (int run = begin; run < end; ++run) ask_for<kInto>(next->keys[run] + at);
  }
  HASTEN_INLINE void fetch_values(int64_t at) const {
    for (int run = begin; run < end; ++run) ask_for<kInto>(next->values[run] + at);
  }
  HASTEN_INLINE void fetch_scales(int64_t at) const {
    for (int run = begin; run < end; ++run) {
      ask_for<kInto>(next->key_scales[run] + at);
      ask_for<kInto>(next->value_scales[run] + at);
    }
  }
  HASTEN_INLINE void fetch_keys_again(int64_t at) const {
    if (again) fetch_keys(at);
  }
  /// This tile's, which are weighed next.
  HASTEN_INLINE void fetch_own_values_again(int64_t at) const {
    if (!again) return;
    for (int run = begin; run < end; ++run) ask_for<kInto>(tile->values[run] + at);
  }
};

/// Keys of a tile.
struct KeyRange {
  int32_t begin;
  int32_t end;
};

/// What any of kRows queries sees; nothing if end <= begin.
template <int kRows>
inline KeyRange seen_keys(const TileQueries& queries, int64_t row) {
  KeyRange seen{kTileKeys, 0};
  for (int64_t r = row; r < row + kRows; ++r) {
    if (sees_nothing(queries, r)) continue;
    seen.begin = queries.begin[r] < seen.begin ? queries.begin[r] : seen.begin;
    seen.end = queries.end[r] > seen.end ? queries.end[r] : seen.end;
  }
  return seen;
}

/// Whether each of kRows queries sees all keys of the tile.
template <int kRows>
inline bool all_seen(const TileQueries& queries, int64_t row) {
  bool all = true;
  for (int64_t r = row; r < row + kRows; ++r)
    all = all && queries.begin[r] == 0 && queries.end[r] == kTileKeys;
  return all;
}

/// A bit for each key of the tile, set for those that the row sees, which are some.
HASTEN_INLINE inline uint64_t seen_lanes(const TileQueries& queries, int64_t row) {
  static_assert(kTileKeys == 64);
  const int32_t count = queries.end[row] - queries.begin[row];
  return (~uint64_t{0} >> (kTileKeys - count)) << queries.begin[row];
}

/// attend(Constant<count>, ahead, row) for parts of all rows, as even as can be, each of which
/// fetches some of the next tile.
template <CacheLevel kInto, class Attend>
inline void attend_in_parts(const AttendCachedTask& task, Attend&& attend) {
  constexpr int kRuns = kTileKeys / 16;
  const int64_t rows = task.queries.rows;
  const int64_t num_parts = (rows + kFloatRows - 1) / kFloatRows;
  const bool all_at_once = num_parts < kRuns;
  const int runs_each = task.next == nullptr ? 0 : all_at_once ? kRuns : 1;
  int64_t row = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    const int64_t count = (rows - row + num_parts - part - 1) / (num_parts - part);
    const int run = part * runs_each < kRuns ? static_cast<int>(part) * runs_each : 0;
    const PairsAhead<kInto> ahead{.tile = task.tile,
                                  .next = task.next,
                                  .begin = run,
                                  .end = part * runs_each < kRuns ? run + runs_each : run,
                                  .again = all_at_once && part == 0};
    with_constant<kFloatRows>(count, [&](auto part_rows) { attend(part_rows, ahead, row); });
    row += count;
  }
}

}  // namespace
}  // namespace hasten::cpu
