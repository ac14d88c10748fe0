// SPDX-License-Identifier: Apache-2.0
// Tests of the roofline arithmetic against numbers worked out by hand.
#include "cli/roofline.h"

#include <gtest/gtest.h>

#include "base/quantity.h"
#include "cli/words.h"

namespace hasten::cli {
namespace {

ModelInfo model_of(const char* types) {
  ModelInfo model;
  model.weight_types = types;
  model.bytes_per_token = 1000;
  model.ops_per_token = 4000;
  model.output_ops_per_token = 1000;
  model.attention_ops_per_token_key = 10;
  model.kv_bytes_per_token = 5;
  return model;
}

constexpr Ceilings kCeilings{.read_bytes_per_second = 1e6,
                             .int8_ops_per_second = 1e8,
                             .int4_ops_per_second = 2e8,
                             .bf16_flops_per_second = 1e7,
                             .f32_flops_per_second = 1e6};

TEST(Roofline, DecodeAloneIsBoundByMemory) {
  // 1000 + 200 * 5 bytes = 2 ms; 4000 + 200 * 10 operations = 0.06 ms.
  const Limit limit = decode_limit(model_of("q4_0 (84 %), q6_k (16 %)"), kCeilings, 1, 200);
  EXPECT_TRUE(limit.memory_bound);
  EXPECT_NEAR(limit.tokens_per_second, 500, 1e-6);
  EXPECT_NEAR(limit.bytes_per_token, 2000, 1e-9);
  EXPECT_NEAR(limit.ops_per_token, 6000, 1e-9);
}

TEST(Roofline, FloatWeightsUseTheirOwnPeak) {
  EXPECT_NEAR(decode_limit(model_of("bf16"), kCeilings, 1, 0).tokens_per_second, 1000, 1e-6);
  const Limit limit = decode_limit(model_of("f32"), kCeilings, 1, 0);
  EXPECT_FALSE(limit.memory_bound);
  EXPECT_NEAR(limit.tokens_per_second, 250, 1e-6);
}

TEST(Roofline, CodesOfEightBitsHaveTheirOwnPeak) {
  // 4000 operations each, so many users that memory does not count: 1e8 / 4000 and 2e8 / 4000.
  for (const char* type : {"q8_0", "iq4_nl (90 %), q6_k (10 %)", "iq4_xs"}) {
    EXPECT_NEAR(decode_limit(model_of(type), kCeilings, 1000, 0).tokens_per_second, 25'000, 1e-6);
  }
  for (const char* type : {"q4_0", "q6_k", "q2_k (60 %), q8_0 (40 %)"}) {
    EXPECT_NEAR(decode_limit(model_of(type), kCeilings, 1000, 0).tokens_per_second, 50'000, 1e-6);
  }
}

TEST(Roofline, PrefillUsesTheLastLayerOnce) {
  ModelInfo model = model_of("bf16");
  model.num_layers = 5;
  model.last_layer_ops_per_token = 500;
  // As below, but 100 * 2500 + 1500, and 5050 * 8 + 100 * 2 operations of attention: 292100.
  EXPECT_NEAR(prefill_limit(model, kCeilings, 100).tokens_per_second, 100 / 0.02921, 1e-6);
}

TEST(Roofline, PrefillUsesTheOutputMatrixOnce) {
  // 100 * 3000 + 1000 + 5050 * 10 operations = 351500; over 1e7: 35.15 ms.
  const Limit limit = prefill_limit(model_of("bf16"), kCeilings, 100);
  EXPECT_FALSE(limit.memory_bound);
  EXPECT_NEAR(limit.tokens_per_second, 100 / 0.03515, 1e-6);
}

TEST(Roofline, AWorkloadReadsAndComputesAtTheSameTime) {
  workload::Statistics statistics;
  for (int i = 0; i < 4; ++i) {
    workload::Answer answer = {.prompt_tokens = 150, .cached_tokens = 50};
    statistics.deliver(answer, 1000, 101);
    statistics.finish(answer, 2000);
  }
  const ModelInfo model = model_of("bf16");
  const workload::BestCase best = workload_limit(model, kCeilings, statistics, 4);
  EXPECT_NEAR(best.ttft_ms, 35.15, 1e-6);  // 100 tokens, as above
  // 1000 + 201 * 5 bytes, and for four at a time 250 + 1005 each: 125.5 ms for the later 100.
  EXPECT_NEAR(best.tpot_ms, 2.005, 1e-6);
  EXPECT_NEAR(best.output_tokens_per_second, 101 / 0.1255, 1e-6);
  // A prompt that takes longer than all the reading decides.
  workload::Statistics one;
  workload::Answer answer = {.prompt_tokens = 1000};
  one.deliver(answer, 1000, 1);
  one.finish(answer, 2000);
  const double prefill = prefill_limit(model, kCeilings, 1000).tokens_per_second;
  EXPECT_NEAR(workload_limit(model, kCeilings, one, 1).output_tokens_per_second, prefill / 1000,
              1e-6);
  EXPECT_EQ(workload_limit(model, kCeilings, workload::Statistics(), 1).output_tokens_per_second,
            0);
}

TEST(Words, ScaleNumbers) {
  EXPECT_EQ(count_text(1235814400), "1.24 B");
  EXPECT_EQ(count_text(494032768), "494 M");
}

}  // namespace
}  // namespace hasten::cli
