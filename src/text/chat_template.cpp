// SPDX-License-Identifier: Apache-2.0
// Brings conversations into the form that a template takes, and renders them.
#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/chat_probe.h"

namespace hasten::text {
namespace {

// Templates build markers out of role names ('<|' + role + '|>'), so these count as their own
// text. Any other role is the user's, and cannot become part of a special token.
constexpr std::array<std::string_view, 15> kKnownRoles = {
    "assistant",   "bot",      "context", "critic",        "developer",
    "environment", "function", "human",   "ipython",       "model",
    "observation", "system",   "tool",    "tool_response", "user"};

bool is_known_role(std::string_view key, std::string_view text) {
  return key == "role" &&
         std::find(kKnownRoles.begin(), kKnownRoles.end(), text) != kKnownRoles.end();
}

/// The text of a list of content parts, one line break between two.
json::Value joined_parts(const json::Array& parts, const std::string& field) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const json::Object* part = parts[i].if_object();
    if (part == nullptr) fail_param(name, "{} must be an object", name);
    const json::Value* type = part->if_contains("type");
    const json::Value* content = part->if_contains("text");
    if (type == nullptr || !type->is_string() || type->get_string() != "text") {
      fail_param(name + ".type", "{}.type must be \"text\": the model's template takes text only",
                 name);
    }
    if (content == nullptr || !content->is_string())
      fail_param(name + ".text", "{}.text must be a string", name);
    if (i > 0) text += '\n';
    text += std::string_view(content->get_string());
  }
  return json::Value(text);
}

/// Brings messages into the form that the template takes. One conversation.
class Conversation {
 public:
  explicit Conversation(const Capabilities& capabilities) : takes_(capabilities) {}

  json::Value adapt(json::Value messages) const {
    if (!messages.is_array()) fail_param("messages", "messages must be an array");
    json::Array& list = messages.get_array();
    for (size_t i = 0; i < list.size(); ++i) adapt_message(list[i], fmt::format("messages[{}]", i));
    return messages;
  }

 private:
  void adapt_message(json::Value& value, const std::string& name) const {
    json::Object* message = value.if_object();
    if (message == nullptr) fail_param(name, "{} must be an object", name);
    const json::Value* role = message->if_contains("role");
    if (role == nullptr || !role->is_string())
      fail_param(name + ".role", "{}.role must be a string", name);
    // Servers answer with an empty list, which clients send back and templates take for calls.
    if (const json::Value* calls = message->if_contains("tool_calls")) {
      const json::Array* list = calls->if_array();
      if (calls->is_null() || (list != nullptr && list->empty())) message->erase("tool_calls");
    }
    adapt_content((*message)["content"], message->contains("tool_calls"), name + ".content");
    if (json::Value* calls = message->if_contains("tool_calls"))
      adapt_calls(*calls, name + ".tool_calls");
    // What clients call reasoning_content, some templates call otherwise.
    const json::Value* reasoning = message->if_contains("reasoning_content");
    if (reasoning != nullptr && !takes_.reasoning_key.empty() &&
        !message->contains(takes_.reasoning_key) && takes_reasoning(*message)) {
      json::Value copy = *reasoning;
      (*message)[takes_.reasoning_key] = std::move(copy);
    }
  }

  // Where a template takes no reasoning, a turn goes without: so it does under the client's name.
  bool takes_reasoning(const json::Object& message) const {
    if (!message.contains("tool_calls")) return !takes_.reasoning_with_calls;
    const json::Value& content = message.at("content");
    const json::String* text = content.if_string();
    const bool is_empty = content.is_null() || (text != nullptr && text->empty());
    return is_empty || !takes_.reasoning_or_content;
  }

  void adapt_content(json::Value& content, bool has_calls, const std::string& name) const {
    if (content.is_null()) content = "";
    const bool is_empty = content.is_string() && content.get_string().empty();
    if (is_empty && has_calls && takes_.null_content) {
      content = nullptr;
      return;
    }
    if (json::Array* parts = content.if_array()) {
      if (!takes_.typed_content) content = joined_parts(*parts, name);
    } else if (!content.is_string()) {
      fail_param(name, "{} must be a string or an array of parts", name);
    } else if (!takes_.string_content) {
      json::Value text = std::move(content);
      content = json::Array{json::Object{{"type", "text"}, {"text", std::move(text)}}};
    }
  }

  void adapt_calls(json::Value& calls, const std::string& name) const {
    json::Array* list = calls.if_array();
    if (list == nullptr) fail_param(name, "{} must be an array", name);
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string call_name = fmt::format("{}[{}]", name, i);
      json::Object* call = (*list)[i].if_object();
      if (call == nullptr) fail_param(call_name, "{} must be an object", call_name);
      json::Value* function = call->if_contains("function");
      json::Object* described = function != nullptr ? function->if_object() : call;
      if (described == nullptr)
        fail_param(call_name + ".function", "{}.function must be an object", call_name);
      if (json::Value* arguments = described->if_contains("arguments"))
        adapt_arguments(*arguments, call_name + ".function.arguments");
    }
  }

  void adapt_arguments(json::Value& arguments, const std::string& name) const {
    json::Value value = arguments;
    int num_read = 0;  // texts, one in the other: some clients write as JSON what is JSON
    try {
      for (; num_read < 2 && value.is_string(); ++num_read) {
        const std::string text(value.get_string());
        value = text.empty() ? json::Value() : json::parse(text, name);
      }
    } catch (const Error& error) {
      // An answer that was cut has such arguments, and clients send them back.
      if (!takes_.object_arguments) return;
      fail_param(name, "{}", error.what());
    }
    const bool is_text_of_object = num_read == 1 && value.is_object();
    if (value.is_null()) value = json::Object();
    if (!value.is_object()) {
      if (!takes_.object_arguments && arguments.is_string()) return;  // text is what it takes
      fail_param(name, "{} must be a JSON object, as text or as it is", name);
    }
    if (takes_.object_arguments) {
      arguments = std::move(value);
    } else if (!is_text_of_object) {
      arguments = json::serialize(value);
    }
  }

  const Capabilities& takes_;
};

constexpr std::string_view kChatMl =
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

// The turns that RWKV's world models were trained with. They end with two line breaks.
constexpr std::string_view kRwkvWorld =
    "{%- for message in messages -%}"
    "{%- set name = {'system': 'System', 'user': 'User', 'assistant': 'Assistant'} -%}"
    "{%- if message.role not in name -%}"
    "{{- raise_exception('this model knows the roles system, user and assistant') -}}"
    "{%- endif -%}"
    "{{- name[message.role] + ': ' + message.content | trim + '\n\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%}";

}  // namespace

std::string Capabilities::describe() const {
  const std::string calls = fmt::format("tool calls ({})", tool_call_format_name(call_format));
  const std::pair<bool, std::string_view> named[] = {
      {system_role, "system role"},
      {tools, "tools"},
      {tool_calls, calls},
      {parallel_tool_calls, "parallel tool calls"},
      {tool_results, "tool results"},
      {typed_content, "typed content"},
      {reasoning, "reasoning"},
      {!reasoning_key.empty(), "reasoning of earlier turns"},
      {thinking_switch, "enable_thinking"},
      {generation_prompt, "generation prompt"},
  };
  std::string result;
  for (const auto& [present, name] : named) {
    if (!present) continue;
    if (!result.empty()) result += ", ";
    result += name;
  }
  return result;
}

std::string ChatTemplate::unknown_names() const {
  const auto unknown = template_.unknown_names();
  if (unknown.empty()) return {};
  const jinja::UnknownName& first = unknown.front();
  std::string result =
      fmt::format("uses the {} {} in line {}", first.what, printable(first.name), first.line);
  const size_t others = unknown.size() - 1;
  if (others > 0) result += fmt::format(" and {} more name{}", others, others > 1 ? "s" : "");
  return result + ", which this hasten does not know: chats that get there are refused";
}

ChatTemplate::ChatTemplate(std::string source, std::string bos_token, std::string eos_token,
                           jinja::Options options)
    : template_(std::move(source), std::move(options)),
      tokens_{{"bos_token", bos_token}, {"eos_token", eos_token}} {
  try {
    probe();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    std::string_view why = error.what();
    if (constexpr std::string_view kSubject = "the chat template "; why.starts_with(kSubject))
      why.remove_prefix(kSubject.size());
    doubt_ = fmt::format("was tried no further, as in a chat of a few words it {}", why);
  }
}

void ChatTemplate::probe() {
  const Prober prober(*this);
  if (!prober.renders()) {
    omits_null_tools_ = true;
    omits_null_tools_ = prober.renders();
  }
  prober.probe(capabilities_);
  doubt_ = prober.doubt(capabilities_);
}

Rendered ChatTemplate::render(const json::Value& messages, const json::Value& tools,
                              bool add_generation_prompt, const json::Object& extra) const {
  if (!tools.is_null() && !tools.is_array()) fail_param("tools", "tools must be an array");
  const bool any_tools = tools.is_array() && !tools.get_array().empty();
  return render_as_given(Conversation(capabilities_).adapt(messages),
                         any_tools ? tools : json::Value(), add_generation_prompt, extra);
}

Rendered ChatTemplate::render_as_given(json::Value messages, const json::Value& tools,
                                       bool add_generation_prompt,
                                       const json::Object& extra) const {
  json::Object variables = extra;
  for (const auto& [name, value] : tokens_) variables.erase(name);
  variables["messages"] = std::move(messages);
  variables["tools"] = tools;
  if (tools.is_null() && omits_null_tools_) variables.erase("tools");
  variables["add_generation_prompt"] = add_generation_prompt;
  if (!variables.contains("documents")) variables["documents"] = nullptr;
  return template_.render(
      {.trusted = &tokens_, .untrusted = &variables, .is_trusted = is_known_role});
}

std::string_view default_template() { return kChatMl; }

std::string_view named_template(std::string_view name) {
  return name == "rwkv-world" ? kRwkvWorld : std::string_view();
}

}  // namespace hasten::text
