// SPDX-License-Identifier: Apache-2.0
// Implements hasten::Tokenizer on the text layer.
#include "hasten/tokenizer.h"

#include <random>
#include <utility>

#include "api/tokenizer_impl.h"
#include "api/tokenizer_info.h"
#include "api/vocabulary_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/parallel_encode.h"

namespace hasten {
namespace {

/// What is doubtful of ChatML for a model that has no template, in words that follow its name;
/// empty: nothing.
std::string stand_in_doubt(const text::Tokenizer& tokenizer) {
  std::string missing;
  for (const char* mark : {"<|im_start|>", "<|im_end|>"})
    if (tokenizer.find(mark) < 0) missing.append(missing.empty() ? "" : " and ").append(mark);
  if (missing.empty()) return {};
  return "writes " + missing + ", no token of the vocabulary: to the model that is letters";
}

/// A JSON document that the caller hands to a template; `param` names it in errors.
json::Value parse_field(const std::string& text, const char* param) {
  try {
    return json::parse(text, param);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, error.what(), param);
  }
}

}  // namespace

Tokenizer::Impl::Impl(const weights::Checkpoint& checkpoint, text::TokenizerSpec spec,
                      const std::filesystem::path& template_file)
    : info(api::describe(spec)), tokenizer(text::make_tokenizer(std::move(spec))) {
  api::describe(*tokenizer, info);
  const api::TemplateTokens tokens{.bos = name_of(tokenizer->bos()),
                                   .eos = name_of(tokenizer->eos())};
  const bool is_own = template_file.empty();
  api::ChatTemplateSource source =
      is_own ? api::read_chat_template(checkpoint) : api::read_template_file(template_file);
  const std::string subject = api::template_subject(checkpoint, "", source);
  chat_template = api::make_model_template(std::move(source), subject, tokens);
  // The model's own fault need not keep it from what else it can do; whoever names a file is there.
  if (!is_own && !chat_template.parsed)
    throw Error(ErrorCode::invalid_data, chat_template.info.error);
  const std::string& own = chat_template.info.source;
  const bool stands_in = own.empty() && chat_template.parsed;
  if (const std::string doubt = stands_in ? stand_in_doubt(*tokenizer) : ""; !doubt.empty())
    chat_template.info.doubt = chat_template.info.name + " " + doubt;
  answer_format = text::detect_answer_format(own.empty() ? text::default_template() : own);
  answer_format.control_tokens = text::mark_tokens(answer_format, *tokenizer);
  if (is_own) tool_template = api::read_tool_template(checkpoint, tokens, chat_template.info);
  if (!tool_template) return;
  tool_format = text::detect_answer_format(tool_template->info.source);
  tool_format.control_tokens = text::mark_tokens(tool_format, *tokenizer);
}

void Tokenizer::Impl::warn_of_doubts() const {
  for (const std::string& doubt : info.doubts) {
    log::warn("the tokenizer of {}: {}", api::cleaned(info.file), api::cleaned(doubt));
  }
  const TemplateInfo& templates = chat_template.info;
  if (!templates.tool_error.empty()) {
    log::warn("{}: prompts that offer tools are made like others",
              api::cleaned(templates.tool_error));
  }
  if (!templates.tool_doubt.empty()) log::warn("{}", api::cleaned(templates.tool_doubt));
}

std::string Tokenizer::Impl::name_of(int32_t token) const {
  return token < 0 ? std::string() : std::string(tokenizer->token_bytes(token));
}

Tokenizer::Tokenizer(const std::filesystem::path& model) {
  api::OpenVocabulary opened = api::open_vocabulary(model);
  impl_ = std::make_unique<Impl>(*opened.checkpoint, std::move(opened.spec));
}
Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

const TokenizerInfo& Tokenizer::info() const { return impl_->info; }
int64_t Tokenizer::vocab_size() const { return impl_->tokenizer->vocab_size(); }
int32_t Tokenizer::bos() const { return impl_->tokenizer->bos(); }
int32_t Tokenizer::eos() const { return impl_->tokenizer->eos(); }

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special,
                                       bool parse_special) const {
  return impl_->tokenizer->encode(text,
                                  {.add_special = add_special, .parse_special = parse_special});
}

std::vector<std::vector<int32_t>> Tokenizer::encode_all(const std::vector<std::string_view>& texts,
                                                        bool add_special, bool parse_special,
                                                        int num_threads) const {
  return text::encode_all(*impl_->tokenizer, texts,
                          {.add_special = add_special, .parse_special = parse_special},
                          num_threads);
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens, bool show_special) const {
  return impl_->tokenizer->decode(tokens, show_special);
}

std::string Tokenizer::token_bytes(int32_t token) const {
  return std::string(impl_->tokenizer->token_bytes(token));
}

bool Tokenizer::is_special(int32_t token) const { return impl_->tokenizer->is_special(token); }

const TemplateInfo& Tokenizer::chat_template() const { return impl_->chat_template.info; }

RenderedChat Tokenizer::render_chat(const Chat& chat) const {
  const json::Value messages = parse_field(chat.messages, "messages");
  const json::Value tools = chat.tools.empty() ? json::Value() : parse_field(chat.tools, "tools");
  json::Object extra;
  if (!chat.template_arguments.empty()) {
    const json::Value arguments = parse_field(chat.template_arguments, "chat_template_kwargs");
    if (!arguments.is_object()) {
      fail_param("chat_template_kwargs", "chat_template_kwargs must be a JSON object");
    }
    extra = arguments.as_object();
  }
  const bool any_tools = tools.is_array() && !tools.get_array().empty();
  const auto& chosen =
      any_tools && impl_->tool_template ? *impl_->tool_template : impl_->chat_template;
  text::Rendered rendered = chosen.render(messages, tools, chat.add_generation_prompt, extra);
  RenderedChat result;
  if (any_tools) result.tools = std::make_shared<const text::ToolSchemas>(tools);
  // A model's own template is the whole truth about its prompt, begin token included.
  const bool add_special = impl_->chat_template.info.source.empty();
  result.tokens = impl_->tokenizer->encode(
      rendered.text,
      {.add_special = add_special, .parse_special = true, .literal = rendered.literal});
  result.text = std::move(rendered.text);
  return result;
}

std::unique_ptr<ChatParser> Tokenizer::chat_parser(const RenderedChat& prompt) const {
  text::AnswerFormat format =
      prompt.tools != nullptr && impl_->tool_template ? impl_->tool_format : impl_->answer_format;
  format.reads_calls = prompt.tools != nullptr;
  format.starts_in_reasoning = format.reasoning && text::ends_in_reasoning(prompt.text);
  std::random_device random;  // ids of calls differ between answers, and between servers
  return text::make_answer_parser(format, prompt.tools, (uint64_t{random()} << 32) | random());
}

}  // namespace hasten
