// SPDX-License-Identifier: Apache-2.0
// Splits a model's answer into content, reasoning and tool calls while it streams.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/chat.h"
#include "text/tokenizer.h"
#include "text/tool_schemas.h"

namespace hasten::text {

/// How a model writes a call.
enum class ToolCallFormat {
  none,    // it does not: everything is content
  hermes,  // <tool_call>{"name": …, "arguments": {…}}</tool_call>: Hermes, Qwen, hasten-tiny
  llama3,  // the whole answer is {"name": …, "parameters": {…}}, perhaps after <|python_tag|>;
           // several are parted by ; or ,
  pythonic,  // the whole answer is [name(key="text", …), …]: Llama 4, Llama 3.2
  lfm2,      // <|tool_call_start|>[name(key="text", …), …]<|tool_call_end|>: LFM2
  mistral,   // [TOOL_CALLS][{"name": …, "arguments": {…}}, …], or [TOOL_CALLS]name[ARGS]{…}
  function,  // <function=name>{…}</function>: Functionary, Llama 3.1 with custom tools
  qwen_tags,  // <tool_call><function=name><parameter=key>…: Qwen3-Coder, Nemotron 3, Step 3.5
  glm,        // <tool_call>name<arg_key>key</arg_key><arg_value>…: GLM 4.5 and later
  deepseek,   // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>…: DeepSeek R1, V3, V3.1
  dsml,       // <｜DSML｜invoke name="…">: DeepSeek V3.2 and V4
  kimi,       // <|tool_calls_section_begin|><|tool_call_begin|>functions.name:0…: Kimi K2
  minimax,    // <minimax:tool_call><invoke name="…"><parameter name="…">…: MiniMax M2
  gemma,      // <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>: Gemma 4
  granite,    // <|tool_call|>[{"name": …, "arguments": {…}}]: Granite 3, Phi-4-mini
  nemotron,   // <TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>: Nemotron Nano 2
  cohere,     // <|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>
  command_r,  // Action: ```json[{"tool_name": …, "parameters": {…}}]```: Command R and R+
  apertus,    // <|tools_prefix|>[{"name": {…}}, …]<|tools_suffix|>: Apertus
  gigachat,  // <|message_sep|>…function call<|role_sep|>{"name": …, "arguments": {…}}: GigaChat 3
  harmony,  // <|channel|>commentary to=functions.name<|message|>{…}<|call|>: gpt-oss
};

/// "hermes", "llama3", …
std::string_view tool_call_format_name(ToolCallFormat format);

/// What stands around reasoning.
enum class ReasoningFormat {
  think,    // <think>…</think>
  mistral,  // [THINK]…[/THINK]
  cohere,   // <|START_THINKING|>…<|END_THINKING|>
  gemma,    // <|channel>thought…<channel|>
  seed,     // <seed:think>…</seed:think>
  apertus,  // <|inner_prefix|>…<|inner_suffix|>
};

struct AnswerFormat {
  ToolCallFormat tool_calls = ToolCallFormat::none;
  bool reads_calls = true;  // false: what looks like a call is content
  bool reasoning = false;   // what stands in its marks is reasoning, not content
  ReasoningFormat reasoning_format = ReasoningFormat::think;
  bool starts_in_reasoning = false;  // the prompt already ends with the opening mark
  // Names of control tokens in the marks: text that spells one is no mark, only the token is.
  std::vector<std::string> control_tokens = {};
};

/// The format that a template's source teaches its model.
AnswerFormat detect_answer_format(std::string_view template_source);

/// Which control tokens of a vocabulary are marks of `format`, or stand in one. Looks at every
/// token.
std::vector<std::string> mark_tokens(const AnswerFormat& format, const Tokenizer& tokenizer);

/// Whether a prompt ends with the opening mark of reasoning.
bool ends_in_reasoning(std::string_view prompt);

/// A parser for one answer. Content and reasoning stream without delay, except for what may be the
/// start of a marker. A tool_call event opens a call (index, id, name) as soon as its name is known
/// and its arguments begin; tool_arguments events carry the JSON text of the arguments as it
/// arrives: those of harmony are the call's message as it stands, which nothing checks to be JSON.
/// Calls whose arguments are no JSON (pythonic, in tags, Gemma's) come whole at their end.
/// What is not a well-formed call comes out as content, from where its call broke; nothing throws.
/// A call's id is what the model gives it, unless another call of the answer has it.
/// Words between the mark of a call in tags and its name are content too, before the call.
/// A function's name is letters, digits and _-.:/$; anything else names none. Whether the function
/// was offered is not asked: the client sees what its model called. Of a key that comes twice in
/// tags the last value counts, as JSON's readers have it; in Python's form that is no call; where
/// the model writes an object itself (JSON, Gemma), it goes out as it stands.
/// `tools`, which may be null, type the arguments of forms that do not say types. `id_seed` makes
/// the ids of calls: give each answer another.
std::unique_ptr<ChatParser> make_answer_parser(const AnswerFormat& format,
                                               std::shared_ptr<const ToolSchemas> tools,
                                               uint64_t id_seed);

}  // namespace hasten::text
