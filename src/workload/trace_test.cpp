// SPDX-License-Identifier: Apache-2.0
// Traces: each format with known answers, and what is wrong with a line said with its number.
#include "workload/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hasten/error.h"
#include "hasten_test/paths.h"

namespace hasten::workload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& text, const TraceLimits& limits = {}) {
  try {
    parse_trace(text, "t", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_data);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Trace, ReadsAzureCsv) {
  const Trace trace = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.9805900,374,44\r\n"
      "2023-11-17 00:00:01.0000005,396,109\r\n",
      "azure");
  ASSERT_EQ(trace.requests.size(), 2);
  EXPECT_TRUE(trace.has_times);
  EXPECT_EQ(trace.requests[0].time_us, 0);
  EXPECT_EQ(trace.requests[1].time_us, 1'019'410);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 374);
  EXPECT_EQ(trace.requests[1].output_tokens, 109);
}

TEST(Trace, ReadsColumnsInAnyOrderAndOffsetsOfTime) {
  const Trace trace = parse_trace(
      "GeneratedTokens,Extra,TIMESTAMP,ContextTokens\n"
      "1,x,2024-05-10 02:00:00.5+02:00,10\n"
      "2,y,2024-05-09T23:30:00-01:00,20\n"
      "3,z,2024-05-10 00:00:00Z,30\n",
      "t");
  ASSERT_EQ(trace.requests.size(), 3);
  // In order of time: 00:00:00, 00:00:00.5 and 00:30:00 of the 10th, universal time.
  EXPECT_EQ(trace.requests[0].prompt_tokens, 30);
  EXPECT_EQ(trace.requests[1].time_us, 500'000);
  EXPECT_EQ(trace.requests[2].time_us, int64_t{1800} * 1'000'000);
  EXPECT_EQ(trace.requests[2].output_tokens, 2);
}

TEST(Trace, ReadsMooncake) {
  const Trace trace = parse_trace(
      R"({"timestamp": 1000, "input_length": 700, "output_length": 5, "hash_ids": [0, 7]})"
      "\n"
      R"({"timestamp": 3500, "input_length": 512, "output_length": 6, "hash_ids": [0]})",
      "mooncake");
  ASSERT_EQ(trace.requests.size(), 2);
  EXPECT_EQ(trace.requests[1].time_us, 2'500'000);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 700);
  EXPECT_THAT(trace.requests[0].blocks, ElementsAre(0, 7));
  EXPECT_EQ(trace.block_tokens, 512);
}

TEST(Trace, ReadsItsOwnLinesAndDatasets) {
  const Trace trace = parse_trace(
      R"({"time_s": 0.25, "prompt_tokens": 3, "output_tokens": 4, "tenant": "a", "priority": -2,)"
      R"( "deadline_ms": 70})"
      "\n\n"
      R"({"time_s": 0, "prompt": "Hello", "output_tokens": 9})"
      "\n",
      "own");
  ASSERT_EQ(trace.requests.size(), 2);
  EXPECT_EQ(trace.requests[0].text, "Hello");
  EXPECT_EQ(trace.requests[0].prompt_tokens, 0);
  EXPECT_EQ(trace.requests[1].time_us, 250'000);
  EXPECT_EQ(trace.requests[1].tenant, "a");
  EXPECT_EQ(trace.requests[1].priority, -2);
  EXPECT_EQ(trace.requests[1].deadline_us, 70'000);
  EXPECT_EQ(trace.requests[0].deadline_us, 0);

  const Trace questions = parse_trace(R"({"question_id": 1, "turns": ["Why?", "How?"]})", "q");
  EXPECT_FALSE(questions.has_times);
  EXPECT_EQ(questions.requests[0].text, "Why?");
  EXPECT_EQ(questions.requests[0].output_tokens, 0);
}

TEST(Trace, ChainsTheCallsOfPrograms) {
  const Trace trace =
      parse_trace(R"({"time_s": 5, "prompt_tokens": 1, "program_id": "late"})"
                  "\n"
                  R"({"time_s": 1, "prompt_tokens": 2, "program_id": "x", "program_calls_left": 2})"
                  "\n"
                  R"({"pause_ms": 250, "prompt_tokens": 3, "program_id": "x"})"
                  "\n"
                  R"({"time_s": 2, "prompt_tokens": 4, "program_id": "x", "tenant": "another"})"
                  "\n"
                  R"({"pause_ms": 0, "prompt_tokens": 5, "program_id": "x"})"
                  "\n"
                  R"({"time_s": 3, "prompt_tokens": 6})",
                  "programs");
  const auto& requests = trace.requests;
  ASSERT_EQ(requests.size(), 6);
  const auto all = [&](auto member) {
    std::vector<int64_t> values;
    for (const TraceRequest& request : requests)
      values.push_back(static_cast<int64_t>(request.*member));
    return values;
  };
  EXPECT_THAT(all(&TraceRequest::prompt_tokens), ElementsAre(2, 3, 5, 4, 6, 1));
  EXPECT_THAT(all(&TraceRequest::follows), ElementsAre(-1, 0, 1, -1, -1, -1));
  EXPECT_THAT(all(&TraceRequest::pause_us), ElementsAre(0, 250'000, 0, 0, 0, 0));
  EXPECT_THAT(all(&TraceRequest::ends_program), ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THAT(all(&TraceRequest::program_calls_left), ElementsAre(2, -1, -1, -1, -1, -1));
  EXPECT_EQ(requests[1].program_id, "x");

  const Trace without = parse_trace(R"({"prompt_tokens": 1})", "t");
  EXPECT_FALSE(without.requests[0].ends_program);
}

TEST(Trace, EndsAProgramOnceThoughItsCallsHaveTimesOfTheirOwn) {
  const Trace trace =
      parse_trace(R"({"time_s": 3, "prompt_tokens": 1, "program_id": "x"})"
                  "\n"
                  R"({"time_s": 1, "prompt_tokens": 2, "program_id": "x"})"
                  "\n"
                  R"({"time_s": 2, "prompt_tokens": 3, "program_id": "x"})"
                  "\n"
                  R"({"time_s": 2, "prompt_tokens": 4, "program_id": "x", "tenant": "another"})",
                  "programs");
  std::vector<int64_t> ends;
  for (const TraceRequest& request : trace.requests)
    if (request.ends_program) ends.push_back(request.prompt_tokens);
  EXPECT_THAT(ends, ElementsAre(4, 1));
}

TEST(Trace, SaysWhatIsWrongInWhichLine) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(error_of("a,b\n1,2\n"), HasSubstr("must have the column TIMESTAMP"));
  EXPECT_THAT(error_of(""), HasSubstr("column TIMESTAMP"));
  EXPECT_THAT(error_of(header), HasSubstr("t has no requests"));
  EXPECT_THAT(error_of(header + "2023-11-16 18:15:46,1\n"), HasSubstr("t line 2: 2 cells"));
  for (const char* time : {"2023-13-16 18:15:46", "2023-11-31 18:15:46", "2023-11-16 25:15:46",
                           "2023-11-16", "2023-11-16 18:15:46.", "2023-11-16 18:15:46x", "\x1b[2J",
                           "2023-11-16 18:15:46+99:00", "-023-11-16 18:15:46", ""})
    EXPECT_THAT(error_of(header + time + ",1,1\n"), HasSubstr("t line 2: TIMESTAMP")) << time;
  EXPECT_THAT(error_of(header + "2023-11-16 18:15:46,0,1\n"),
              HasSubstr("ContextTokens must be a whole number from 1 to"));
  EXPECT_THAT(error_of(header + "2023-11-16 18:15:46,1,99999999999999999999\n"),
              HasSubstr("GeneratedTokens must be"));

  EXPECT_THAT(error_of("{\"prompt_tokens\": 1}\n{\"prompt_tokens\": 1.5}"),
              HasSubstr("t line 2: prompt_tokens must be"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1}\n[1]"), HasSubstr("t line 2: not a JSON object"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1}\n{"), HasSubstr("t line 2"));
  EXPECT_THAT(error_of("{}"), HasSubstr("neither prompt_tokens nor a prompt"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1, \"time_s\": -1}"), HasSubstr("time_s must be"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1, \"time_s\": 1e300}"), HasSubstr("time_s must be"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1}\n{\"prompt_tokens\": 1, \"time_s\": 1}"),
              HasSubstr("some lines have a time and some have none"));
  EXPECT_THAT(error_of(R"({"timestamp": 1, "input_length": 512, "output_length": 1,
                           "hash_ids": [1, 2]})"
                       "\n"),
              HasSubstr("t line 1"));
  EXPECT_THAT(error_of(R"({"timestamp": 1, "input_length": 512, "output_length": 1, )"
                       R"("hash_ids": [1, 2]})"),
              HasSubstr("2 blocks of 512 tokens, but the prompt has only 512 tokens"));
  EXPECT_THAT(error_of(R"({"input_length": 512, "output_length": 1})"),
              HasSubstr("timestamp is missing"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "pause_ms": 1})"), HasSubstr("needs a program_id"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "pause_ms": 1, "program_id": "x"})"),
              HasSubstr("no line before it has the program_id \"x\""));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "pause_ms": 1, "time_s": 1, "program_id": "x"})"),
              HasSubstr("not both"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "program_calls_left": -1})"),
              HasSubstr("from 0 to 1000000"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "program_id": ")" + std::string(257, 'x') + "\"}"),
              HasSubstr("257 bytes"));
  EXPECT_THAT(error_of(R"({"prompt": 7})"), HasSubstr("prompt must be a string"));
  EXPECT_THAT(error_of(R"({"turns": []})"), HasSubstr("turns must be"));
}

TEST(Trace, RefusesFieldsThatAreNone) {
  EXPECT_THAT(
      error_of("{\"prompt_tokens\": 1}\n{\"prompt_tokens\": 1, \"ouput_tokens\": 5}"),
      HasSubstr("t line 2: there is no field \"ouput_tokens\"; the nearest is output_tokens"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": 1, "colour": 5})"),
              HasSubstr("no field \"colour\"; there are time_s, prompt_tokens"));
  // Files of tasks have more.
  const Trace tasks = parse_trace(
      "\n"
      R"({"prompt": "Why?", "prompt_id": 7, "answer": "So."})"
      "\n"
      R"({"turns": ["Why?"], "question_id": 81, "category": "roleplay", "ouput_tokens": 5})"
      "\n"
      R"({"turns": ["Why?"], "ouput_tokens": 6})",
      "t");
  ASSERT_EQ(tasks.requests.size(), 3U);
  EXPECT_EQ(tasks.requests[0].line, 2);
  EXPECT_EQ(tasks.requests[1].line, 3);
  EXPECT_THAT(tasks.doubts, ElementsAre("t line 3: the field \"ouput_tokens\" is ignored; the "
                                        "nearest known is output_tokens"));
}

TEST(Trace, IsBounded) {
  const std::string line = "{\"prompt_tokens\": 1}\n";
  EXPECT_THAT(error_of(line + line + line, {.requests = 2}), HasSubstr("more than 2 requests"));
  EXPECT_THAT(error_of(line, {.line_bytes = 10}), HasSubstr("the limit is 10"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 11}", {.tokens = 10}), HasSubstr("from 1 to 10"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": 1024, \"blocks\": [1, 2]}", {.total_blocks = 1}),
              HasSubstr("more than 1 blocks"));
  EXPECT_THAT(error_of("{\"prompt_tokens\": " + std::string(50, '[')), HasSubstr("nests deeper"));
}

TEST(Trace, ScalesLengthsAndKeepsWhatIsShared) {
  Trace trace = parse_trace(
      R"({"timestamp": 0, "input_length": 1100, "output_length": 10, "hash_ids": [0, 1, 2]})", "t");
  scale_lengths(trace, 1.0 / 32);
  EXPECT_EQ(trace.block_tokens, 16);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 34);
  EXPECT_EQ(trace.requests[0].output_tokens, 1);
  EXPECT_THAT(trace.requests[0].blocks, ElementsAre(0, 1, 2));
  scale_lengths(trace, 1.0 / 32);
  EXPECT_EQ(trace.block_tokens, 1);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 1);
  EXPECT_THAT(trace.requests[0].blocks, ElementsAre(0));
  EXPECT_THROW(scale_lengths(trace, 1024, {.tokens = 1023}), Error);
  scale_lengths(trace, 1, {.tokens = 1});
  keep_first(trace, 5);
  EXPECT_EQ(trace.requests.size(), 1);
  keep_first(trace, 0);
  EXPECT_TRUE(trace.requests.empty());
}

TEST(Trace, ReadsTheRealAzureTrace) {
  HASTEN_NEED_SHARED("data/traces/azure2023/AzureLLMInferenceTrace_conv.csv");
  const Trace trace =
      read_trace(testing::shared_dir() / "data/traces/azure2023/AzureLLMInferenceTrace_conv.csv");
  ASSERT_EQ(trace.requests.size(), 19366);
  EXPECT_EQ(trace.requests.back().time_us, int64_t{3501'721'937});  // 18:15:46.68 to 19:14:08.40
  int64_t prompt = 0, output = 0;
  for (const TraceRequest& request : trace.requests) {
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  EXPECT_NEAR(static_cast<double>(prompt) / 19366, 1154.697, 1e-3);
  EXPECT_NEAR(static_cast<double>(output) / 19366, 211.126, 1e-3);
}

TEST(Trace, ReadsTheRealMooncakeTrace) {
  HASTEN_NEED_SHARED("data/traces/mooncake/conversation_trace.jsonl");
  const Trace trace =
      read_trace(testing::shared_dir() / "data/traces/mooncake/conversation_trace.jsonl");
  ASSERT_EQ(trace.requests.size(), 12031);
  EXPECT_EQ(trace.requests.back().time_us, int64_t{3536'999'000});
  EXPECT_EQ(trace.requests[0].blocks.size(), 14);
}

}  // namespace
}  // namespace hasten::workload
