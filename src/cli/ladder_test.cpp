// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the ladder's predictions, against numbers worked out by hand.
#include "cli/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

namespace hasten::cli {
namespace {

using ::testing::HasSubstr;

TEST(Ladder, EachRungAddsOneIdea) {
  const std::vector<Rung> rungs = ladder_rungs(true);
  EXPECT_EQ(rungs.size(), 7);
  EXPECT_EQ(ladder_rungs(false).size(), 6);
  std::set<std::string_view> names;
  for (const Rung& rung : rungs) EXPECT_TRUE(names.insert(rung.name).second);
  const auto ideas = [](const Rung& rung) {
    return static_cast<int>(rung.batching == "continuous") +
           static_cast<int>(!rung.reserve_context) + static_cast<int>(rung.chunked_prefill) +
           static_cast<int>(rung.prefix_cache) + static_cast<int>(rung.quantized_weights) +
           static_cast<int>(rung.quantized_kv);
  };
  for (size_t i = 0; i < rungs.size(); ++i) EXPECT_EQ(ideas(rungs[i]), i);
}

TEST(Ladder, TheLongestOfSeveralIsLongerThanTheMean) {
  // Of two dice-like lengths 1 and 3: the larger is 3 with probability 3/4.
  const std::vector<int64_t> lengths = {1, 3};
  EXPECT_DOUBLE_EQ(expected_longest_over_mean(lengths, 1), 1);
  EXPECT_DOUBLE_EQ(expected_longest_over_mean(lengths, 2), (0.25 * 1 + 0.75 * 3) / 2);
  EXPECT_DOUBLE_EQ(expected_longest_over_mean(std::vector<int64_t>(5, 7), 32), 1);
  EXPECT_DOUBLE_EQ(expected_longest_over_mean({}, 4), 1);
}

workload::Trace two_requests() {
  workload::Trace trace;
  trace.block_tokens = 64;
  trace.requests = {{.prompt_tokens = 200, .output_tokens = 10, .blocks = {1, 2, 3, 4}},
                    {.prompt_tokens = 100, .output_tokens = 30, .blocks = {1, 2}}};
  return trace;
}

TEST(Ladder, KnowsTheShapeOfATrace) {
  const WorkloadShape shape = shape_of(two_requests());
  EXPECT_DOUBLE_EQ(shape.prompt, 150);
  EXPECT_DOUBLE_EQ(shape.output, 20);
  EXPECT_EQ(shape.longest_prompt, 200);
  EXPECT_THAT(shape.outputs, ::testing::ElementsAre(10, 30));
  EXPECT_DOUBLE_EQ(shape.reusable, 99.0 / 2);  // of the second all but its last token
}

class Predictions : public ::testing::Test {
 protected:
  Predictions() {
    setting_.model.weight_types = "bf16";
    setting_.model.bytes_per_token = 1'000'000;
    setting_.model.ops_per_token = 1'000'000;
    setting_.model.output_ops_per_token = 1;
    setting_.model.attention_ops_per_token_key = 1;
    setting_.model.kv_bytes_per_token = 1;
    setting_.model.context = 256;
    setting_.model.num_kv_blocks = 4 * 16;  // four contexts
    setting_.model.max_batch = 32;
    setting_.ceilings = {.read_bytes_per_second = 1e9,
                         .int8_ops_per_second = 1e12,
                         .int4_ops_per_second = 1e12,
                         .bf16_flops_per_second = 1e12,
                         .f32_flops_per_second = 1e12};
    shape_.prompt = 40;
    shape_.output = 32;
    shape_.outputs = {1, 63};
  }

  Prediction of(size_t rung) {
    setting_.rung = ladder_rungs(true)[rung];
    return predict(setting_, shape_);
  }

  RungSetting setting_;
  WorkloadShape shape_;
};

TEST_F(Predictions, CountWhoFitsTheMemory) {
  EXPECT_EQ(of(0).concurrency, 4);
  EXPECT_EQ(of(1).concurrency, 4);
  EXPECT_EQ(of(2).concurrency, 16);  // of 40 + 16 + 8 tokens each
  setting_.model.max_batch = 10;
  EXPECT_EQ(of(2).concurrency, 10);
  shape_.prompt = static_cast<double>(setting_.model.context) - 16;
  EXPECT_EQ(of(2).concurrency, 4) << "no request takes more than a context";
}

TEST_F(Predictions, AreOfWhatBoundsThem) {
  // Steps read the weights for a millisecond; prompts cost 40 us each, which is little.
  // The longest of four is 63 with probability 15/16: 1.85 times the mean, so 2 of 4 in a step.
  const double fixed = of(0).tokens_per_second;
  const double continuous = of(1).tokens_per_second;
  EXPECT_NEAR(continuous / fixed, 2, 0.05);
  EXPECT_NEAR(of(2).tokens_per_second / continuous, 4, 0.4);
  EXPECT_EQ(of(3).tokens_per_second, of(2).tokens_per_second);
  EXPECT_EQ(of(4).tokens_per_second, of(3).tokens_per_second);
  shape_.reusable = 20;
  EXPECT_GT(of(4).tokens_per_second, of(3).tokens_per_second);
  EXPECT_THAT(of(4).reason, HasSubstr("50.0 %"));
  EXPECT_THAT(of(1).reason, HasSubstr("longest of 4 answers is expected to be 1.85 times"));
}

}  // namespace
}  // namespace hasten::cli
