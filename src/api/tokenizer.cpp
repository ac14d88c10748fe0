// SPDX-License-Identifier: Apache-2.0
// Implements hasten::Tokenizer on the text layer.
#include "hasten/tokenizer.h"

#include <fmt/format.h>

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

/// A JSON document that the caller hands to a template; `param` names it in errors.
json::Value parse_field(const std::string& text, const char* param) {
  try {
    return json::parse(text, param);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, error.what(), param);
  }
}

// How the errors of templates begin, which know neither their model nor their file.
constexpr std::string_view kSubject = "the chat template ";

std::string name_of_template(const weights::Checkpoint& checkpoint, std::string_view which,
                             const api::ChatTemplateSource& source) {
  return fmt::format("{}{}of {} ({})", kSubject, which, api::display_name(checkpoint),
                     source.text.empty() ? "ChatML, as it has none" : source.place);
}

/// Why a template does not render the plainest of conversations, in a sentence; empty: it does.
std::string refusal_of(const text::ChatTemplate& chat_template) {
  try {
    const json::Array question{json::Object{{"role", "user"}, {"content", "Hello"}}};
    (void)chat_template.render(question, {}, /*add_generation_prompt=*/true);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    std::string_view why = error.what();
    if (why.starts_with(kSubject)) why.remove_prefix(kSubject.size());
    constexpr std::string_view kRefused = "refused the conversation";
    if (why.starts_with(kRefused))
      return fmt::format("{}refuses a plain question{}", kSubject, why.substr(kRefused.size()));
    return fmt::format("{}refuses a plain question: it {}", kSubject, why);
  }
  return {};
}

}  // namespace

Tokenizer::Impl::Impl(const weights::Checkpoint& checkpoint, text::TokenizerSpec spec)
    : info(api::describe(spec)), tokenizer(text::make_tokenizer(std::move(spec))) {
  api::describe(*tokenizer, info);
  api::ChatTemplateSource read = api::read_chat_template(checkpoint);
  template_name = name_of_template(checkpoint, "", read);
  source = std::move(read.text);
  answer_format = text::detect_answer_format(source.empty() ? text::default_template() : source);
  make_template();
  answer_format.control_tokens = text::mark_tokens(answer_format, *tokenizer);
  read_tool_template(checkpoint);
  const auto& best = tool_template ? tool_template : chat_template;
  if (best) capabilities = best->capabilities().describe();
}

void Tokenizer::Impl::make_template() {
  try {
    chat_template.emplace(source.empty() ? std::string(text::default_template()) : source,
                          name_of(tokenizer->bos()), name_of(tokenizer->eos()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    template_error = named(template_name, error.what());  // what needs no chats works all the same
    return;
  }
  template_refusal = named(template_name, refusal_of(*chat_template));
  const std::string doubt = chat_template->doubt();
  if (!doubt.empty()) template_doubt = template_name + " " + doubt;
}

std::string Tokenizer::Impl::named(std::string_view template_name, std::string_view message) {
  if (!message.starts_with(kSubject)) return std::string(message);
  return fmt::format("{} {}", template_name, message.substr(kSubject.size()));
}

void Tokenizer::Impl::read_tool_template(const weights::Checkpoint& checkpoint) {
  api::ChatTemplateSource given = api::read_chat_template(checkpoint, "tool_use");
  if (given.text.empty()) return;
  tool_template_name = name_of_template(checkpoint, "tool_use ", given);
  try {
    tool_template.emplace(std::move(given.text), name_of(tokenizer->bos()),
                          name_of(tokenizer->eos()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    log::warn("{}: prompts that offer tools are made like others",
              named(tool_template_name, error.what()));
    return;
  }
  if (const std::string doubt = tool_template->doubt(); !doubt.empty())
    log::warn("{} {}", tool_template_name, doubt);
  tool_format = text::detect_answer_format(tool_template->source());
  tool_format.control_tokens = text::mark_tokens(tool_format, *tokenizer);
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

TokenKind Tokenizer::token_kind(int32_t token) const {
  const text::Tokenizer& tokenizer = *impl_->tokenizer;
  if (tokenizer.is_special(token)) return TokenKind::special;
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (bytes.size() != 1) return TokenKind::text;
  const auto byte = tokenizer.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(bytes[0])));
  return byte == token ? TokenKind::byte : TokenKind::text;
}

const std::string& Tokenizer::chat_template() const { return impl_->source; }
const std::string& Tokenizer::template_name() const { return impl_->template_name; }
const std::string& Tokenizer::template_capabilities() const { return impl_->capabilities; }
const std::string& Tokenizer::template_error() const { return impl_->template_error; }
const std::string& Tokenizer::template_refusal() const { return impl_->template_refusal; }
const std::string& Tokenizer::template_doubt() const { return impl_->template_doubt; }

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
  const bool is_for_tools = any_tools && impl_->tool_template;
  const auto& chosen = is_for_tools ? impl_->tool_template : impl_->chat_template;
  if (!chosen) throw Error(ErrorCode::invalid_data, impl_->template_error);
  text::Rendered rendered;
  try {
    rendered = chosen->render(messages, tools, chat.add_generation_prompt, extra);
  } catch (const Error& error) {
    const auto& name = is_for_tools ? impl_->tool_template_name : impl_->template_name;
    throw Error(error.code(), Impl::named(name, error.what()), error.param());
  }
  RenderedChat result;
  if (any_tools) result.tools = std::make_shared<const text::ToolSchemas>(tools);
  // A model's own template is the whole truth about its prompt, begin token included.
  const bool add_special = impl_->source.empty();
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
