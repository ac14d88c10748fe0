// SPDX-License-Identifier: Apache-2.0
// Attention reads and writes nothing behind the keys and values that it is given, which lie in
// memory that sanitizers do not divide, nor behind arrays of its own. All of them are zeros: which
// numbers it makes is held to the reference in tests/conformance, what it stores in
// kernels_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/guarded_bytes_test.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "base/checked.h"

namespace hasten::cpu {
namespace {

constexpr KvKind kSingleKinds[] = {KvKind::f32,     KvKind::f16,  KvKind::bf16,
                                   KvKind::f8_e4m3, KvKind::q8_0, KvKind::q4_0};

/// Bytes of the keys, or the values, of some tokens of a block: codes, then scales.
int64_t part_bytes(KvKind kind, int64_t num_tokens, int64_t head_dim) {
  const int64_t elements = num_tokens * head_dim;
  return kv_code_bytes(kind, elements) +
         (has_scales(kind) ? elements / kKvScaleElements * kKvScaleBytes : 0);
}

/// Floats, all zero, up to a page that nobody may touch.
class GuardedFloats : public GuardedBytes {
 public:
  explicit GuardedFloats(int64_t count)
      : GuardedBytes(count * static_cast<int64_t>(sizeof(float))), count_(count) {}
  float* floats() const { return reinterpret_cast<float*>(data()); }
  std::span<float> all() const { return {floats(), static_cast<size_t>(count_)}; }

 private:
  int64_t count_;
};

/// Keys [begin, end) of a tile.
struct Seen {
  int32_t begin;
  int32_t end;
};

/// Queries of zeros, each array of floats by itself.
class ZeroQueries {
 public:
  ZeroQueries(int64_t rows, int64_t head_dim, Seen seen)
      : rows_(rows),
        head_dim_(head_dim),
        num_seen_(seen.end - seen.begin),
        q_(rows * head_dim),
        begin_(static_cast<size_t>(rows), seen.begin),
        end_(static_cast<size_t>(rows), seen.end),
        scores_(rows * kTileKeys),
        max_(rows),
        sums_(rows * kSumLanes),
        out_(rows * padded_dim()) {
    std::ranges::fill(max_.all(), -std::numeric_limits<float>::infinity());
  }

  float* q() const { return q_.floats(); }
  int64_t padded_dim() const { return round_up(head_dim_, kGroupRows); }
  TileQueries task() const {
    return {.q = q_.floats(),
            .score_scale = 1.0F,
            .rows = rows_,
            .head_dim = head_dim_,
            .padded_dim = padded_dim(),
            .begin = begin_.data(),
            .end = end_.data(),
            .soft_cap = 0.0F,
            .scores = scores_.floats(),
            .state = {.max = max_.floats(), .sums = sums_.floats(), .out = out_.floats()}};
  }
  /// Each key that is seen has the weight one, and its value is zero.
  void expect_seen(const std::string& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const std::span<float> lanes =
          sums_.all().subspan(static_cast<size_t>(row * kSumLanes), kSumLanes);
      EXPECT_EQ(std::accumulate(lanes.begin(), lanes.end(), 0.0F), static_cast<float>(num_seen_))
          << what << ", row " << row << " of " << rows_;
    }
    EXPECT_TRUE(std::ranges::all_of(out_.all(), [](float v) { return v == 0.0F; }))
        << what << ", " << rows_ << " rows";
  }

 private:
  int64_t rows_;
  int64_t head_dim_;
  int32_t num_seen_;
  GuardedFloats q_;
  std::vector<int32_t> begin_;
  std::vector<int32_t> end_;
  GuardedFloats scores_;
  GuardedFloats max_;
  GuardedFloats sums_;
  GuardedFloats out_;
};

/// Four runs of 16 keys in blocks of 16, each run's keys and values by themselves.
class GuardedTile {
 public:
  GuardedTile(KvKind kind, int64_t head_dim) : kind_(kind), head_dim_(head_dim) {
    for (int i = 0; i < 2 * kRuns; ++i) {
      parts_.push_back(std::make_unique<GuardedBytes>(part_bytes(kind, kGroupRows, head_dim)));
    }
  }

  /// Runs that nobody sees may be read (AttendCachedTask), and are one that somebody sees.
  CachedTile tile(Seen seen) const {
    CachedTile tile{};
    const int64_t code_bytes = kv_code_bytes(kind_, kGroupRows * head_dim_);
    for (int run = 0; run < kRuns; ++run) {
      const bool is_seen = run * kGroupRows < seen.end && (run + 1) * kGroupRows > seen.begin;
      const auto at = static_cast<size_t>(is_seen ? run : seen.begin / kGroupRows);
      tile.keys[run] = parts_[2 * at]->data();
      tile.values[run] = parts_[2 * at + 1]->data();
      tile.key_scales[run] = tile.keys[run] + code_bytes;
      tile.value_scales[run] = tile.values[run] + code_bytes;
    }
    tile.begin = seen.begin;
    tile.end = seen.end;
    return tile;
  }

  void attend(void (*kernel)(const AttendCachedTask&), const ZeroQueries& queries,
              Seen seen) const {
    const CachedTile current = tile(seen);
    const CachedTile next = tile({0, kTileKeys});
    const GuardedFloats scratch(kPairScratchRows * head_dim_);
    kernel({.queries = queries.task(),
            .key_kind = kind_,
            .value_kind = kind_,
            .key_stride = kv_key_row_bytes(kind_, kGroupRows),
            .scale_stride = kGroupRows * kKvScaleBytes,
            .tile = &current,
            .next = &next,
            .scratch = scratch.floats()});
  }

 private:
  static constexpr int kRuns = kTileKeys / kGroupRows;
  KvKind kind_;
  int64_t head_dim_;
  std::vector<std::unique_ptr<GuardedBytes>> parts_;  // of each run keys and values
};

// A whole tile, the first and the last of a sequence, and single keys.
constexpr Seen kSeen[] = {{0, kTileKeys}, {0, 5}, {0, 49}, {19, kTileKeys}, {21, 22}, {63, 64}};

std::string name_of(const KernelTable& kernels, KvKind kind, int64_t head_dim, Seen seen) {
  return std::string(kernels.name) + ", kind " + std::to_string(static_cast<int>(kind)) +
         ", heads of " + std::to_string(head_dim) + ", keys " + std::to_string(seen.begin) +
         " to " + std::to_string(seen.end);
}

TEST(AttentionBounds, FewRowsReadNothingBehindTheirRuns) {
  for (const KernelTable* kernels : supported_kernels()) {
    for (const KvKind kind : kSingleKinds) {
      for (const int64_t head_dim : {32, 64, 96, 128}) {
        const GuardedTile tile(kind, head_dim);
        for (const Seen seen : kSeen) {
          for (int64_t rows = 1; rows <= 12; ++rows) {
            const ZeroQueries queries(rows, head_dim, seen);
            tile.attend(kernels->attention.attend_cached, queries, seen);
            queries.expect_seen(name_of(*kernels, kind, head_dim, seen));
          }
        }
      }
    }
  }
}

TEST(AttentionBounds, PairsAreReadAlone) {
  bool any = false;
  for (const KernelTable* kernels : supported_kernels()) {
    for (const KvKind kind : {KvKind::bf16_pairs, KvKind::q8_0_pairs}) {
      const PairKernels& pairs =
          kind == KvKind::bf16_pairs ? kernels->bf16_pairs : kernels->q8_0_pairs;
      if (!pairs.exist()) continue;
      any = true;
      for (const int64_t head_dim : {16, 32, 48, 64, 96, 128}) {
        if (has_scales(kind) && head_dim % kKvScaleElements != 0) continue;
        const GuardedTile tile(kind, head_dim);
        for (const Seen seen : kSeen) {
          for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 31, 33, 64}) {
            for (const auto attend : pairs.attend) {
              const ZeroQueries queries(rows, head_dim, seen);
              for (int64_t row = 0; row < rows; ++row) {
                float* q = queries.q() + row * head_dim;
                pairs.round_query(q, head_dim, q);
              }
              tile.attend(attend, queries, seen);
              queries.expect_seen(name_of(*kernels, kind, head_dim, seen));
            }
          }
        }
      }
    }
  }
  if (!any) GTEST_SKIP() << "attention to pairs needs AVX-512, which this processor lacks";
}

// Of the last tokens of a block, in blocks and heads of any size.
TEST(AttentionBounds, NothingBehindABlockIsLoaded) {
  for (const KernelTable* kernels : supported_kernels()) {
    for (const KvKind kind : kSingleKinds) {
      for (const int64_t block_size : {1, 5, 16, 40, 64}) {
        for (const int64_t head_dim : {3, 20, 32, 64, 96}) {
          if (has_scales(kind) && head_dim % kKvScaleElements != 0) continue;
          const GuardedBytes keys(part_bytes(kind, block_size, head_dim));
          const GuardedBytes values(part_bytes(kind, block_size, head_dim));
          for (const int64_t first : {int64_t{0}, block_size / 2, block_size - 1}) {
            const Seen seen{static_cast<int32_t>(first), static_cast<int32_t>(block_size)};
            for (const int64_t rows : {1, 7, 13}) {
              const ZeroQueries queries(rows, head_dim, seen);
              const GuardedFloats tile_keys(head_dim * kTileKeys);
              const GuardedFloats tile_values(kTileKeys * queries.padded_dim());
              kernels->attention.kv_load({.keys = keys.data(),
                                          .values = values.data(),
                                          .key_kind = kind,
                                          .value_kind = kind,
                                          .head_dim = head_dim,
                                          .block_size = block_size,
                                          .first = first,
                                          .count = block_size - first,
                                          .tile_keys = tile_keys.floats(),
                                          .tile_values = tile_values.floats(),
                                          .padded_dim = queries.padded_dim(),
                                          .at = first});
              kernels->attention.attend_tile({.queries = queries.task(),
                                              .tile_keys = tile_keys.floats(),
                                              .tile_values = tile_values.floats()});
              queries.expect_seen(name_of(*kernels, kind, head_dim, seen));
            }
          }
        }
      }
    }
  }
}

// The last token of a block, and of pairs all that may follow each other.
TEST(AttentionBounds, NothingBehindABlockIsStored) {
  constexpr int64_t kBlockSize = 16;
  for (const KernelTable* kernels : supported_kernels()) {
    for (const int64_t head_dim : {16, 48, 64, 128}) {
      const GuardedFloats x(kBlockSize * head_dim);
      for (const KvKind kind : {KvKind::f32, KvKind::f16, KvKind::bf16}) {
        const GuardedBytes part(part_bytes(kind, kBlockSize, head_dim));
        const float* last = x.floats() + (kBlockSize - 1) * head_dim;
        kernels->kv_store({.x = last,
                           .count = head_dim,
                           .kind = kind,
                           .data = part.data(),
                           .first = kBlockSize - 1,  // of keys
                           .stride = kBlockSize});
        kernels->kv_store({.x = last,
                           .count = head_dim,
                           .kind = kind,
                           .data = part.data(),
                           .first = (kBlockSize - 1) * head_dim,
                           .stride = 1});
      }
      if (kernels->bf16_pairs.store == nullptr) continue;
      const GuardedBytes keys(part_bytes(KvKind::bf16_pairs, kBlockSize, head_dim));
      const GuardedBytes values(part_bytes(KvKind::bf16_pairs, kBlockSize, head_dim));
      for (int64_t first = 0; first < kBlockSize; ++first) {
        for (int64_t count = 1; first + count <= kBlockSize; ++count) {
          const float* from = x.floats() + (kBlockSize - count) * head_dim;
          kernels->bf16_pairs.store({.k = from,
                                     .v = from,
                                     .token_stride = head_dim,
                                     .count = count,
                                     .head_dim = head_dim,
                                     .block_size = kBlockSize,
                                     .first = first,
                                     .keys = keys.data(),
                                     .values = values.data()});
        }
      }
    }
  }
}

}  // namespace
}  // namespace hasten::cpu
