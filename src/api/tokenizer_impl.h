// SPDX-License-Identifier: Apache-2.0
// What hasten::Tokenizer holds, shared with the engine.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "api/model_files.h"
#include "api/model_template.h"
#include "hasten/tokenizer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"

namespace hasten {

struct Tokenizer::Impl {
  /// `template_file` takes the place of all of the model's chat templates, if it is not empty.
  /// Throws Error, for one that does not parse as well.
  Impl(const weights::Checkpoint& checkpoint, text::TokenizerSpec spec,
       const std::filesystem::path& template_file = {});
  /// Logs what is doubtful of the tokenizer and of the template for tools.
  void warn_of_doubts() const;
  /// The name of a token, empty for -1.
  std::string name_of(int32_t token) const;

  TokenizerInfo info;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  api::ModelTemplate chat_template;
  std::optional<api::ModelTemplate> tool_template;  // of prompts that offer tools, if it is another
  text::AnswerFormat answer_format;  // of any prompt; chat_parser fills in what depends on one
  text::AnswerFormat tool_format;    // of the tool template's prompts
};

}  // namespace hasten
