// SPDX-License-Identifier: Apache-2.0
// Paged attention against the reference: head shapes, storage types, windows, soft caps, contexts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "candidates.h"
#include "device_data.h"
#include "ops/reference/reference_backend.h"
#include "paged_world.h"
#include "tensor/half.h"

namespace hasten::conformance {
namespace {

// Relative to the norm of one head's result; float sums and exponentials over a few thousand keys.
constexpr double kHeadTolerance = 2e-5;
// Where weights are rounded to bf16, 2^-8 of each at most. Where a head has few elements, chance
// spreads their mean.
double rounded_tolerance(int64_t head_dim) {
  return 6e-3 * (1.0 + 4.0 / std::sqrt(static_cast<double>(head_dim)));
}

// Where queries and weights are rounded to 16 bits, 2^-16 of the largest of a head and of a tile.
constexpr double kInt16Tolerance = 4e-4;

class AttentionTest : public ConformanceTest {
 protected:
  /// One step with the last `queries` tokens of sequences of `context` tokens.
  struct Load {
    int64_t context = 0;
    int64_t queries = 0;
  };

  void check(const AttentionSettings& settings, const std::vector<Load>& loads) {
    std::vector<SequenceData> sequences;
    std::vector<Part> earlier;
    std::vector<Part> parts;
    std::string text;
    for (const Load& load : loads) {
      const auto index = static_cast<int64_t>(sequences.size());
      sequences.push_back(random_sequence(settings, load.context, random_));
      const int64_t begin = load.context - load.queries;
      if (begin > 0) earlier.push_back({index, 0, begin});
      parts.push_back({index, begin, load.context});
      text += fmt::format(" {}/{}", load.queries, load.context);
    }
    const auto threads = static_cast<int32_t>(random_.between(1, 3));
    SCOPED_TRACE(fmt::format(
        "kv heads {} x {} head_dim {} kv {} cap {} window {} block {} threads {} queries/keys{}",
        settings.num_kv_heads, settings.heads_per_kv_head, settings.head_dim, settings.kv_names(),
        settings.soft_cap, settings.window, settings.block_size, threads, text));

    const auto backend = make(threads);
    const bool rounds = rounds_to_bf16(settings);
    // Queries are rounded like keys, which is not what is measured here.
    if (rounds)
      for (SequenceData& sequence : sequences) round_queries(sequence);
    const auto run = [&](ops::Backend& any) {
      PagedWorld world(any, settings, sequences, random_);
      world.write(earlier);
      return world.step(parts);
    };
    expect_rows_close(run(*backend), run(*reference_), settings.head_dim, tolerance(settings));
    if (!rounds) return;
    // All weights alike: rounding changes none, but a value that is left out shows.
    for (SequenceData& sequence : sequences) std::ranges::fill(sequence.k, 0.0F);
    expect_rows_close(run(*backend), run(*reference_), settings.head_dim, kHeadTolerance);
  }

  /// With keys and values of each type that may have kernels of its own.
  void check_pairs(AttentionSettings settings, const std::vector<Load>& loads) {
    check(settings, loads);
    if (settings.head_dim % info(DType::q8_0).block_size != 0) return;
    if (!GetParam().has_own(DType::q8_0)) return;
    settings.kv_types = {.keys = DType::q8_0, .values = DType::q8_0};
    check(settings, loads);
  }

  /// Whether keys and values are of a type and whole vectors of pairs.
  static bool has_pairs(const AttentionSettings& settings, DType type) {
    return settings.head_dim % 16 == 0 && settings.block_size % 16 == 0 &&
           settings.kv_types.keys == type && settings.kv_types.values == type;
  }
  /// Whether queries and weights are.
  static bool rounds_to_bf16(const AttentionSettings& settings) {
    return GetParam().accuracy.bf16_attention && has_pairs(settings, DType::bf16);
  }
  static double tolerance(const AttentionSettings& settings) {
    if (rounds_to_bf16(settings)) return rounded_tolerance(settings.head_dim);
    const bool rounds = GetParam().accuracy.int16_attention && has_pairs(settings, DType::q8_0);
    return rounds ? kInt16Tolerance : kHeadTolerance;
  }
  static void round_queries(SequenceData& sequence) {
    for (float& q : sequence.q) q = bf16_to_f32(f32_to_bf16(q));
  }

  Load random_load(int64_t max_context) {
    const int64_t context = random_.between(1, max_context);
    return {context, random_.between(1, std::min<int64_t>(context, 67))};
  }

  Random random_ = make_random();
  std::unique_ptr<ops::Backend> reference_ = ops::make_reference_backend();
};

TEST_P(AttentionTest, HeadShapes) {
  for (const int64_t head_dim : {16, 32, 48, 64, 80, 96, 112, 128, 256}) {
    for (const int64_t ratio : {1, 2, 3, 4, 7, 8}) {
      check_pairs(
          {.num_kv_heads = random_.between(1, 3), .heads_per_kv_head = ratio, .head_dim = head_dim},
          {random_load(40), {random_.between(1, 150), 1}});
    }
  }
}

// All that a file may ask for: no vector's multiple, and the largest.
TEST_P(AttentionTest, OddHeadSizes) {
  for (const int64_t head_dim : {8, 17, 24, 40, 100, 255, 512}) {
    check_pairs({.num_kv_heads = random_.between(1, 3),
                 .heads_per_kv_head = random_.between(1, 5),
                 .head_dim = head_dim},
                {random_load(40), {random_.between(1, 150), 1}, {random_.between(33, 100), 33}});
  }
}

TEST_P(AttentionTest, StorageTypes) {
  const Candidate& candidate = GetParam();
  for (const DType keys : kKvTypes) {
    for (const DType values : kKvTypes) {
      // A type of its own beside another must not be taken for a pair of them.
      if (!candidate.has_own(keys) && !candidate.has_own(values)) continue;
      const bool own = candidate.has_own(keys) && candidate.has_own(values);
      for (const int64_t head_dim : {64, 80, 96}) {
        const bool fits =
            head_dim % info(keys).block_size == 0 && head_dim % info(values).block_size == 0;
        if (!fits) continue;
        for (const int64_t block_size : {16, 8, 1}) {
          // The reference is compared with itself; what is not a candidate's own with less care.
          if (block_size < 16 && (candidate.is_reference() || !own)) break;
          check({.num_kv_heads = 2,
                 .heads_per_kv_head = random_.pick<int64_t>({1, 3, 4}),
                 .head_dim = head_dim,
                 .kv_types = {.keys = keys, .values = values},
                 .block_size = block_size},
                {random_load(100), {random_.between(1, 200), 1}});
        }
      }
    }
  }
}

TEST_P(AttentionTest, EveryContextNearATileBoundary) {
  for (const int64_t context : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    for (const int64_t head_dim : {32, 64, 128}) {
      check_pairs({.num_kv_heads = 2, .heads_per_kv_head = 2, .head_dim = head_dim},
                  {{context, 1}, {context, std::min<int64_t>(context, 3)}});
    }
  }
}

TEST_P(AttentionTest, Windows) {
  for (const int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100}) {
    for (const int64_t head_dim : {32, 64, 128}) {
      check_pairs(
          {.num_kv_heads = 2, .heads_per_kv_head = 2, .head_dim = head_dim, .window = window},
          {{300, 1}, {random_.between(70, 260), 67}, random_load(90), {5, 5}});
    }
  }
}

// Whole tiles, and the end of one, with each number of rows that share them.
TEST_P(AttentionTest, FewQueriesOfWholeTiles) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t ratio : {1, 2, 3, 4, 5, 6, 7, 13}) {
      check_pairs({.num_kv_heads = 1, .heads_per_kv_head = ratio, .head_dim = head_dim},
                  {{64, 1}, {200, 1}});
    }
  }
}

TEST_P(AttentionTest, SoftCaps) {
  for (const float cap : {0.5F, 5.0F, 50.0F}) {
    for (const int64_t window : {0, 40}) {
      for (const int64_t head_dim : {64, 128}) {
        check_pairs({.num_kv_heads = 1,
                     .heads_per_kv_head = 4,
                     .head_dim = head_dim,
                     .soft_cap = cap,
                     .window = window},
                    {random_load(90), {150, 1}});
      }
    }
  }
}

TEST_P(AttentionTest, BlockSizes) {
  for (const int64_t block_size : {1, 8, 16, 32, 128}) {
    check_pairs(
        {.num_kv_heads = 2, .heads_per_kv_head = 2, .head_dim = 96, .block_size = block_size},
        {random_load(150), {random_.between(1, 300), 1}});
  }
}

TEST_P(AttentionTest, MixedStepOfManySequences) {
  std::vector<Load> loads;
  int64_t num_tokens = 0;
  while (loads.size() < 24) {
    Load load{.context = random_.between(1, 200), .queries = 1};
    if (random_.between(0, 3) == 0) {
      load.queries = std::min(load.context, random_.between(1, 25));
    }
    if (num_tokens + load.queries > kStepLimits.max_tokens) break;
    num_tokens += load.queries;
    loads.push_back(load);
  }
  check_pairs({.num_kv_heads = 2, .heads_per_kv_head = 4, .head_dim = 64}, loads);
}

TEST_P(AttentionTest, LongContexts) {
  for (const int64_t window : {0, 1000}) {
    check_pairs({.num_kv_heads = 1, .heads_per_kv_head = 4, .head_dim = 64, .window = window},
                {{random_.between(2500, 3500), 1}, {random_.between(1000, 2000), 9}});
  }
}

// A chunk of a long prompt beside decodes, short and long: some are cut into spans, others not.
TEST_P(AttentionTest, LongChunksBesideDecodes) {
  std::vector<Load> loads = {{random_.between(2500, 3000), random_.between(20, 40)}};
  for (int i = 0; i < 6; ++i) loads.push_back({random_.between(1, 300), 1});
  loads.push_back({random_.between(1500, 2000), 1});
  check_pairs({.num_kv_heads = 2, .heads_per_kv_head = 4, .head_dim = 64}, loads);
}

// Scores of thousands: exp must not overflow, and all weight goes to the largest.
TEST_P(AttentionTest, HugeScores) {
  const AttentionSettings settings{.num_kv_heads = 1, .heads_per_kv_head = 2, .head_dim = 64};
  std::vector<SequenceData> sequences = {random_sequence(settings, 100, random_)};
  // Of such scores, queries of 16 bits would choose other keys: these have 8.
  for (float& q : sequences[0].q) q = bf16_to_f32(f32_to_bf16(q)) * 8192.0F;
  const auto backend = make(2);
  const auto run = [&](ops::Backend& any) {
    return PagedWorld(any, settings, sequences, random_).step({{0, 0, 100}});
  };
  expect_rows_close(run(*backend), run(*reference_), settings.head_dim, 1e-2);
}

// Maxima that rise from tile to tile, while the values seen before are so large that they count all
// the same: what was summed must be brought to the new maximum, and must not overflow before.
TEST_P(AttentionTest, RisingScores) {
  for (const DType type : {DType::bf16, DType::f32, DType::q8_0}) {
    for (const float rise : {3.0F, 9.0F, 15.0F, 75.0F}) {
      SCOPED_TRACE(rise);
      const AttentionSettings settings{.kv_types = {.keys = type, .values = type}};
      const int64_t dim = settings.head_dim;
      std::vector<SequenceData> sequences = {random_sequence(settings, 160, random_)};
      SequenceData& data = sequences[0];
      std::ranges::fill(data.q, 1.0F);
      for (int64_t i = 0; i < data.length * dim; ++i) {
        const auto tile = static_cast<float>(i / dim / 64);
        const float score = rise * tile + 0.01F * data.k[i / dim * dim];
        data.k[i] = score / std::sqrt(static_cast<float>(dim));
        data.v[i] *= std::exp(std::min(16.0F, rise * (2.0F - tile)));
      }
      const auto backend = make(2);
      const auto run = [&](ops::Backend& any) {
        return PagedWorld(any, settings, sequences, random_).step({{0, 0, data.length}});
      };
      // A weight's relative error is its score's absolute one: 2^-24 of the score for each of some
      // roundings of a float sum.
      const double of_scores = 2.0 * rise * 0x1p-20;
      expect_rows_close(run(*backend), run(*reference_), dim, of_scores + tolerance(settings));
    }
  }
}

// What a window leaves out may be anything, beside its first key, too.
TEST_P(AttentionTest, NanBeforeAWindow) {
  for (const DType type : {DType::bf16, DType::q8_0}) {
    for (const int64_t window : {1, 2, 15, 16, 64, 65}) {
      const AttentionSettings settings{.num_kv_heads = 2,
                                       .heads_per_kv_head = 3,
                                       .kv_types = {.keys = type, .values = type},
                                       .window = window};
      for (const int64_t length : {100, 101}) {
        std::vector<SequenceData> sequences = {random_sequence(settings, length, random_)};
        const auto gone = (length - window) * settings.key_size();  // elements of keys before it
        for (std::vector<float>* part : {&sequences[0].k, &sequences[0].v})
          std::fill_n(part->begin(), gone, std::numeric_limits<float>::quiet_NaN());
        if (rounds_to_bf16(settings)) round_queries(sequences[0]);
        const auto backend = make(2);
        const auto run = [&](ops::Backend& any) {
          PagedWorld world(any, settings, sequences, random_);
          world.write({{0, 0, length - 1}});
          return world.step({{0, length - 1, length}});
        };
        expect_rows_close(run(*backend), run(*reference_), settings.head_dim, tolerance(settings));
      }
    }
  }
}

// A value that is no number shows in what sees its key, in a tile that is seen whole or in part.
TEST_P(AttentionTest, NanValuesShow) {
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0}) {
    const AttentionSettings settings{
        .num_kv_heads = 2, .heads_per_kv_head = 3, .kv_types = {.keys = type, .values = type}};
    constexpr int64_t kLength = 140;
    constexpr int64_t kBad = 70;  // the key; its tile is seen whole from 127 on
    std::vector<SequenceData> sequences = {random_sequence(settings, kLength, random_)};
    sequences[0].v[kBad * settings.key_size() + 5] = std::numeric_limits<float>::quiet_NaN();
    const auto backend = make(2);
    PagedWorld world(*backend, settings, sequences, random_);
    world.write({{0, 0, kLength - 1}});
    const auto row_of = [&](int64_t token) { return world.step({{0, token, token + 1}}); };
    for (const int64_t token : {kBad, kBad + 1, int64_t{126}, int64_t{127}, kLength - 1}) {
      const auto row = row_of(token);  // of the first three heads
      for (int64_t head = 0; head < 3; ++head)
        EXPECT_TRUE(std::isnan(row[head * settings.head_dim + 5])) << info(type).name << token;
      EXPECT_FALSE(std::isnan(row[3 * settings.head_dim + 5])) << info(type).name << token;
    }
    for (const float element : row_of(kBad - 1)) EXPECT_FALSE(std::isnan(element));
  }
}

// Of queries worked on together, some see a value that is no number in a span of keys of which
// others, whose windows begin behind it, see nothing: it does not show in these.
TEST_P(AttentionTest, NanValuesOfASpanStayWithWhoSeesSomeOfIt) {
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0}) {
    constexpr int64_t kSpanEnd = 512;
    constexpr int64_t kBad = kSpanEnd - 3;
    const AttentionSettings settings{.kv_types = {.keys = type, .values = type}, .window = 100};
    std::vector<SequenceData> sequences = {random_sequence(settings, 700, random_)};
    std::fill_n(sequences[0].v.begin() + kBad * settings.key_size(), settings.head_dim,
                std::numeric_limits<float>::quiet_NaN());
    for (const int32_t threads : {1, 3}) {
      const auto backend = make(threads);
      PagedWorld world(*backend, settings, sequences, random_);
      world.write({{0, 0, 560}});
      const auto rows = world.step({{0, 560, 700}});
      for (int64_t token = 560; token < 700; ++token) {
        const float element = rows[static_cast<size_t>((token - 560) * settings.query_size() + 7)];
        if (token < kBad + settings.window) {
          EXPECT_TRUE(std::isnan(element)) << info(type).name << token;
        }
        if (token - settings.window + 1 >= kSpanEnd) {
          EXPECT_TRUE(std::isfinite(element)) << info(type).name << token;
        }
      }
    }
  }
}

// However little its key counts: a fault is not hidden.
TEST_P(AttentionTest, NanValuesWithoutWeightShow) {
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0}) {
    const AttentionSettings settings{.kv_types = {.keys = type, .values = type}};
    constexpr int64_t kBad = 20;
    std::vector<SequenceData> sequences = {random_sequence(settings, 40, random_)};
    SequenceData& data = sequences[0];
    std::ranges::fill(data.q, 10.0F);
    std::ranges::fill(data.k, 0.0F);
    const auto bad = kBad * settings.key_size();
    std::fill_n(data.k.begin() + bad, settings.head_dim, -3.0F);  // a score of -240
    std::fill_n(data.v.begin() + bad, settings.head_dim, std::numeric_limits<float>::quiet_NaN());
    const auto backend = make(2);
    for (ops::Backend* any : {backend.get(), reference_.get()}) {
      PagedWorld world(*any, settings, sequences, random_);
      world.write({{0, 0, 39}});
      EXPECT_TRUE(std::isnan(world.step({{0, 39, 40}})[0])) << info(type).name;
    }
  }
}

// One key of each tile has nearly all weight, and the others of it together a thousandth, of which
// each is rounded to the same side.
TEST_P(AttentionTest, WeightsRoundedToOneSide) {
  const AttentionSettings settings{.kv_types = {.keys = DType::q8_0, .values = DType::q8_0}};
  const auto dim = settings.head_dim;
  for (const double units : {0.49, 0.51}) {
    std::vector<SequenceData> sequences = {random_sequence(settings, 640, random_)};
    SequenceData& data = sequences[0];
    std::ranges::fill(data.q, 1.0F);
    std::ranges::fill(data.k, 0.0F);
    std::ranges::fill(data.v, 1.0F);
    for (int64_t t = 0; t < data.length; t += 64) {
      const double score = std::log(32767 / units) / std::sqrt(static_cast<double>(dim));
      for (int64_t d = 0; d < dim; ++d) {
        data.k[t * dim + d] = static_cast<float>(score);
        data.v[t * dim + d] = -1.0F;
      }
    }
    const auto backend = make(2);
    const auto run = [&](ops::Backend& any) {
      PagedWorld world(any, settings, sequences, random_);
      world.write({{0, 0, data.length - 1}});
      return world.step({{0, data.length - 1, data.length}});
    };
    expect_rows_close(run(*backend), run(*reference_), dim,
                      GetParam().accuracy.int16_attention ? 0x1p-10 : kHeadTolerance);
  }
}

// Values of 32 elements each with a scale of its own, far apart from key to key and along the head:
// what is small beside another may be off by what the other is rounded by, not by more.
TEST_P(AttentionTest, ScalesFarApart) {
  const AttentionSettings settings{.heads_per_kv_head = 4,
                                   .head_dim = 128,
                                   .kv_types = {.keys = DType::q8_0, .values = DType::q8_0}};
  std::vector<SequenceData> sequences = {random_sequence(settings, 150, random_)};
  for (int64_t i = 0; i < sequences[0].length; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      const float scale = std::exp2(static_cast<float>(random_.between(-14, 6)));
      for (int64_t d = 0; d < 32; ++d) sequences[0].v[i * 128 + 32 * j + d] *= scale;
    }
  }
  for (int64_t d = 0; d < 32; ++d) sequences[0].v[7 * 128 + d] = 0.0F;
  const auto backend = make(2);
  const auto run = [&](ops::Backend& any) {
    return PagedWorld(any, settings, sequences, random_).step({{0, 0, sequences[0].length}});
  };
  expect_rows_close(run(*backend), run(*reference_), settings.head_dim, tolerance(settings));
}

// Of two keys, one with a weight of 1: what 256 weights of the other are off by on average.
TEST_P(AttentionTest, ExponentialsAreNotBiased) {
  constexpr int64_t kHeads = 256;
  const AttentionSettings settings{.heads_per_kv_head = kHeads, .head_dim = 16};
  std::vector<SequenceData> sequences = {random_sequence(settings, 2, random_)};
  SequenceData& data = sequences[0];
  std::ranges::fill(data.q, 0.0F);
  std::ranges::fill(data.k, 0.0F);
  for (int64_t d = 0; d < 16; ++d) {
    data.v[d] = 0.0F;
    data.v[16 + d] = 1.0F;
  }
  data.k[16] = 4.0F;  // scores are the first elements of queries
  const int64_t last = kHeads * 16;
  for (int64_t h = 0; h < kHeads; ++h)
    data.q[last + h * 16] = bf16_to_f32(f32_to_bf16(-0.03F * static_cast<float>(h)));
  const auto backend = make(1);
  const auto out = PagedWorld(*backend, settings, sequences, random_).step({{0, 0, 2}});
  double sum = 0;
  for (int64_t h = 0; h < kHeads; ++h) {
    const double weight = std::exp(double{data.q[last + h * 16]});
    sum += out[last + h * 16] / (weight / (1 + weight)) - 1;
  }
  // A weight rounded to bf16 is off by 1.1e-3 (root mean square), 256 on average by a sixteenth.
  EXPECT_LE(std::abs(sum / kHeads), rounds_to_bf16(settings) ? 3e-4 : 1e-6);
}

// Rounded to the nearest, ties to even, before anything is done with them.
TEST_P(AttentionTest, QueriesAreRoundedLikeKeys) {
  const AttentionSettings settings{.num_kv_heads = 2, .heads_per_kv_head = 3, .head_dim = 80};
  std::vector<SequenceData> sequences = {random_sequence(settings, 200, random_)};
  sequences[0].q[0] = 1.00390625F;  // a tie of 1 and 1.0078125
  const auto backend = make(2);
  const auto run = [&] {
    return PagedWorld(*backend, settings, sequences, random_).step({{0, 0, 200}});
  };
  const auto given = run();
  round_queries(sequences[0]);
  const auto rounded = run();
  if (rounds_to_bf16(settings)) {
    EXPECT_EQ(given, rounded);
  } else {
    EXPECT_NE(given, rounded);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionTest, ::testing::ValuesIn(candidates()), candidate_name);

}  // namespace
}  // namespace hasten::conformance
