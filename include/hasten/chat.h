// SPDX-License-Identifier: Apache-2.0
// Conversations: what goes into a chat template, and what comes out of a model that was given one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/request.h"

namespace hasten {

namespace text {
class ToolSchemas;
}

/// A conversation as its JSON (the shape of OpenAI's chat API), so that what clients send reaches
/// the template unchanged.
struct Chat {
  std::string messages = "[]";          // JSON array of {"role", "content", …}
  std::string tools = {};               // JSON array, or empty
  std::string template_arguments = {};  // JSON object of further template variables, or empty
  bool add_generation_prompt = true;    // end with the opening of the assistant's turn
};

/// The prompt of a conversation. What users wrote never becomes a special token.
struct RenderedChat {
  std::string text;
  std::vector<int32_t> tokens;
  std::shared_ptr<const text::ToolSchemas> tools;  // that were offered; null: none
};

/// A piece of a model's answer to a chat.
struct ChatEvent {
  enum class Kind { content, reasoning, tool_call, tool_arguments };
  Kind kind = Kind::content;
  int32_t index = 0;  // of the tool call, from 0
  std::string id;     // of the tool call, when it begins
  std::string name;   // of the function, when it begins
  std::string text;   // content, reasoning or a fragment of the arguments' JSON
};

/// Splits an answer into content, reasoning and tool calls while it streams. One thread.
class ChatParser {
 public:
  virtual ~ChatParser() = default;
  /// Takes the next text of the answer, with its special tokens, and returns what is certain by
  /// now. A mark of reasoning or calls that is a control token of the model's counts only where
  /// `special` has it: text that spells it is text. A special token that is not shown in the text
  /// never becomes content.
  virtual std::vector<ChatEvent> push(std::string_view text,
                                      const std::vector<SpecialToken>& special) = 0;
  std::vector<ChatEvent> push(std::string_view text) { return push(text, {}); }
  /// The answer has ended: returns the rest.
  virtual std::vector<ChatEvent> finish() = 0;
};

}  // namespace hasten
