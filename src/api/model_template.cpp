// SPDX-License-Identifier: Apache-2.0
// Reads chat templates, tries them, and names them in what is said of them.
#include "api/model_template.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/fetched_file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "text/jinja/template.h"

namespace hasten {
namespace api {
namespace {

// How the errors of templates begin, which know neither their model nor their file.
constexpr std::string_view kSubject = "the chat template ";

/// An error of a template with `subject` in the place of its own.
std::string named(std::string_view subject, std::string_view message) {
  if (!message.starts_with(kSubject)) return std::string(message);
  return fmt::format("{} {}", subject, message.substr(kSubject.size()));
}

/// Why a template does not render the plainest of conversations, behind its subject; empty: it
/// does.
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
      return fmt::format("refuses a plain question{}", why.substr(kRefused.size()));
    return fmt::format("refuses a plain question: it {}", why);
  }
  return {};
}

/// ModelTemplate::render, whether tools leave a trace or not.
text::Rendered render_any(const ModelTemplate& given, const json::Value& messages,
                          const json::Value& tools, bool add_generation_prompt,
                          const json::Object& extra) {
  constexpr const char* kParam = "messages";
  if (!given.parsed) throw Error(ErrorCode::invalid_data, given.info.error, kParam);
  try {
    return given.parsed->render(messages, tools, add_generation_prompt, extra);
  } catch (const Error& error) {
    throw Error(error.code(), named(given.info.name, error.what()),
                error.param().empty() ? kParam : error.param());
  }
}

}  // namespace

text::Rendered ModelTemplate::render(const json::Value& messages, const json::Value& tools,
                                     bool add_generation_prompt, const json::Object& extra) const {
  text::Rendered result = render_any(*this, messages, tools, add_generation_prompt, extra);
  const bool any_tools = tools.is_array() && !tools.get_array().empty();
  const text::Capabilities& capabilities = parsed->capabilities();
  // Who was trained on calls may hear of the tools in a message.
  if (!any_tools || capabilities.tools || capabilities.tool_calls) return result;
  // That was found with a plain question; what this chat has may bring the tools out.
  std::string without;
  try {
    without = render_any(*this, messages, {}, add_generation_prompt, extra).text;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.code() == ErrorCode::resource_exhausted) throw;
    return result;  // it needs them
  }
  if (result.text != without) return result;
  throw Error(ErrorCode::unsupported,
              info.name +
                  " shows the model no tools, so that it cannot call any; leave tools out, or "
                  "send tool_choice \"none\"",
              "tools");
}

ChatTemplateSource read_template_file(const std::filesystem::path& path) {
  if (path.extension() == ".json") {
    fail(ErrorCode::invalid_argument,
         "{} is JSON and no template: save what its chat_template says as a .jinja file",
         path.string());
  }
  const int64_t longest = text::jinja::Limits().source_bytes;
  std::error_code unknown;  // then the mapping tells why
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, unknown));
  if (!unknown && size > longest) {
    fail(ErrorCode::resource_exhausted, "{}{} has {} bytes; the limit is {}", kSubject,
         path.string(), size, longest);
  }
  std::string text;
  if (unknown || size > 0) {
    const MappedFile file(path);
    text.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
  text = template_text(text, path.string());
  if (is_blank(text)) fail(ErrorCode::not_found, "{} is empty: fetch it again", path.string());
  check_is_fetched(text, path.string());
  return {std::move(text), path.filename().string()};
}

ModelTemplate make_model_template(ChatTemplateSource source, std::string subject,
                                  const TemplateTokens& tokens) {
  ModelTemplate result;
  TemplateInfo& info = result.info;
  info.name = std::move(subject);
  info.source = std::move(source.text);
  if (!source.fault.empty()) {
    info.error = info.name + " does not work: " + source.fault;
    return result;
  }
  try {
    result.parsed.emplace(info.source.empty() ? std::string(text::default_template()) : info.source,
                          tokens.bos, tokens.eos);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    info.error = named(info.name, error.what());  // what needs no chats works all the same
    return result;
  }
  info.capabilities = result.parsed->capabilities().describe();
  const auto sentence = [&](const std::string& said) {
    return said.empty() ? std::string() : info.name + " " + said;
  };
  info.refusal = sentence(refusal_of(*result.parsed));
  info.doubt = sentence(result.parsed->doubt());
  info.unknown_names = sentence(result.parsed->unknown_names());
  return result;
}

std::optional<ModelTemplate> read_tool_template(const weights::Checkpoint& checkpoint,
                                                const TemplateTokens& tokens, TemplateInfo& info) {
  ChatTemplateSource source = read_chat_template(checkpoint, "tool_use");
  if (source.text.empty()) return std::nullopt;
  const std::string subject = template_subject(checkpoint, "tool_use ", source);
  ModelTemplate made = make_model_template(std::move(source), subject, tokens);
  info.tool_error = made.info.error;
  if (!made.parsed) return std::nullopt;
  info.tool_doubt = made.info.doubt;
  info.tool_unknown_names = made.info.unknown_names;
  info.capabilities = made.info.capabilities;
  return made;
}

std::string template_subject(const weights::Checkpoint& checkpoint, std::string_view which,
                             const ChatTemplateSource& source) {
  constexpr size_t kLongest = 100;  // bytes: a file may give its model a name of any length
  std::string name = display_name(checkpoint);
  if (name.size() > kLongest) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<uint8_t>(name[end]) & 0xC0) == 0x80) --end;  // whole ones
    name.replace(end, std::string::npos, "…");
  }
  return fmt::format(
      "{}{}of {} ({})", kSubject, which, name,
      source.text.empty() && source.fault.empty() ? "ChatML, as it has none" : source.place);
}

}  // namespace api

bool is_template_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".jinja" && std::filesystem::is_regular_file(path, ignored);
}

bool has_template_file(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"})
    if (std::filesystem::is_regular_file(folder / name, ignored)) return true;
  return false;
}

TemplateInfo read_template(const std::filesystem::path& path) {
  if (is_template_file(path)) {
    return api::make_model_template(api::read_template_file(path),
                                    "the chat template " + path.string(), {})
        .info;
  }
  const auto folder = api::open_model(path, weights::Contents::no_weights);
  api::ChatTemplateSource source = api::read_chat_template(*folder);
  if (!source.fault.empty()) throw Error(ErrorCode::invalid_data, source.fault);
  if (source.text.empty()) fail(ErrorCode::not_found, "{} has no chat template", path.string());
  const std::string subject = api::template_subject(*folder, "", source);
  TemplateInfo info = api::make_model_template(std::move(source), subject, {}).info;
  (void)api::read_tool_template(*folder, {}, info);
  return info;
}

}  // namespace hasten
