// SPDX-License-Identifier: Apache-2.0
// Tests of the answer parser: forms of calls, every way to cut the text, broken calls.
#include "text/tool_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/answer_parser_test.h"
#include "text/tool_call_syntax.h"

namespace hasten::text {
namespace {

TEST(AnswerParser, Hermes) {
  expect_parsed(kHermes, "Hello <b>you</b>.\n", "Hello <b>you</b>.\n");
  expect_parsed(kHermes,
                "Let me see. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]} }\n"
                "</tool_call>",
                "Let me see. {0 f}[0 {\"a\": [1, \"}\"]}]");
  expect_parsed(kHermes,
                "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                "<tool_call>{\"arguments\": {\"x\": 1.5}, \"name\": \"g\"}</tool_call> bye",
                "{0 f}[0 {}]{1 g}[1 {\"x\": 1.5}]bye");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"now\"}</tool_call>", "{0 now}[0 {}]");
  expect_parsed(kHermes,
                "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
                "{0 f}[0 {\"a\": 1}]");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": \"\"}</tool_call>",
                "{0 f}[0 {}]");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
                "{0 f}[0 {}]");
}

TEST(AnswerParser, ArgumentsAreAnObject) {
  for (const char* arguments : {"5", "true", "[{}]", "[{\"a\": 1}]", R"("no \"json")", R"("5")",
                                R"("[1]")", R"("{\"a\": 1")", R"("{} {}")", R"("\"{}\"")"}) {
    const std::string value = arguments;
    const std::string call = R"({"name": "f", "arguments": )" + value + "}";
    expect_parsed(kHermes, "<tool_call>" + call + "</tool_call>",
                  "<tool_call>" + call + "</tool_call>");
    const std::string args_first = R"({"arguments": )" + value + R"( , "name": "f"})";
    expect_parsed(kMistral, "[TOOL_CALLS][" + args_first + "]", "[TOOL_CALLS][" + args_first + "]");
    const std::string bare = R"({"name": "Bob", "parameters": )" + value + "}";
    expect_parsed(kLlama, bare, bare);
  }
  expect_parsed(kHermes, R"(<tool_call>{"name": "f", "arguments": " {\"a\": [1]} "}</tool_call>)",
                R"({0 f}[0 {"a": [1]}])");
}

TEST(AnswerParser, BrokenCallsAreContent) {
  for (const char* text : {"<tool_call>no json</tool_call>", "<tool_call>{\"name\" 1}</tool_call>",
                           "<tool_call>{\"arguments\": 1}", "<tool_call>", "<tool_", "a <tool_cal",
                           "<tool_call>{}</tool_call>", "<tool_call>{\"name\": 5}",
                           "<tool_call>{\"name\": \"f\"", "<tool_call>[1]"})
    expect_parsed(kHermes, text, text);
  // A call that breaks, or is cut off, after it began keeps what was sent.
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1} oops",
                "{0 f}[0 {\"a\": 1}]oops");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": oops}",
                "{0 f}[0 {\"a\": 1}], \"id\": oops}");
  expect_parsed(kHermes, "<tool_call>{\"arguments\": {}, \"name\": \"f\", \"id\" oops",
                "{0 f}[0 {}] \"id\" oops");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"parameters\": {}}",
                "{0 f}[0 {}], \"parameters\": {}}");
  expect_parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"long",
                "{0 f}[0 {\"a\": \"long]");
}

TEST(AnswerParser, Llama3) {
  expect_parsed(kLlama, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "{0 f}[0 {\"a\": 1}]");
  expect_parsed(kLlama,
                "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
                "\"parameters\": {\"b\": null}}",
                "{0 f}[0 {}]{1 g}[1 {\"b\": null}]");
  expect_parsed(kLlama, "The object {\"name\": 1} is text", "The object {\"name\": 1} is text");
  expect_parsed(kLlama, "{\"name\": \"Bob\", \"age\": 5}", "{\"name\": \"Bob\", \"age\": 5}");
  expect_parsed(kLlama, "<|python_tag|>print(1)", "<|python_tag|>print(1)");
}

TEST(AnswerParser, Mistral) {
  expect_parsed(kMistral,
                "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, "
                "{\"name\": \"g\", \"arguments\": {}}]",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  expect_parsed(kMistral, "Hi [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]",
                "Hi {0 f}[0 {}]");
  expect_parsed(kMistral, "[TOOL_CALLS][]", "[TOOL_CALLS][]");
  expect_parsed(kMistral, "[TOOLS] are fine", "[TOOLS] are fine");
}

TEST(AnswerParser, MistralNamesBeforeArguments) {
  expect_parsed(kMistral, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{}",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  expect_parsed(kMistral, "Hi [TOOL_CALLS]f g h[ARGS]{}", "Hi [TOOL_CALLS]f g h[ARGS]{}");
}

TEST(AnswerParser, FunctionTags) {
  const AnswerFormat format = calls(ToolCallFormat::function);
  expect_parsed(format,
                "<function=f>{\"a\": \"</function>\"}</function>\n<function=g>{}</function>",
                "{0 f}[0 {\"a\": \"</function>\"}]{1 g}[1 {}]");
  expect_parsed(format, "<function=f>no", "<function=f>no");
}

TEST(AnswerParser, QwenTags) {
  const AnswerFormat format = calls(ToolCallFormat::qwen_tags);
  expect_parsed(format,
                "Yes.\n<tool_call>\n<function=f>\n<parameter=city>\nSão \"Paulo\"\n</parameter>\n"
                "<parameter=n>\n3\n</parameter>\n<parameter=o>\n{\"a\": [1, 2]}\n</parameter>\n"
                "<parameter=code>\nif x < 1:\n  y\n\n</parameter>\n</function>\n</tool_call>\n"
                "<tool_call>\n<function=now>\n</function>\n</tool_call>",
                "Yes.\n{0 f}[0 {\"city\": \"São \\\"Paulo\\\"\", \"n\": 3, \"o\": {\"a\": [1, 2]}, "
                "\"code\": \"if x < 1:\\n  y\\n\"}]{1 now}[1 {}]");
  for (const char* text : {"<tool_call>\n{\"name\": \"f\"", "<tool_call>\n<function=f g>\n",
                           "<tool_call>\n<function=f>\n<param"})
    expect_parsed(format, text, text);
  // What breaks late, or is cut off, is content whole: half of the arguments would be no JSON.
  const std::string begun = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n";
  for (const std::string& text :
       {begun, begun + "Sorry, I cannot do that.", begun + "<parameter=b>\nsome text",
        begun + std::string(600, 'x')})
    expect_parsed(format, text, text);
}

// A call without its end mark is content, and the next one is read by itself.
TEST(AnswerParser, TagsWithoutTheirEnd) {
  const std::string a = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n";
  expect_parsed(calls(ToolCallFormat::qwen_tags), a + a + "</function>\n</tool_call>",
                a + "{0 f}[0 {\"a\": 1}]");
  const std::string b = "<arg_key>b</arg_key><arg_value>2</arg_value>";
  expect_parsed(calls(ToolCallFormat::glm),
                "<tool_call>f" + b + "\n<tool_call>g" + b + "</tool_call>",
                "<tool_call>f" + b + "\n{0 g}[0 {\"b\": 2}]");
  const std::string c = "<invoke name=\"f\"><parameter name=\"a\">x</parameter>";
  expect_parsed(calls(ToolCallFormat::minimax),
                "<minimax:tool_call>" + c + c + "</invoke></minimax:tool_call>",
                "<minimax:tool_call>" + c + "{0 f}[0 {\"a\": \"x\"}]");
  const std::string d =
      "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" "
      "string=\"true\">3</｜DSML｜parameter>";
  expect_parsed(calls(ToolCallFormat::dsml),
                "<｜DSML｜tool_calls>" + d + d + "</｜DSML｜invoke></｜DSML｜tool_calls>",
                "<｜DSML｜tool_calls>" + d + "{0 f}[0 {\"a\": \"3\"}]");
}

/// One tool named f.
std::shared_ptr<const ToolSchemas> tools_with(const std::string& properties) {
  return std::make_shared<const ToolSchemas>(json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": )" +
          properties + "}}}]",
      "tools"));
}

TEST(AnswerParser, SchemasTypeTheValuesOfTags) {
  const auto tools = tools_with(R"({"s": {"type": "string"}, "n": {"type": "integer"}})");
  expect_parsed(calls(ToolCallFormat::qwen_tags),
                "<tool_call>\n<function=f>\n<parameter=s>\n007\n</parameter>\n<parameter=n>\n7\n"
                "</parameter>\n<parameter=unknown>\n7\n</parameter>\n</function>\n</tool_call>",
                "{0 f}[0 {\"s\": \"007\", \"n\": 7, \"unknown\": 7}]", tools);
  expect_parsed(calls(ToolCallFormat::glm),
                "<tool_call>f<arg_key>s</arg_key><arg_value>42</arg_value><arg_key>n</arg_key>"
                "<arg_value>many</arg_value></tool_call>",
                "{0 f}[0 {\"s\": \"42\", \"n\": \"many\"}]", tools);
  expect_parsed(calls(ToolCallFormat::minimax),
                "<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">true</parameter>"
                "</invoke></minimax:tool_call>",
                "{0 f}[0 {\"s\": \"true\"}]", tools);
  // What the model says itself comes first.
  expect_parsed(calls(ToolCallFormat::dsml),
                "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\">"
                "<｜DSML｜parameter name=\"s\" string=\"false\">\"x\"</｜DSML｜parameter>"
                "<｜DSML｜parameter name=\"n\" string=\"true\">3</｜DSML｜parameter>"
                "</｜DSML｜invoke></｜DSML｜tool_calls>",
                "{0 f}[0 {\"s\": \"x\", \"n\": \"3\"}]", tools);
}

TEST(AnswerParser, Glm) {
  const AnswerFormat format = calls(ToolCallFormat::glm);
  expect_parsed(format,
                "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x, y</arg_value>\n"
                "<arg_key>b</arg_key><arg_value>[1, \"z\"]</arg_value>\n</tool_call>\n"
                "<tool_call>now</tool_call>",
                "{0 f}[0 {\"a\": \"x, y\", \"b\": [1, \"z\"]}]{1 now}[1 {}]");
}

TEST(AnswerParser, Deepseek) {
  const AnswerFormat format = calls(ToolCallFormat::deepseek);
  expect_parsed(format,
                "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
                "{\"a\": {\"b\": 1}}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
                "<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                "Ok{0 f}[0 {\"a\": {\"b\": 1}}]{1 g}[1 {}]");
  expect_parsed(format,
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}"
                "<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                "<｜tool▁calls▁end｜>",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
}

TEST(AnswerParser, Dsml) {
  const AnswerFormat format = calls(ToolCallFormat::dsml);
  for (const std::string section : {"tool_calls", "function_calls"}) {
    const std::string two_calls =
        "<｜DSML｜invoke name=\"f\">\n"
        "<｜DSML｜parameter name=\"a\" string=\"true\">3</｜DSML｜parameter>\n"
        "<｜DSML｜parameter name=\"b\" string=\"false\">3</｜DSML｜parameter>\n"
        "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n";
    std::string text = "\n\n<｜DSML｜";
    text.append(section)
        .append(">\n")
        .append(two_calls)
        .append("</｜DSML｜")
        .append(section)
        .append(">");
    expect_parsed(format, text, "\n\n{0 f}[0 {\"a\": \"3\", \"b\": 3}]{1 g}[1 {}]");
  }
}

TEST(AnswerParser, Kimi) {
  const AnswerFormat format = calls(ToolCallFormat::kimi);
  const std::string text =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
      "{\"a\": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
      "<|tool_call_end|><|tool_calls_section_end|>";
  expect_parsed(format, text, "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  const auto events = make_answer_parser(format, nullptr, 1)->push(text);
  EXPECT_EQ(events.at(0).id, "functions.f:0");
}

TEST(AnswerParser, OnlyKimisIdsHoldTheName) {
  for (const std::string name : {"ns:1", "functions.f", "functions.f:0"}) {
    const std::string call = "{0 " + name + "}[0 {}]";
    expect_parsed(kMistral, "[TOOL_CALLS]" + name + "[ARGS]{}", call);
    expect_parsed(calls(ToolCallFormat::function), "<function=" + name + ">{}</function>", call);
    expect_parsed(calls(ToolCallFormat::deepseek),
                  "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>{}", call);
  }
}

TEST(AnswerParser, IdsWithinAnAnswerDiffer) {
  const auto ids = [](const AnswerFormat& format, const std::string& text) {
    const auto parser = make_answer_parser(format, nullptr, 1);
    std::vector<std::string> found;
    for (const ChatEvent& event : parser->push(text)) {
      if (event.kind == ChatEvent::Kind::tool_call) found.push_back(event.id);
    }
    return found;
  };
  const auto call = [](const std::string& id) {
    return R"(<tool_call>{"id": ")" + id + R"(", "name": "f", "arguments": {}}</tool_call>)";
  };
  using CallIds = std::vector<std::string>;
  const std::string made[] = {make_call_id(1, 0), make_call_id(1, 1), make_call_id(1, 2)};
  EXPECT_EQ(ids(kHermes, call("a") + call("a") + call("b")), (CallIds{"a", made[1], "b"}));
  // What the model writes may be what would be made.
  EXPECT_EQ(ids(kHermes, call(made[1]) + call("")), (CallIds{made[1], made[2]}));
  EXPECT_EQ(ids(kHermes, call("") + call(made[0]) + call(made[1])),
            (CallIds{made[0], made[1], made[2]}));
  const std::string kimi =
      "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
  EXPECT_EQ(ids(calls(ToolCallFormat::kimi), "<|tool_calls_section_begin|>" + kimi + kimi),
            (CallIds{"functions.f:0", made[1]}));
}

TEST(AnswerParser, Minimax) {
  expect_parsed(
      calls(ToolCallFormat::minimax),
      "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n"
      "<parameter name=\"b\">true</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
      "</minimax:tool_call>",
      "{0 f}[0 {\"a\": \"x\", \"b\": true}]{1 g}[1 {}]");
}

TEST(AnswerParser, Gemma) {
  const AnswerFormat format = calls(ToolCallFormat::gemma);
  expect_parsed(
      format,
      "<|tool_call>call:f{city:<|\"|>Pa\"}ris<|\"|>,n:1.5,l:[true,<|\"|>x<|\"|>],o:{<|\"|>k"
      "<|\"|>:null}}<tool_call|><|tool_call>call:g{}<tool_call|>",
      "{0 f}[0 {\"city\":\"Pa\\\"}ris\",\"n\":1.5,\"l\":[true,\"x\"],\"o\":{\"k\":null}}]"
      "{1 g}[1 {}]");
  expect_parsed(format, "<|tool_call>f{}", "<|tool_call>f{}");
}

TEST(AnswerParser, Pythonic) {
  const AnswerFormat format = calls(ToolCallFormat::pythonic);
  expect_parsed(format, "[get_weather(city=\"Paris\", days=3)]",
                "{0 get_weather}[0 {\"city\": \"Paris\", \"days\": 3}]");
  expect_parsed(
      format,
      "\n[f(a='it\\'s (fine), or \"not\"]', b=[1, {'x': (True, None)}], c = -.5,), g(),\n"
      " h.i ( d='''a'b''', e='', f=''\n'x')]",
      "{0 f}[0 {\"a\": \"it's (fine), or \\\"not\\\"]\", \"b\": [1, {\"x\": [true, null]}], "
      "\"c\": -0.5}]{1 g}[1 {}]{2 h.i}[2 {\"d\": \"a'b\", \"e\": \"\", \"f\": \"x\"}]");
  expect_parsed(format, "<|python_start|>[f(a=1)]<|python_end|>", "{0 f}[0 {\"a\": 1}]");
  expect_parsed_hidden(format, "⟦<|python_start|>⟧[f(a=1)]⟦<|python_end|>⟧", "{0 f}[0 {\"a\": 1}]");
  // Llama 4 has a template that asks for JSON.
  expect_parsed(format, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "{0 f}[0 {\"a\": 1}]");
  expect_parsed(format, "[f(a=1)] [g(b=2)]", "{0 f}[0 {\"a\": 1}]{1 g}[1 {\"b\": 2}]");
  expect_parsed(format, "[f(a=1)], and more (1)", "{0 f}[0 {\"a\": 1}], and more (1)");
}

TEST(AnswerParser, PythonicValuesFollowTheSchema) {
  const AnswerFormat format = calls(ToolCallFormat::pythonic);
  const auto tools = tools_with(R"({"s": {"type": "string"}, "n": {"type": "integer"}})");
  // Published templates print every value in quotes, or none.
  expect_parsed(format, "[f(s=\"3\", n=\"3\")]", "{0 f}[0 {\"s\": \"3\", \"n\": 3}]", tools);
  expect_parsed(format, "[f(s=New York, n=3, x=true)]",
                "{0 f}[0 {\"s\": \"New York\", \"n\": 3, \"x\": true}]", tools);
  expect_parsed(format, "[f(s=true, x=[true, {\"y\": null}], z={'a': false, 'b': None})]",
                "{0 f}[0 {\"s\": \"true\", \"x\": [true, {\"y\": null}], "
                "\"z\": {\"a\": false, \"b\": null}}]",
                tools);
}

TEST(AnswerParser, PythonicTextIsContent) {
  const AnswerFormat format = calls(ToolCallFormat::pythonic);
  for (const std::string& text : std::vector<std::string>{"[1] is a note.",
                                                          "[Paris] is a city.",
                                                          "[a, b]",
                                                          "[]",
                                                          "[f(",
                                                          "[f(1)]",
                                                          "[f('a')]",
                                                          "[f(a)]",
                                                          "[f(a=1",
                                                          "[f(a=1 + g(2))]",
                                                          "[f(a=[1)]",
                                                          "[f(**x)]",
                                                          "[f(a==1)]",
                                                          "[f g(a=1)]",
                                                          "[f(a=}",
                                                          "[-f()]",
                                                          "[(a=1)]",
                                                          "[f(=1)]",
                                                          "[f(a=)]",
                                                          "[f(a='x)]",
                                                          "[" + std::string(600, 'f'),
                                                          "[f(a=" + std::string(100, '['),
                                                          "f(a=1)",
                                                          "See [f(a=1)].",
                                                          "[x](http://y)"})
    expect_parsed(format, text, text);
  // So is a call that breaks late, behind one that did not.
  for (const char* text : {"[f(a=1, b=[)]", "[f(a=1, b=[true x])]", "[f(a=1, b=2", "[f(a=1, a=2)]"})
    expect_parsed(format, text, text);
  expect_parsed(format, "[f(a=1), g(b=2, c=[x y])]", "{0 f}[0 {\"a\": 1}], g(b=2, c=[x y])]");
  // Text that can be no call is not held back.
  const auto parser = make_answer_parser(format, nullptr, 1);
  EXPECT_EQ(described(parser->push("[Paris is")), "[Paris is");
}

TEST(AnswerParser, Lfm2) {
  const AnswerFormat format = calls(ToolCallFormat::lfm2);
  expect_parsed(format,
                "<|tool_call_start|>[get_status(id=\"12345\")]<|tool_call_end|>Checking that.",
                "{0 get_status}[0 {\"id\": \"12345\"}]Checking that.");
  expect_parsed_hidden(format,
                       "Well.⟦<|tool_call_start|>⟧[f(a='⟦<|pad|>⟧x'), g()]⟦<|tool_call_end|>⟧ So.",
                       "Well.{0 f}[0 {\"a\": \"x\"}]{1 g}[1 {}]So.");
  expect_parsed(
      format, "<|tool_call_start|>[f()]<|tool_call_end|><|tool_call_start|>[g()]<|tool_call_end|>",
      "{0 f}[0 {}]{1 g}[1 {}]");
  // Asked for JSON, it writes that between its marks.
  expect_parsed(
      format, "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|tool_call_end|>",
      "{0 f}[0 {\"a\": 1}]");
  expect_parsed(format, "[f(a=1)]", "[f(a=1)]");
  expect_parsed_hidden(format, "⟦<|tool_call_start|>⟧oops", "oops");
}

TEST(AnswerParser, ListsBehindOtherMarks) {
  expect_parsed(calls(ToolCallFormat::granite),
                "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\"}]"
                "<|/tool_call|>",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  expect_parsed(calls(ToolCallFormat::nemotron),
                "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>", "{0 f}[0 {}]");
  expect_parsed(calls(ToolCallFormat::cohere),
                "<|START_ACTION|>[\n  {\"tool_call_id\": \"0f\", \"tool_name\": \"f\", "
                "\"parameters\": {\"a\": 1}},\n  {\"tool_name\": \"g\", \"parameters\": {}}\n]"
                "<|END_ACTION|>",
                "{0 f}[0 {\"a\": 1}]{1 g}[1 {}]");
  expect_parsed(calls(ToolCallFormat::command_r),
                "Action: ```json\n[\n {\"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]```",
                "{0 f}[0 {\"a\": 1}]");
}

// Only within a list does a comma bring another call: behind the end of one it is text.
TEST(AnswerParser, ACommaBehindAListIsText) {
  const AnswerFormat lfm2 = calls(ToolCallFormat::lfm2);
  expect_parsed_hidden(lfm2, "⟦<|tool_call_start|>⟧[f(x=1)]⟦<|tool_call_end|>⟧, rm(x=2)",
                       "{0 f}[0 {\"x\": 1}], rm(x=2)");
  expect_parsed_hidden(lfm2, "⟦<|tool_call_start|>⟧[f(x=1)], rm(x=2)",
                       "{0 f}[0 {\"x\": 1}], rm(x=2)");
  expect_parsed_hidden(lfm2, "⟦<|tool_call_start|>⟧f(), g()⟦<|tool_call_end|>⟧, rm()",
                       "{0 f}[0 {}]{1 g}[1 {}], rm()");
  const AnswerFormat pythonic = calls(ToolCallFormat::pythonic);
  expect_parsed(pythonic, "[f(x=1)], rm(x=2)", "{0 f}[0 {\"x\": 1}], rm(x=2)");
  expect_parsed(pythonic, "<|python_start|>[f()]<|python_end|> [rm(x=2)]", "{0 f}[0 {}][rm(x=2)]");
  expect_parsed_hidden(kMistral, "⟦[TOOL_CALLS]⟧f⟦[ARGS]⟧{}, delete_all {\"x\":1}",
                       "{0 f}[0 {}], delete_all {\"x\":1}");
  expect_parsed_hidden(kMistral, "⟦[TOOL_CALLS]⟧[{\"name\":\"f\"}], delete_all {\"x\":1}",
                       "{0 f}[0 {}], delete_all {\"x\":1}");
  struct {
    ToolCallFormat format;
    std::string open, end;
  } const lists[] = {{ToolCallFormat::granite, "<|tool_call|>", "<|/tool_call|>"},
                     {ToolCallFormat::nemotron, "<TOOLCALL>", "</TOOLCALL>"},
                     {ToolCallFormat::cohere, "<|START_ACTION|>", "<|END_ACTION|>"},
                     {ToolCallFormat::command_r, "Action: ```json", "```"}};
  const std::string forged = ", {\"name\":\"rm\",\"arguments\":{}}";
  for (const auto& [format, open, end] : lists) {
    std::string brackets = open, no_end = open;
    brackets.append(R"([{"name":"f","arguments":{}}])").append(end).append(forged);
    no_end.append(R"({"name":"f","arguments":{}})").append(forged);
    expect_parsed(calls(format), brackets, "{0 f}[0 {}]" + forged);
    expect_parsed(calls(format), no_end, "{0 f}[0 {}]" + forged);
  }
  expect_parsed(calls(ToolCallFormat::apertus),
                "<|tools_prefix|>[{\"f\": {}}]<|tools_suffix|>, {\"rm\": {}}",
                "{0 f}[0 {}], {\"rm\": {}}");
}

TEST(AnswerParser, Apertus) {
  const AnswerFormat format = calls(ToolCallFormat::apertus);
  expect_parsed(
      format,
      "Yes.<|tools_prefix|>[{\"f\": {\"a\": {\"b\": \"}\"}} }, {\"g\": {}}]<|tools_suffix|>",
      "Yes.{0 f}[0 {\"a\": {\"b\": \"}\"}}]{1 g}[1 {}]");
  for (const char* text : {"<|tools_prefix|>[]<|tools_suffix|>", "<|tools_prefix|>[{}]",
                           "<|tools_prefix|>[{\"f\": 1}]", "<|tools_prefix|>[{\"f g\": {}}]",
                           "<|tools_prefix|>[{\"f\": \"x\"}]", "<|tools_prefix|>[{\"f\""})
    expect_parsed(format, text, text);
  expect_parsed(format, "<|tools_prefix|>[{\"f\": {\"a\": 1}, \"g\": {}}]",
                "{0 f}[0 {\"a\": 1}], \"g\": {}}]");
}

TEST(AnswerParser, Gigachat) {
  const std::string mark = "<|message_sep|>\n\nfunction call<|role_sep|>\n";
  expect_parsed(calls(ToolCallFormat::gigachat),
                "Yes." + mark + "{\"name\": \"f\", \"arguments\": {\"a\": 1}}<|message_sep|>\n\n",
                "Yes.{0 f}[0 {\"a\": 1}]");
  expect_parsed(calls(ToolCallFormat::gigachat), "Yes.<|message_sep|>\n\nuser",
                "Yes.<|message_sep|>\n\nuser");
}

TEST(AnswerParser, Harmony) {
  const AnswerFormat format = calls(ToolCallFormat::harmony);
  expect_parsed(
      format,
      "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>commentary"
      " to=functions.f <|constrain|>json<|message|>{\"a\": \"<|x|>\"}<|call|>",
      "(I think.){0 f}[0 {\"a\": \"<|x|>\"}]");
  expect_parsed(
      format,
      "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>"
      "Hello <b>you<|return|>",
      "(Hm)Hello <b>you");
  expect_parsed(format, " to=functions.now<|channel|>commentary json<|message|><|call|>",
                "{0 now}[0 {}]");
  expect_parsed(format, "Plain <text", "Plain <text");
  expect_parsed(format, "<|channel|>final<|message|>cut <|en", "cut <|en");
  expect_parsed(format, " to=functions.<|message|>a<|call|>", "a");
  // What is too long for a head is content, mark included.
  const std::string text(1100, 'x');
  expect_parsed(format, "<|channel|>" + text + "<|message|>y",
                "<|channel|>" + text + "<|message|>y");
}

// What the model says without a head is not lost; a head that was cut off is no text.
TEST(AnswerParser, HarmonyTextWithoutAHead) {
  const AnswerFormat format = calls(ToolCallFormat::harmony);
  expect_parsed(format, "<|channel|>analysis<|message|>x<|end|>The answer is 4.",
                "(x)The answer is 4.");
  expect_parsed(format, "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|chan", "(x)");
  const std::string thought = "<|channel|>analysis<|message|>x<|end|>";
  const std::string done = "<|start|>assistant<|channel|>final<|message|>Done";
  expect_parsed(format, thought + "The answer is 4." + done, "(x)The answer is 4.Done");
  expect_parsed(format, thought + "\n" + done, "(x)Done");
}

// The recipient is a word of the message's own head, and a name.
TEST(AnswerParser, HarmonyTextIsNoRecipient) {
  const AnswerFormat format = calls(ToolCallFormat::harmony);
  const std::string thought = "<|channel|>analysis<|message|>x<|end|>";
  const std::string last = "<|start|>assistant<|channel|>final<|message|>{}";
  expect_parsed(format, thought + "Use to=functions.rm" + last, "(x)Use to=functions.rm{}");
  expect_parsed(format, thought + " to=functions.rm<|message|>{}",
                "(x) to=functions.rm<|message|>{}");
  expect_parsed(format, thought + "<|channel|>analysis to=functions.rm" + last, "(x){}");
  expect_parsed(format, "<|start|>assistant goto=rm<|channel|>final<|message|>{}", "{}");
  expect_parsed(format, "<|start|>assistant to=r\"m<|channel|>final<|message|>{}", "{}");
}

TEST(AnswerParser, LeavesCallsAloneWithoutTools) {
  AnswerFormat format{.tool_calls = ToolCallFormat::mistral, .reads_calls = false};
  expect_parsed_hidden(format, "a⟦[TOOL_CALLS]⟧[{\"name\": \"f\"}]", "a[{\"name\": \"f\"}]");
  expect_parsed(format, "[TOOL_CALLS][{\"name\": \"f\"}]", "[TOOL_CALLS][{\"name\": \"f\"}]");
  format.tool_calls = ToolCallFormat::harmony;  // its channels are there all the same
  expect_parsed_hidden(format,
                       "⟦<|channel|>⟧analysis⟦<|message|>⟧Hm.⟦<|end|>⟧⟦<|start|>⟧assistant"
                       "⟦<|channel|>⟧commentary to=f⟦<|message|>⟧{}",
                       "(Hm.){}");
}

TEST(AnswerParser, OtherMarksOfReasoning) {
  const auto reasoning = [](ReasoningFormat marks) {
    return AnswerFormat{.reasoning = true, .reasoning_format = marks};
  };
  expect_parsed(reasoning(ReasoningFormat::mistral), "[THINK]a[/THINK]b", "(a)b");
  expect_parsed(reasoning(ReasoningFormat::cohere), "<|START_THINKING|>a<|END_THINKING|>b", "(a)b");
  expect_parsed(reasoning(ReasoningFormat::gemma), "<|channel>thought\na\n<channel|>b", "(a)b");
  expect_parsed(reasoning(ReasoningFormat::seed), "<seed:think>a</seed:think>b", "(a)b");
  EXPECT_TRUE(ends_in_reasoning("<|im_start|>assistant\n[THINK]"));
}

TEST(AnswerParser, Reasoning) {
  expect_parsed(kHermes, "<think>\nFirst.\n\nThen.\n</think>\n\nAnswer.",
                "(First.\n\nThen.)Answer.");
  expect_parsed(kHermes, "<think></think>Yes", "Yes");
  expect_parsed(kHermes,
                "<think>\nhm <tool_call></think><tool_call>{\"name\": \"f\", \"arguments\": "
                "{}}</tool_call>",
                "(hm <tool_call>){0 f}[0 {}]");
  expect_parsed(kHermes, "<think>cut off", "(cut off)");
  expect_parsed(kHermes, "I <think> so </think>", "I <think> so </think>");
  expect_parsed(kPlain, "<think>x</think>", "<think>x</think>");
  AnswerFormat inside = kHermes;
  inside.starts_in_reasoning = true;
  expect_parsed(inside, "So.\n</think>\nYes", "(So.)Yes");
  EXPECT_TRUE(ends_in_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends_in_reasoning("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_reasoning(""));
}

/// How much longer eight times as many pieces take, in processor time: about 8 where time is
/// linear.
double growth(const AnswerFormat& format, const std::string& begin, const std::string& piece,
              bool at_once) {
  const auto time_of = [&](int count) {
    std::string text = begin;
    for (int i = 0; at_once && i < count; ++i) text += piece;
    const std::clock_t start = std::clock();
    const auto parser = make_answer_parser(format, nullptr, 1);
    parser->push(text);
    for (int i = 0; !at_once && i < count; ++i) parser->push(piece);
    parser->finish();
    return static_cast<double>(std::max<std::clock_t>(std::clock() - start, 1));
  };
  constexpr int kCount = 5000;
  double few = std::numeric_limits<double>::max(), many = few;
  // The best of each, in turns; more where a busy neighbour has disturbed them.
  for (int run = 0; run < 12 && (run < 3 || many > 12 * few); ++run) {
    few = std::min(few, time_of(kCount));
    many = std::min(many, time_of(8 * kCount));
  }
  return many / few;
}

TEST(AnswerParser, TimeIsLinear) {
  constexpr double kLimit = 24;  // 64 where it is quadratic
  AnswerFormat thinking = kHermes;
  thinking.starts_in_reasoning = true;
  EXPECT_LT(growth(thinking, "So", "\n", false), kLimit);
  EXPECT_LT(growth(kHermes, "", "\n", false), kLimit);
  EXPECT_LT(growth(kHermes, "", "<tool_call>{\"name\":\"f\"}</tool_call>", true), kLimit);
  const AnswerFormat harmony = calls(ToolCallFormat::harmony);
  EXPECT_LT(growth(harmony, "", "<|start|>a to=f<|message|>{}<|call|>", true), kLimit);
}

TEST(AnswerParser, ContentIsNotHeldBack) {
  const auto parser = make_answer_parser(kHermes, nullptr, 1);
  EXPECT_EQ(described(parser->push("Hello")), "Hello");
  EXPECT_EQ(described(parser->push(" a < b")), " a < b");
  EXPECT_EQ(described(parser->push(" <tool")), " ");  // may become a marker
  EXPECT_EQ(described(parser->push("box>")), "<toolbox>");
  EXPECT_EQ(described(parser->push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"")),
            "{0 f}[0 {\"a\"]");
  EXPECT_EQ(described(parser->push(": 1")), "[0 : 1]");
}

}  // namespace
}  // namespace hasten::text
