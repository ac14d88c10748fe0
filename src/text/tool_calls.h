// SPDX-License-Identifier: Apache-2.0
// Splits a model's answer into content, reasoning and tool calls while it streams.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hasten/chat.h"

namespace hasten::text {

/// How a model writes a call.
enum class ToolCallFormat {
  none,     // it does not: everything is content
  hermes,   // <tool_call>{"name": …, "arguments": {…}}</tool_call>: Hermes, Qwen, hasten-tiny
  llama3,   // the whole answer is {"name": …, "parameters": {…}}, perhaps after <|python_tag|>
  mistral,  // [TOOL_CALLS][{"name": …, "arguments": {…}}, …]
};

struct AnswerFormat {
  ToolCallFormat tool_calls = ToolCallFormat::none;
  bool reasoning = false;            // <think>…</think> is reasoning, not content
  bool starts_in_reasoning = false;  // the prompt already ends with <think>
};

/// The format that a template's source teaches its model.
AnswerFormat detect_answer_format(std::string_view template_source);

/// Whether a prompt ends inside an open <think>.
bool ends_in_reasoning(std::string_view prompt);

/// A parser for one answer. Content and reasoning stream without delay, except for what may be the
/// start of a marker. A tool_call event opens a call (index, id, name) as soon as its name is known
/// and its arguments begin; tool_arguments events carry the JSON text of the arguments as it
/// arrives. What is not a well-formed call comes out as content, from where its call broke; nothing
/// throws. `id_seed` makes the ids of calls: give each answer another.
std::unique_ptr<ChatParser> make_answer_parser(const AnswerFormat& format, uint64_t id_seed);

}  // namespace hasten::text
