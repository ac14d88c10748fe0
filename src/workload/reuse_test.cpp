// SPDX-License-Identifier: Apache-2.0
// What a cache without bounds would have of a trace, worked out by hand.
#include "workload/reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hasten::workload {
namespace {

using ::testing::ElementsAre;

Trace trace_of(std::vector<TraceRequest> requests) {
  Trace trace;
  trace.block_tokens = 64;
  trace.requests = std::move(requests);
  return trace;
}

TEST(Reuse, IsTheLongestBeginningThatCameBefore) {
  const Trace trace = trace_of({{.prompt_tokens = 150, .blocks = {1, 2, 3}},
                                {.prompt_tokens = 192, .blocks = {1, 2, 3}},
                                {.prompt_tokens = 192, .blocks = {1, 2, 3}},
                                {.prompt_tokens = 192, .blocks = {1, 5, 3}},
                                {.prompt_tokens = 192, .blocks = {2, 1, 3}}});
  // The first has 22 tokens of its third block; the last token of a prompt is always computed.
  EXPECT_THAT(reusable_tokens(trace), ElementsAre(0, 150, 191, 64, 0));
  EXPECT_DOUBLE_EQ(reusable_fraction(trace), (150 + 191 + 64) / (150.0 + 4 * 192));
}

TEST(Reuse, IsOfRequestsThatWereAnswered) {
  const Trace trace = trace_of({{.prompt_tokens = 128, .blocks = {1, 2}},
                                {.prompt_tokens = 192, .blocks = {1, 2, 3}},
                                {.prompt_tokens = 192, .blocks = {1, 2, 3}}});
  const std::vector<bool> answered = {true, false, true};
  EXPECT_THAT(reusable_tokens(trace, answered), ElementsAre(0, 0, 128));
  EXPECT_DOUBLE_EQ(reusable_fraction(trace, answered), 128 / (128.0 + 192));
}

TEST(Reuse, BehindABlockThatWasCutShortNothingIsEqual) {
  const Trace trace = trace_of({{.prompt_tokens = 100, .blocks = {1, 2}},
                                {.prompt_tokens = 128, .blocks = {1, 2}},
                                {.prompt_tokens = 200, .blocks = {1, 2, 4, 5}}});
  EXPECT_THAT(reusable_tokens(trace), ElementsAre(0, 100, 128));
}

TEST(Reuse, IsNotOfOtherTenantsNorOfWhatTheTraceDoesNotName) {
  const Trace trace = trace_of({{.prompt_tokens = 128, .blocks = {1, 2}, .tenant = "a"},
                                {.prompt_tokens = 128, .blocks = {1, 2}, .tenant = "b"},
                                {.prompt_tokens = 128, .blocks = {1}, .tenant = "a"},
                                {.prompt_tokens = 128}});
  EXPECT_THAT(reusable_tokens(trace), ElementsAre(0, 0, 64, 0));
}

}  // namespace
}  // namespace hasten::workload
