// SPDX-License-Identifier: Apache-2.0
// Every field of a request at and beyond its limits.
#include "engine/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hasten/error.h"

namespace hasten::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Request good() {
  Request request;
  request.prompt = {1, 2, 3};
  return request;
}

struct Case {
  std::string param;
  std::function<void(Request&)> change;
  std::string message;  // a part of it
};

TEST(Validate, RefusesEachFieldBeyondItsLimits) {
  const std::vector<Case> cases = {
      {"prompt", [](Request& r) { r.prompt.clear(); }, "empty"},
      {"prompt",
       [](Request& r) {
         r.prompt = {1, 100};
       },
       "token 100"},
      {"prompt", [](Request& r) { r.prompt = {-1}; }, "token -1"},
      {"prompt", [](Request& r) { r.prompt.assign(50, 1); }, "50 tokens; the context is 50"},
      {"temperature", [](Request& r) { r.sampling.temperature = -0.1F; }, "-0.1"},
      {"temperature", [](Request& r) { r.sampling.temperature = 100.5F; }, "100.5"},
      {"temperature", [](Request& r) { r.sampling.temperature = kNan; }, "nan"},
      {"cache_salt", [](Request& r) { r.cache_salt.assign(257, 's'); }, "257 bytes; at most 256"},
      {"cache_group", [](Request& r) { r.cache_group.assign(257, 'g'); }, "257 bytes; at most 256"},
      {"deadline_ms", [](Request& r) { r.deadline_us = -1; }, "-0.001"},
      {"program_id", [](Request& r) { r.program_id.assign(257, 'p'); }, "257 bytes; at most 256"},
      {"program_calls_left", [](Request& r) { r.program_calls_left = -2; }, "from -1 to 1000000"},
      {"program_calls_left", [](Request& r) { r.program_calls_left = 1'000'001; }, "from -1"},
      {"deadline_ms", [](Request& r) { r.deadline_us = kMaxDeadlineUs + 1; }, "to 604800000"},
      {"top_k", [](Request& r) { r.sampling.top_k = -1; }, "-1"},
      {"top_p", [](Request& r) { r.sampling.top_p = 0.0F; }, "above 0"},
      {"top_p", [](Request& r) { r.sampling.top_p = 1.01F; }, "1.01"},
      {"top_p", [](Request& r) { r.sampling.top_p = kNan; }, "nan"},
      {"min_p", [](Request& r) { r.sampling.min_p = -0.5F; }, "-0.5"},
      {"min_p", [](Request& r) { r.sampling.min_p = 2.0F; }, "2"},
      {"typical_p", [](Request& r) { r.sampling.typical_p = 0.0F; }, "typical_p is 0"},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = 0.0F; }, "above 0"},
      {"repetition_penalty", [](Request& r) { r.sampling.repetition_penalty = 11.0F; }, "11"},
      {"presence_penalty", [](Request& r) { r.sampling.presence_penalty = 2.1F; }, "2.1"},
      {"frequency_penalty", [](Request& r) { r.sampling.frequency_penalty = -2.1F; }, "-2 to 2"},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{100, 1.0F}};
       },
       "0 to 99"},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias = {{5, kInf}};
       },
       "token 5 is inf"},
      {"logit_bias",
       [](Request& r) {
         r.sampling.logit_bias.assign(101, {5, 1.0F});
       },
       "101"},
      {"max_tokens", [](Request& r) { r.max_tokens = -1; }, "-1"},
      {"min_tokens", [](Request& r) { r.min_tokens = -1; }, "-1"},
      {"min_tokens", [](Request& r) { r.min_tokens = 9, r.max_tokens = 8; },
       "max_tokens, which is 8"},
      {"stop", [](Request& r) { r.stop.assign(17, "x"); }, "17 entries; at most 16"},
      {"stop",
       [](Request& r) {
         r.stop = {"x", ""};
       },
       "empty"},
      {"stop", [](Request& r) { r.stop = {std::string(257, 'x')}; }, "257 bytes"},
      {"stop", [](Request& r) { r.stop = {"\xC3"}; }, "UTF-8"},
      {"stop_tokens", [](Request& r) { r.stop_tokens = {100}; }, "token 100"},
      {"stop_tokens", [](Request& r) { r.stop_tokens.assign(257, 1); }, "257"},
      {"n", [](Request& r) { r.n = 0; }, "1 to 128"},
      {"n", [](Request& r) { r.n = 129; }, "129"},
      {"logprobs", [](Request& r) { r.logprobs = -2; }, "-2"},
      {"logprobs", [](Request& r) { r.logprobs = 21; }, "-1 to 20"},
      {"prompt_logprobs", [](Request& r) { r.prompt_logprobs = 21; }, "21"},
  };
  for (const Case& test : cases) {
    Request request = good();
    test.change(request);
    try {
      validate(request, 100, 50);
      ADD_FAILURE() << test.param << " was accepted: " << test.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.param(), test.param) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(test.message));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(test.param));
    }
  }
}

TEST(Validate, AcceptsEachFieldAtItsLimits) {
  Request request = good();
  request.prompt.assign(49, 99);
  request.sampling.temperature = 0.0F;
  request.sampling.min_p = 1.0F;
  request.sampling.repetition_penalty = 10.0F;
  request.sampling.presence_penalty = -2.0F;
  request.sampling.frequency_penalty = 2.0F;
  request.sampling.logit_bias = {{0, -100.0F}, {99, 1e30F}};
  request.sampling.top_k = std::numeric_limits<int32_t>::max();
  request.max_tokens = std::numeric_limits<int64_t>::max();
  request.min_tokens = request.max_tokens;
  request.stop.assign(16, std::string(256, 'x'));
  request.stop[0] = "\xC3\xA9";
  request.stop_tokens.assign(256, 99);
  request.n = 128;
  request.logprobs = request.prompt_logprobs = 20;
  EXPECT_NO_THROW(validate(request, 100, 50));
  request.sampling.temperature = 100.0F;
  EXPECT_NO_THROW(validate(request, 100, 50));
}

}  // namespace
}  // namespace hasten::engine
