// SPDX-License-Identifier: Apache-2.0
// How well each length predictor does on the answers of a real service.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/scheduler/predictor.h"
#include "hasten_test/paths.h"
#include "workload/trace.h"

namespace hasten::engine {
namespace {

struct Accuracy {
  double mean_log_error = 0;  // of |ln(predicted / generated)|
  double in_order = 0;        // of pairs of unequal lengths: the longer was predicted to be longer
};

/// Predicts each length of a trace when its request comes, and tells it when 32 more have come:
/// about as many are under way at a time.
Accuracy replay(const PredictorKind& kind, const workload::Trace& trace) {
  constexpr size_t kUnderWay = 32;
  const std::unique_ptr<LengthPredictor> predictor = kind.make();
  std::vector<std::pair<double, double>> lengths;  // predicted, generated
  std::deque<std::pair<std::vector<int32_t>, Sequence>> under_way;
  double error = 0;
  for (const workload::TraceRequest& request : trace.requests) {
    auto& [prompt, sequence] = under_way.emplace_back();
    prompt.assign(static_cast<size_t>(request.prompt_tokens), 1);  // the trace has no texts
    sequence.prompt = prompt;
    sequence.max_generated = 4096;
    const int64_t predicted = predictor->predict(sequence);
    sequence.generated.assign(static_cast<size_t>(request.output_tokens), 1);
    lengths.emplace_back(predicted > 0 ? predicted : sequence.max_generated, request.output_tokens);
    error += std::abs(std::log(lengths.back().first / lengths.back().second));
    if (under_way.size() <= kUnderWay) continue;
    predictor->learn(under_way.front().second);
    under_way.pop_front();
  }
  std::mt19937 random(5);
  double pairs = 0, in_order = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto& [guess, length] = lengths[random() % lengths.size()];
    const auto& [other_guess, other_length] = lengths[random() % lengths.size()];
    if (length == other_length) continue;
    ++pairs;
    const double agreement = (guess - other_guess) * (length - other_length);
    in_order += agreement > 0 ? 1 : agreement < 0 ? 0 : 0.5;
  }
  return {.mean_log_error = error / static_cast<double>(lengths.size()),
          .in_order = in_order / pairs};
}

TEST(LengthPredictors, KnowTheAnswersOfARealService) {
  const std::string path = "data/traces/azure2023/AzureLLMInferenceTrace_conv.csv";
  HASTEN_NEED_SHARED(path);
  const workload::Trace trace = workload::read_trace(testing::shared_dir() / path);
  const auto measure = [&](const PredictorKind& kind) {
    const Accuracy accuracy = replay(kind, trace);
    std::printf("%-8s mean |ln error| %.3f, pairs in order %.3f\n", std::string(kind.name).c_str(),
                accuracy.mean_log_error, accuracy.in_order);
    return accuracy;
  };
  const Accuracy limit = measure(kLimitPredictor);
  const Accuracy history = measure(kHistoryPredictor);
  const Accuracy online = measure(kOnlinePredictor);
  EXPECT_EQ(limit.in_order, 0.5);
  EXPECT_LT(history.mean_log_error, 0.32);
  EXPECT_GT(history.in_order, 0.78);
  EXPECT_LT(online.mean_log_error, 0.29);
  EXPECT_GT(online.in_order, 0.79);
}

}  // namespace
}  // namespace hasten::engine
