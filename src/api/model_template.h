// SPDX-License-Identifier: Apache-2.0
// A model's chat template, and what is to be said of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "api/model_files.h"
#include "hasten/tokenizer.h"
#include "text/chat_template.h"

namespace hasten::api {

struct ModelTemplate {
  TemplateInfo info;
  std::optional<text::ChatTemplate> parsed;  // none: it does not parse

  /// Renders, with errors that begin with the template's name and are of "messages" unless they
  /// name another field. Throws as text::ChatTemplate, Error{invalid_data} where it does not parse,
  /// and Error{unsupported} of "tools" where these leave no trace in the prompt and the template
  /// knows no calls either.
  text::Rendered render(const json::Value& messages, const json::Value& tools,
                        bool add_generation_prompt, const json::Object& extra) const;
};

/// The texts of the tokens that templates ask for; empty: the model has none.
struct TemplateTokens {
  std::string bos = {};
  std::string eos = {};
};

/// The template that a file is. Throws Error for one that is none, or too long for one.
ChatTemplateSource read_template_file(const std::filesystem::path& path);

/// Parses and tries a template; ChatML where `source` is empty. `subject` is how messages call it.
ModelTemplate make_model_template(ChatTemplateSource source, std::string subject,
                                  const TemplateTokens& tokens);

/// The template of prompts that offer tools, where the model has one beside its own and it parses.
/// What is to be said of it goes to `info`, the own one's, which gets its capabilities, too: those
/// of the best there is.
std::optional<ModelTemplate> read_tool_template(const weights::Checkpoint& checkpoint,
                                                const TemplateTokens& tokens, TemplateInfo& info);

/// "the chat template of M (chat_template.jinja)"; `which` is "tool_use ", or empty.
std::string template_subject(const weights::Checkpoint& checkpoint, std::string_view which,
                             const ChatTemplateSource& source);

}  // namespace hasten::api
