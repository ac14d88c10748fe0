// SPDX-License-Identifier: Apache-2.0
// Batch invariance of attention: chunks, neighbours, block placement and threads change no bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "candidates.h"
#include "device_data.h"
#include "paged_world.h"

namespace hasten::conformance {
namespace {

/// Which keys a query sees and how scores are bounded.
struct Variant {
  const char* name;
  float soft_cap;
  int64_t window;
};
constexpr Variant kVariants[] = {
    {"full", 0.0F, 0}, {"capped", 20.0F, 0}, {"window", 0.0F, 45}, {"window_capped", 20.0F, 70}};

class AttentionInvarianceTest
    : public CandidateTest,
      public ::testing::WithParamInterface<std::tuple<Candidate, Variant>> {
 protected:
  void SetUp() override { skip_if_absent(candidate()); }
  const Candidate& candidate() const { return std::get<0>(GetParam()); }

  AttentionSettings random_settings() {
    const Variant& variant = std::get<1>(GetParam());
    const int64_t head_dim = random_.pick<int64_t>({16, 32, 48, 64, 80, 96, 128});
    const auto pick_type = [&] {
      const DType type = random_.pick<DType>({kKvTypes.begin(), kKvTypes.end()});
      return head_dim % info(type).block_size == 0 ? type : DType::f8_e4m3;
    };
    // What may have kernels of its own as often as all others together; if a candidate has them for
    // bf16 alone, keys are of that.
    ops::KvTypes types{.keys = pick_type(), .values = pick_type()};
    const int64_t chance = random_.between(0, 3);
    if (chance == 1 && head_dim % 32 == 0) types = {.keys = DType::q8_0, .values = DType::q8_0};
    if (chance == 0 || !candidate().has_own(types.keys)) types = {};
    return {.num_kv_heads = random_.between(1, 3),
            .heads_per_kv_head = random_.pick<int64_t>({1, 2, 3, 4, 7, 8}),
            .head_dim = head_dim,
            .kv_types = types,
            .soft_cap = variant.soft_cap,
            .window = variant.window,
            .block_size = random_.pick<int64_t>({8, 16, 32, 48})};
  }

  static std::string describe(const AttentionSettings& settings) {
    return fmt::format("kv heads {} x {} head_dim {} kv {} block {}", settings.num_kv_heads,
                       settings.heads_per_kv_head, settings.head_dim, settings.kv_names(),
                       settings.block_size);
  }

  /// A whole sequence, token by token, alone on one thread: what all else must equal.
  std::vector<float> alone(const AttentionSettings& settings,
                           const std::vector<SequenceData>& sequences, int64_t index) {
    return in_chunks(settings, sequences, index, 1, 1);
  }

  /// A whole sequence in steps of `chunk` tokens, alone.
  std::vector<float> in_chunks(const AttentionSettings& settings,
                               const std::vector<SequenceData>& sequences, int64_t index,
                               int64_t chunk, int32_t threads) {
    const auto backend = make(candidate(), threads);
    random_.bits();  // other blocks each time
    PagedWorld world(*backend, settings, sequences, random_);
    std::vector<float> all;
    for (int64_t begin = 0; begin < sequences[index].length; begin += chunk) {
      const auto out =
          world.step({{index, begin, std::min(begin + chunk, sequences[index].length)}});
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  Random random_ = make_random();
};

TEST_P(AttentionInvarianceTest, ChunksEqualTheWholePrompt) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const AttentionSettings settings = random_settings();
    SCOPED_TRACE(describe(settings));
    const std::vector<SequenceData> sequences = {
        random_sequence(settings, random_.between(100, 128), random_)};
    const auto expected = alone(settings, sequences, 0);
    for (const int64_t chunk : {1, 7, 16, 64, 128}) {
      for (const int32_t threads : {1, 2, 3}) {
        ASSERT_EQ(bit_difference(in_chunks(settings, sequences, 0, chunk, threads), expected,
                                 settings.query_size()),
                  std::nullopt)
            << "chunks of " << chunk << " on " << threads << " threads";
      }
    }
  }
}

// With one query and with many, whatever number of rows a tile is then shared by.
TEST_P(AttentionInvarianceTest, RowsOfATileChangeNothing) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t ratio : {1, 2, 3, 4, 5, 6, 7}) {
      if (candidate().is_reference() && ratio > 1) break;
      // Each ratio with one of them.
      if (testing::kSanitized && ratio % 2 != head_dim / 64 % 2) continue;
      AttentionSettings settings = random_settings();
      settings.num_kv_heads = 1;
      settings.heads_per_kv_head = ratio;
      settings.head_dim = head_dim;
      settings.kv_types = {};
      SCOPED_TRACE(describe(settings));
      const std::vector<SequenceData> sequences = {random_sequence(settings, 200, random_)};
      const auto expected = alone(settings, sequences, 0);
      for (const int64_t chunk : {2, 33, 200}) {
        ASSERT_EQ(bit_difference(in_chunks(settings, sequences, 0, chunk, 2), expected,
                                 settings.query_size()),
                  std::nullopt)
            << "chunks of " << chunk;
      }
    }
  }
}

// Decodes and prefill chunks of several sequences share steps, as in continuous batching.
TEST_P(AttentionInvarianceTest, NeighboursChangeNothing) {
  const AttentionSettings settings = random_settings();
  SCOPED_TRACE(describe(settings));
  std::vector<SequenceData> sequences;
  for (int i = 0; i < 7; ++i) {
    sequences.push_back(random_sequence(settings, random_.between(1, 140), random_));
  }
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < sequences.size(); ++i) {
    expected.push_back(alone(settings, sequences, static_cast<int64_t>(i)));
  }

  for (const int32_t threads : {1, 2, 3}) {
    const auto backend = make(candidate(), threads);
    PagedWorld world(*backend, settings, sequences, random_);
    std::vector<int64_t> done(sequences.size(), 0);
    for (;;) {
      std::vector<Part> parts;
      for (const int32_t index : random_.permutation(static_cast<int64_t>(sequences.size()))) {
        const int64_t left = sequences[index].length - done[index];
        const int64_t count = std::min(left, random_.pick<int64_t>({0, 1, 1, 5, 17}));
        // A sequence of which the cache has something may be there without tokens of its own.
        if (count > 0 || done[index] > 0)
          parts.push_back({index, done[index], done[index] + count});
      }
      const bool finished = std::equal(
          done.begin(), done.end(), sequences.begin(),
          [](int64_t tokens, const SequenceData& sequence) { return tokens == sequence.length; });
      if (finished) break;
      if (std::ranges::all_of(parts, [](const Part& part) { return part.begin == part.end; }))
        continue;

      const auto out = world.step(parts);
      int64_t row = 0;
      for (const Part& part : parts) {
        const int64_t size = settings.query_size();
        const int64_t count = part.end - part.begin;
        ASSERT_EQ(
            bit_difference(
                std::span(out).subspan(row * size, count * size),
                std::span(expected[part.sequence]).subspan(part.begin * size, count * size), size),
            std::nullopt)
            << "sequence " << part.sequence << " tokens " << part.begin << " to " << part.end
            << " on " << threads << " threads";
        row += count;
        done[part.sequence] = part.end;
      }
    }
  }
}

// A request that went wrong must not take its neighbours along.
TEST_P(AttentionInvarianceTest, NanOfASequenceStaysInIt) {
  const AttentionSettings settings = random_settings();
  SCOPED_TRACE(describe(settings));
  std::vector<SequenceData> sequences;
  std::vector<Part> parts;
  for (int64_t i = 0; i < 3; ++i) {
    sequences.push_back(random_sequence(settings, 40, random_));
    parts.push_back({.sequence = i, .begin = 0, .end = 40});
  }
  const auto backend = make(candidate(), 2);
  const int64_t size = 40 * settings.query_size();  // of one sequence
  const auto healthy = PagedWorld(*backend, settings, sequences, random_).step(parts);
  for (std::vector<float>* part : {&sequences[1].q, &sequences[1].k, &sequences[1].v}) {
    std::fill(part->begin(), part->end(), std::numeric_limits<float>::quiet_NaN());
    const auto out = PagedWorld(*backend, settings, sequences, random_).step(parts);
    const auto sick = std::span(out).subspan(size, size);
    EXPECT_TRUE(std::all_of(sick.begin(), sick.end(), [](float y) { return std::isnan(y); }));
    EXPECT_EQ(bit_difference(std::span(out).first(size), std::span(healthy).first(size), size),
              std::nullopt);
    EXPECT_EQ(bit_difference(std::span(out).last(size), std::span(healthy).last(size), size),
              std::nullopt);
  }
}

// Long enough that a backend may split the keys of one token over its threads.
TEST_P(AttentionInvarianceTest, LongDecodesOnAnyNumberOfThreads) {
  AttentionSettings settings = random_settings();
  settings.window = settings.window * 20;
  SCOPED_TRACE(describe(settings));
  // The reference splits nothing: long enough for the neighbour.
  const int64_t length = candidate().is_reference() ? 1050 : random_.between(2000, 3000);
  const std::vector<SequenceData> sequences = {random_sequence(settings, length, random_),
                                               random_sequence(settings, length - 999, random_)};
  const Part last{0, length - 1, length};
  const Part neighbour{1, length - 1040, length - 999};
  std::vector<float> expected;
  for (const int32_t threads : {1, 2, 3}) {
    const auto backend = make(candidate(), threads);
    PagedWorld world(*backend, settings, sequences, random_);
    world.write({{0, 0, length}, {1, 0, length - 999}});
    const auto single = world.attend({last});
    if (threads == 1) expected = single;
    const int64_t size = settings.query_size();
    ASSERT_EQ(bit_difference(single, expected, size), std::nullopt) << threads << " threads";
    const auto batch = world.attend({neighbour, last});
    ASSERT_EQ(bit_difference(std::span(batch).last(size), expected, size), std::nullopt)
        << "beside another, on " << threads << " threads";
    const auto chunk = world.attend({{0, length - 33, length}});
    ASSERT_EQ(bit_difference(std::span(chunk).last(size), expected, size), std::nullopt)
        << "end of a chunk, on " << threads << " threads";
  }
}

// Sequences that begin with the same blocks, as a prefix cache makes them, decode side by side:
// some with much in common, some with less, one with nothing, one in a chunk.
TEST_P(AttentionInvarianceTest, SharedPrefixesChangeNothing) {
  AttentionSettings settings = random_settings();
  settings.window = settings.window * 20;
  SCOPED_TRACE(describe(settings));
  const int64_t common[] = {1600, 1600, 0, 1100, 1600, 530, 1600};
  std::vector<SequenceData> sequences;
  for (const int64_t tokens : common) {
    SequenceData sequence = random_sequence(settings, tokens + random_.between(5, 600), random_);
    const auto begin = [&](std::vector<float>& all, const std::vector<float>& other) {
      std::copy_n(other.begin(), tokens * settings.key_size(), all.begin());
    };
    if (!sequences.empty()) {
      begin(sequence.k, sequences.front().k);
      begin(sequence.v, sequences.front().v);
    }
    sequences.push_back(std::move(sequence));
  }
  const auto last = [&](int64_t index, int64_t count) {
    return Part{index, sequences[index].length - count, sequences[index].length};
  };
  std::vector<Part> parts;
  for (const int32_t i : random_.permutation(std::ssize(sequences))) parts.push_back(last(i, 1));
  parts[3] = last(parts[3].sequence, 5);
  parts[5] = last(parts[5].sequence, 0);
  for (const int32_t threads : {1, 2, 3}) {
    const auto backend = make(candidate(), threads);
    PagedWorld world(*backend, settings, sequences, random_);
    for (int64_t i = 0; i < std::ssize(sequences); ++i) {
      if (i > 0) world.share(0, i, common[i] / settings.block_size);
      world.write({{i, 0, sequences[i].length}});
    }
    const auto together = world.attend(parts);
    int64_t row = 0;
    for (const Part& part : parts) {
      const int64_t size = (part.end - part.begin) * settings.query_size();
      if (size == 0) continue;
      ASSERT_EQ(bit_difference(std::span(together).subspan(row, size), world.attend({part}), size),
                std::nullopt)
          << "sequence " << part.sequence << " on " << threads << " threads";
      row += size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionInvarianceTest,
                         ::testing::Combine(::testing::ValuesIn(candidates()),
                                            ::testing::ValuesIn(kVariants)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace hasten::conformance
