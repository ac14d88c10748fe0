// SPDX-License-Identifier: Apache-2.0
// Tests of what only this backend has: kernels of attention that come in two. What attention
// computes is held to the reference in tests/conformance.
#include "backends/cpu/attention.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kv_cache.h"
#include "backends/cpu/workers.h"
#include "tensor/tensor.h"

namespace hasten::cpu {
namespace {

constexpr int64_t kKvHeads = 2;
constexpr int64_t kContext = 600;  // more than a span, and no whole tile at its end
constexpr int64_t kBlockSize = 16;
constexpr int64_t kNumBlocks = (kContext + kBlockSize - 1) / kBlockSize;

struct Case {
  DType type;
  int64_t head_dim;
  int64_t group;        // query heads per KV head
  int64_t num_queries;  // tokens
};

/// Stands where the other cache's kernel would be taken.
void must_not_attend(const AttendCachedTask& /*task*/) { ADD_FAILURE() << "the other kernel"; }

/// The table with lines asked into `level`; what asks into the other one fails the test.
KernelTable asking_into(CacheLevel level, KernelTable kernels) {
  kernels.asks_into = level;
  const int other = level == CacheLevel::first ? 1 : 0;
  for (PairKernels* pairs : {&kernels.bf16_pairs, &kernels.q8_0_pairs}) {
    if (pairs->attend[other] != nullptr) pairs->attend[other] = must_not_attend;
  }
  return kernels;
}

/// Outputs of the last queries of a sequence of random keys and values.
std::vector<float> attend(const KernelTable& kernels, const Case& about) {
  const int64_t dim = about.head_dim;
  const int64_t num_heads = kKvHeads * about.group;
  CpuKvCache cache({.num_layers = 1,
                    .num_blocks = kNumBlocks,
                    .block_size = kBlockSize,
                    .num_kv_heads = kKvHeads,
                    .head_dim = dim,
                    .types = {about.type, about.type}},
                   kernels);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto fill = [&](float* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) x[i] = normal(random);
  };
  std::vector<float> k(static_cast<size_t>(dim));
  std::vector<float> v(k.size());
  for (int64_t token = 0; token < kContext; ++token) {
    for (int64_t head = 0; head < kKvHeads; ++head) {
      fill(k.data(), dim);
      fill(v.data(), dim);
      cache.store({.layer = 0,
                   .head = head,
                   .slot = token,
                   .count = 1,
                   .k = k.data(),
                   .v = v.data(),
                   .token_stride = dim});
    }
  }
  OwnedTensor q(DType::f32, {about.num_queries, num_heads, dim});
  OwnedTensor out(DType::f32, {about.num_queries, num_heads, dim});
  const int64_t count = about.num_queries * num_heads * dim;
  fill(q.view.f32(), count);
  const std::vector<int32_t> starts = {0, static_cast<int32_t>(about.num_queries)};
  const std::vector<int32_t> contexts = {static_cast<int32_t>(kContext)};
  std::vector<int32_t> table(kNumBlocks);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const std::vector<int32_t> slots(static_cast<size_t>(about.num_queries));
  const ops::PagedBatch batch{.query_start = starts,
                              .context_len = contexts,
                              .block_tables = table,
                              .block_table_stride = kNumBlocks,
                              .slots = slots};
  Workers workers(2);
  Attention attention(kernels, workers);
  attention.reserve({.max_tokens = about.num_queries,
                     .max_sequences = 1,
                     .max_context = kContext,
                     .max_heads = num_heads,
                     .max_head_dim = dim});
  attention.run(
      {.q = q.view, .cache = cache, .layer = 0, .batch = batch, .scale = 0.1F, .out = out.view});
  return {out.view.f32(), out.view.f32() + count};
}

// Lines that are asked for into another cache are no other lines.
TEST(Attention, IsTheSameWhicheverCacheLinesAreAskedInto) {
  bool any = false;
  for (const KernelTable* supported : supported_kernels()) {
    for (const DType type : {DType::bf16, DType::q8_0}) {
      const PairKernels& pairs =
          type == DType::bf16 ? supported->bf16_pairs : supported->q8_0_pairs;
      if (!pairs.exist()) continue;
      any = true;
      EXPECT_NE(pairs.attend[0], pairs.attend[1]) << supported->name;
      for (const int64_t head_dim : {64, 96, 128}) {
        for (const auto& [group, num_queries] : {std::tuple{1, 1}, {4, 1}, {2, 40}}) {
          const Case about{type, head_dim, group, num_queries};
          const std::vector<float> first =
              attend(asking_into(CacheLevel::first, *supported), about);
          const std::vector<float> second =
              attend(asking_into(CacheLevel::second, *supported), about);
          ASSERT_EQ(first.size(), second.size());
          EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0)
              << supported->name << ", " << info(type).name << ", heads of " << head_dim << ", "
              << group << " a group, " << num_queries << " queries";
        }
      }
    }
  }
  if (!any) GTEST_SKIP() << "attention to pairs needs AVX-512, which this processor lacks";
}

}  // namespace
}  // namespace hasten::cpu
