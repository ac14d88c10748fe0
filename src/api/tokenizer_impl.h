// SPDX-License-Identifier: Apache-2.0
// What hasten::Tokenizer holds, shared with the engine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/model_files.h"
#include "hasten/tokenizer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"

namespace hasten {

struct Tokenizer::Impl {
  explicit Impl(const weights::Checkpoint& checkpoint)
      : Impl(checkpoint, api::read_tokenizer_spec(checkpoint)) {}
  Impl(const weights::Checkpoint& checkpoint, text::TokenizerSpec spec);
  /// An error of a template, or a sentence about it, with `template_name` for its subject.
  static std::string named(std::string_view template_name, std::string_view message);
  /// Fills in chat_template, template_refusal and template_doubt, or template_error.
  void make_template();
  /// Fills in tool_template and tool_format, where the model has such a template and it parses.
  void read_tool_template(const weights::Checkpoint& checkpoint);
  /// The name of a token, empty for -1.
  std::string name_of(int32_t token) const;

  TokenizerInfo info;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::string source;         // of the model's own template; empty: it has none
  std::string template_name;  // "the chat template of M (chat_template.jinja)"
  std::optional<text::ChatTemplate> chat_template;  // none: it does not parse
  std::string template_error;                       // why it does not parse; empty: it does
  std::string template_refusal;  // why it renders no plain question; empty: it does
  std::string template_doubt;    // why it may not do what it is for; empty: nothing is known
  std::optional<text::ChatTemplate> tool_template;  // of prompts that offer tools, if it is another
  std::string tool_template_name;                   // as template_name
  std::string capabilities;
  text::AnswerFormat answer_format;  // of any prompt; chat_parser fills in what depends on one
  text::AnswerFormat tool_format;    // of the tool template's prompts
};

}  // namespace hasten
