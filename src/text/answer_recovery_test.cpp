// SPDX-License-Identifier: Apache-2.0
// Tests of the answer parser where a call breaks, ends early or says something twice: nothing that
// the model said is lost, and nothing becomes a call that is none.
#include <gtest/gtest.h>

#include <string>

#include "text/answer_parser_test.h"
#include "text/tool_calls.h"

namespace hasten::text {
namespace {

TEST(AnswerRecovery, ACallBehindABrokenOneIsRead) {
  const std::string g = R"({"name": "g", "arguments": {}})";
  expect_parsed(kHermes, R"(<tool_call>{"name": "f"<tool_call>)" + g + "</tool_call>",
                R"(<tool_call>{"name": "f"{0 g}[0 {}])");
  expect_parsed(kHermes, "<tool_call><tool_call>" + g, "<tool_call>{0 g}[0 {}]");
  expect_parsed(kHermes, R"(<tool_call>{"name": "f", "arguments": {"a": 1<tool_call>)" + g,
                R"({0 f}[0 {"a": 1]{1 g}[1 {}])");
  expect_parsed(kMistral, "[TOOL_CALLS]f[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]f{0 g}[0 {}]");
  expect_parsed(calls(ToolCallFormat::function), "<function=f<function=g>{}</function>",
                "<function=f{0 g}[0 {}]");
  const std::string section = "<|tool_calls_section_begin|><|tool_call_begin|>f";
  expect_parsed(calls(ToolCallFormat::kimi),
                section + "<|tool_call_begin|>g<|tool_call_argument_begin|>{}",
                section + "{0 g}[0 {}]");
  expect_parsed(calls(ToolCallFormat::apertus),
                R"(<|tools_prefix|>[{"f"<|tools_prefix|>[{"g": {}}]<|tools_suffix|>)",
                R"(<|tools_prefix|>[{"f"{0 g}[0 {}])");
  const AnswerFormat glm = calls(ToolCallFormat::glm);
  expect_parsed(glm, "<tool_call>f<tool_call>g</tool_call>", "<tool_call>f{0 g}[0 {}]");
  expect_parsed(glm, "<tool_call>f<arg_key>b<tool_call>g</tool_call>",
                "<tool_call>f<arg_key>b{0 g}[0 {}]");
  const AnswerFormat gemma = calls(ToolCallFormat::gemma);
  expect_parsed(gemma, "<|tool_call>call:f{a:1<|tool_call>call:g{}<tool_call|>",
                "<|tool_call>call:f{a:1{0 g}[0 {}]");
  // Within a string it is text.
  expect_parsed(gemma, "<|tool_call>call:f{a:<|\"|><|tool_call><|\"|>}<tool_call|>",
                "{0 f}[0 {\"a\":\"<|tool_call>\"}]");
}

// What ends a call goes once; the same again is what the model says.
TEST(AnswerRecovery, MarksBehindACallGoOnce) {
  const std::string f = R"({"name": "f", "arguments": {}})";
  expect_parsed(kHermes, "<tool_call>" + f + "</tool_call></tool_call>", "{0 f}[0 {}]</tool_call>");
  expect_parsed(kMistral, "[TOOL_CALLS]f[ARGS]{}] is", "{0 f}[0 {}]] is");
  expect_parsed(kMistral, "[TOOL_CALLS][" + f + "]] is", "{0 f}[0 {}]] is");
  expect_parsed(calls(ToolCallFormat::command_r), "Action: ```json[" + f + "]``` ```c```",
                "{0 f}[0 {}]```c```");
}

// GigaChat's mark of a call begins with what may end the one before it.
TEST(AnswerRecovery, WhatMayOpenTheNextCallEndsNone) {
  const std::string open = "<|message_sep|>\n\nfunction call<|role_sep|>";
  const std::string f = R"({"name": "f", "arguments": {}})",
                    g = R"({"name": "g", "arguments": {}})";
  const AnswerFormat gigachat = calls(ToolCallFormat::gigachat);
  expect_parsed(gigachat, open + f + open + g, "{0 f}[0 {}]{1 g}[1 {}]");
  expect_parsed(gigachat, open + f + "<|message_sep|>\n\nfunc", "{0 f}[0 {}]func");
  expect_parsed(gigachat, open + f + "<|message_sep|>", "{0 f}[0 {}]");
}

TEST(AnswerRecovery, SeparatorsWithoutACallAreText) {
  const std::string f = R"({"name": "f", "parameters": {}})";
  for (const char* text : {"; bye", ", bye", ";", "; {\"a\": 1}"}) {
    expect_parsed(kLlama, f + text, std::string("{0 f}[0 {}]") + text);
  }
  expect_parsed(kLlama, f + ", " + f, "{0 f}[0 {}]{1 f}[1 {}]");
}

TEST(AnswerRecovery, BehindTheEndOfAListOnlyItsMarkOpensACall) {
  const std::string f = "<invoke name=\"f\"></invoke>";
  const AnswerFormat minimax = calls(ToolCallFormat::minimax);
  const std::string list = "<minimax:tool_call>" + f + "</minimax:tool_call>";
  expect_parsed(minimax, list + f, "{0 f}[0 {}]" + f);
  expect_parsed(minimax, list + list, "{0 f}[0 {}]{1 f}[1 {}]");
  const std::string call = "<|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>";
  expect_parsed(calls(ToolCallFormat::kimi),
                "<|tool_calls_section_begin|>" + call + call + "<|tool_calls_section_end|>" + call,
                "{0 f}[0 {}]{1 f}[1 {}]" + call);
}

// Another list begins as the first did, whatever ended that.
TEST(AnswerRecovery, AnotherListIsLikeTheFirst) {
  const std::string call = "<|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>";
  const std::string section =
      "<|tool_calls_section_begin|>" + call + call + "<|tool_calls_section_end|>";
  expect_parsed(calls(ToolCallFormat::kimi), section + "x" + section,
                "{0 f}[0 {}]{1 f}[1 {}]x{2 f}[2 {}]{3 f}[3 {}]");
  expect_parsed(calls(ToolCallFormat::pythonic),
                "<|python_start|>f()<|python_end|>x<|python_start|>f()[g()]",
                "{0 f}[0 {}]x{1 f}[1 {}]{2 g}[2 {}]");
}

TEST(AnswerRecovery, TextInAHeadThatIsCutOffIsContent) {
  const AnswerFormat format = calls(ToolCallFormat::harmony);
  const std::string last = "<|start|>assistant<|channel|>final<|message|>Hi";
  expect_parsed(format, "<|channel|>analysis I think so." + last, "I think so.Hi");
  expect_parsed(format, "<|start|>assistant to=functions.f<|channel|>commentary json" + last,
                "jsonHi");
  expect_parsed(format, "<|channel|>analysis" + last, "Hi");
  expect_parsed(format, "<|channel|>analysis I think so.", "I think so.");
}

TEST(AnswerRecovery, WordsBeforeTheNameInTagsAreContent) {
  const AnswerFormat qwen = calls(ToolCallFormat::qwen_tags);
  const std::string f = "<function=f>\n</function>\n</tool_call>";
  expect_parsed(qwen, "Well. <tool_call>\nI will look it up. " + f,
                "Well. I will look it up. {0 f}[0 {}]");
  expect_parsed(qwen, "<tool_call>\n" + f + "\n<tool_call>Once more:\n" + f,
                "{0 f}[0 {}]Once more:\n{1 f}[1 {}]");
  expect_parsed(qwen, "<tool_call>\n<tool_call>\n" + f, "<tool_call>\n{0 f}[0 {}]");
  // Where no call comes of it, everything is.
  for (const char* text :
       {"<tool_call>I will look it up. <function=f>", "<tool_call>I will look it up. </tool_call>"})
    expect_parsed(qwen, text, text);
  const std::string g = "<invoke name=\"g\"></invoke></minimax:tool_call>";
  expect_parsed(calls(ToolCallFormat::minimax), "<minimax:tool_call>\nI invoke g: " + g,
                "I invoke g: {0 g}[0 {}]");
  expect_parsed(calls(ToolCallFormat::minimax),
                "<minimax:tool_call><invoke that name=\"g\"></invoke>", "<invoke that {0 g}[0 {}]");
  const AnswerFormat dsml = calls(ToolCallFormat::dsml);
  const std::string h = "<｜DSML｜invoke name=\"h\">\n</｜DSML｜invoke>";
  for (const std::string list : {"<｜DSML｜tool_calls>", "<｜DSML｜function_calls>", "<｜DSML｜"})
    expect_parsed(dsml, list + "\nLet me invoke tool_calls> " + h,
                  "Let me invoke tool_calls> {0 h}[0 {}]");
  expect_parsed(dsml, h + "\n" + h, "{0 h}[0 {}]{1 h}[1 {}]");
  expect_parsed_hidden(dsml,
                       "<⟦｜DSML｜⟧tool_calls>\nSo⟦｜DSML｜⟧: <⟦｜DSML｜⟧invoke name=\"h\">\n"
                       "</⟦｜DSML｜⟧invoke>",
                       "So: {0 h}[0 {}]");
}

TEST(AnswerRecovery, OfEqualKeysTheLastCounts) {
  expect_parsed(calls(ToolCallFormat::glm),
                "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b</arg_key>"
                "<arg_value>2</arg_value><arg_key>a</arg_key><arg_value>3</arg_value></tool_call>",
                "{0 f}[0 {\"a\": 3, \"b\": 2}]");
  // What the model writes as an object goes out as it stands.
  expect_parsed(calls(ToolCallFormat::gemma), "<|tool_call>call:f{a:1,a:2}",
                "{0 f}[0 {\"a\":1,\"a\":2}]");
}

TEST(AnswerRecovery, NamesOfNoFunctionAreNoCalls) {
  for (const char* name : {"two words", "quo\\\"te", "h\u00e9", ""}) {
    std::string text = "<tool_call>{\"name\": \"";
    text.append(name).append("\", \"arguments\": {}}");
    expect_parsed(kHermes, text, text);
  }
  expect_parsed(kHermes, R"(<tool_call>{"name": "a.b/c:$d-e", "arguments": {}})",
                "{0 a.b/c:$d-e}[0 {}]");
}

}  // namespace
}  // namespace hasten::text
