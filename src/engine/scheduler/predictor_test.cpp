// SPDX-License-Identifier: Apache-2.0
// What length predictors learn from answers, and that nothing learnt can lead them astray.
#include "engine/scheduler/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "hasten/error.h"

namespace hasten::engine {
namespace {

using ::testing::HasSubstr;

/// A sequence with a prompt of its own.
struct Asked {
  Asked(size_t num_prompt, int32_t first_token, std::string_view tenant) : prompt(num_prompt, 1) {
    prompt.front() = first_token;
    sequence.prompt = prompt;
    sequence.tenant = tenant;
    sequence.max_generated = 4096;
  }
  std::vector<int32_t> prompt;
  Sequence sequence;
};

void learn(LengthPredictor& predictor, size_t num_prompt, size_t length, int times,
           int32_t first_token = 1, std::string_view tenant = "") {
  Asked asked(num_prompt, first_token, tenant);
  asked.sequence.generated.assign(length, 1);
  for (int i = 0; i < times; ++i) predictor.learn(asked.sequence);
}

double predict(const LengthPredictor& predictor, size_t num_prompt, int32_t first_token = 1,
               std::string_view tenant = "") {
  const Asked asked(num_prompt, first_token, tenant);
  return static_cast<double>(predictor.predict(asked.sequence));
}

TEST(LengthPredictors, AreFoundByName) {
  for (const PredictorKind* kind : predictors()) EXPECT_EQ(&find_predictor(kind->name), kind);
  try {
    find_predictor("oracle");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(
        error.what(),
        HasSubstr("--length-predictor \"oracle\" is unknown; known: limit, history, online"));
  }
}

TEST(LengthPredictors, SayNothingBeforeTheyHaveLearnt) {
  for (const PredictorKind* kind : predictors())
    EXPECT_EQ(predict(*kind->make(), 100), 0) << kind->name;
}

TEST(LengthPredictors, TellPromptsOfDifferentLengthsApart) {
  for (const PredictorKind* kind : {&kHistoryPredictor, &kOnlinePredictor}) {
    const auto predictor = kind->make();
    for (int i = 0; i < 300; ++i) {
      learn(*predictor, 100, 20, 1);
      learn(*predictor, 3000, 700, 1);
    }
    EXPECT_NEAR(predict(*predictor, 100), 20, 3) << kind->name;
    EXPECT_NEAR(predict(*predictor, 3000), 700, 100) << kind->name;
  }
}

TEST(LengthPredictors, ForgetWhatWas) {
  for (const PredictorKind* kind : {&kHistoryPredictor, &kOnlinePredictor}) {
    const auto predictor = kind->make();
    learn(*predictor, 100, 20, 200);
    learn(*predictor, 100, 300, 200);
    EXPECT_NEAR(predict(*predictor, 100), 300, 60) << kind->name;
  }
}

TEST(LengthPredictors, GiveTokensWhateverTheyLearnt) {
  for (const PredictorKind* kind : {&kHistoryPredictor, &kOnlinePredictor}) {
    const auto predictor = kind->make();
    learn(*predictor, 1, 0, 2000);
    EXPECT_EQ(predict(*predictor, 1), 1) << kind->name;
    EXPECT_GE(predict(*predictor, 1 << 20), 1) << kind->name;
  }
  EXPECT_EQ(tokens_of_log(-5), 1);
  EXPECT_EQ(tokens_of_log(1e300), 1 << 24);
  EXPECT_EQ(tokens_of_log(std::numeric_limits<double>::infinity()), 1 << 24);
}

TEST(HistoryPredictor, PrefersTheTenantsOwnAnswers) {
  const auto predictor = kHistoryPredictor.make();
  learn(*predictor, 100, 20, 50, 1, "a");
  learn(*predictor, 100, 400, 50, 1, "b");
  EXPECT_EQ(predict(*predictor, 100, 1, "a"), 20);
  EXPECT_EQ(predict(*predictor, 100, 1, "b"), 400);
  // One whom nobody knows gets what others got, the latest foremost; so does an unknown length.
  EXPECT_GT(predict(*predictor, 100, 1, "c"), 200);
  EXPECT_EQ(predict(*predictor, 9000, 1, "a"), 20);
}

TEST(OnlinePredictor, KnowsPromptsByTheirBeginning) {
  const auto predictor = kOnlinePredictor.make();
  for (int i = 0; i < 500; ++i) {
    learn(*predictor, 100, 20, 1, 7);
    learn(*predictor, 100, 400, 1, 8);
  }
  EXPECT_NEAR(predict(*predictor, 100, 7), 20, 4);
  EXPECT_NEAR(predict(*predictor, 100, 8), 400, 80);
}

}  // namespace
}  // namespace hasten::engine
