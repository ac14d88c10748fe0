// SPDX-License-Identifier: Apache-2.0
// Trained models whose logits or texts are known: hasten-tiny and stories260K.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/json.h"
#include "hasten_test/paths.h"
#include "models/model_session_test.h"

namespace hasten::models {
namespace {

using hasten::testing::read_file;
using hasten::testing::shared_dir;

template <class T>
std::vector<T> numbers(const json::Value& array) {
  std::vector<T> result;
  for (const json::Value& value : array.as_array()) result.push_back(value.to_number<T>());
  return result;
}

// golden.json was made in float64 from the same BF16 weights; logits there have six decimals.
void expect_golden(const std::string& model_name, const std::string& file) {
  const auto folder = shared_dir() / "models" / model_name;
  const json::Value golden = json::parse(read_file(folder / "golden.json"), "golden.json");
  const auto checkpoint = weights::open_checkpoint(folder / file);
  ModelSession session(*checkpoint);
  const std::vector<int32_t> stop = {2045, 2047};  // <|endoftext|>, <|im_end|>
  double worst = 0.0;
  for (const json::Value& value : golden.at("logits").as_array()) {
    const json::Object& prompt = value.as_object();
    const auto tokens = numbers<int32_t>(prompt.at("tokens"));
    const auto expected = numbers<double>(prompt.at("last_logits"));
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    session.reset();
    worst = std::max(worst, relative_error(session.feed(tokens, {&last, 1}), expected));
    EXPECT_EQ(session.greedy(tokens, 48, stop), numbers<int32_t>(prompt.at("greedy_tokens")))
        << prompt.at("prompt");
  }
  std::printf("%s/%s: largest relative error of a logit %.1e\n", model_name.c_str(), file.c_str(),
              worst);
  EXPECT_LT(worst, 1e-5);
}

TEST(Golden, HastenTinyFromGguf) {
  HASTEN_NEED_SHARED("models/hasten-tiny");
  expect_golden("hasten-tiny", "hasten-tiny-bf16.gguf");
}

TEST(Golden, HastenTinyFromHuggingFaceFolder) {
  HASTEN_NEED_SHARED("models/hasten-tiny");
  expect_golden("hasten-tiny", "hf");
}

TEST(Golden, HastenTinyDraft) {
  HASTEN_NEED_SHARED("models/hasten-tiny-draft");
  expect_golden("hasten-tiny-draft", "hasten-tiny-draft-bf16.gguf");
}

}  // namespace
}  // namespace hasten::models
