// SPDX-License-Identifier: Apache-2.0
// Checks the messages and tools of a chat request.
#include "server/openai_messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/error.h"

namespace hasten::server {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
// Parts that other models read.
constexpr std::array<std::string_view, 12> kOtherMedia = {
    "image_url", "image", "input_image", "audio_url", "audio",      "input_audio",
    "video_url", "video", "input_video", "file",      "input_file", "document"};
constexpr int64_t kNameBytes = 256;  // of roles, tools and participants; OpenAI's limit is 64

void check_content(const Fields& message, const Limits& limits, bool may_be_absent) {
  const json::Value* content = message.find("content");
  const std::string path = message.path("content");
  if (content == nullptr) {
    if (!may_be_absent) fail_param(path, "{} is missing", path);
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) fail_param(path, "{} must be a string or an array of parts", path);
  const json::Array& parts = content->get_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part_path = item_path(path, i);
    const Fields part(read_object(parts[i], part_path), part_path);
    const std::string type_path = part.path("type");
    const std::string_view type = read_string(part.require("type"), type_path, kNameBytes);
    if (std::ranges::find(kOtherMedia, type) != kOtherMedia.end()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} is \"{}\"; this model reads text only", type_path, type),
                  type_path);
    }
    if (type != "text" && type != "refusal")
      fail_param(type_path, "{} is \"{}\"; what a model reads is a part of type \"text\"",
                 type_path, type);
    read_string(part.require(type), part.path(type), limits.body_bytes);
  }
}

void check_tool_calls(const Fields& message, const Limits& limits) {
  const json::Array* calls = message.array("tool_calls", limits.tools);
  if (calls == nullptr) return;
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const std::string path = item_path(message.path("tool_calls"), i);
    const Fields call(read_object((*calls)[i], path), path);
    call.string("id", kNameBytes);
    call.string("type", kNameBytes);
    const Fields function(read_object(call.require("function"), call.path("function")),
                          call.path("function"));
    read_string(function.require("name"), function.path("name"), kNameBytes);
    const json::Value* arguments = function.find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      fail_param(function.path("arguments"), "{} must be a string of JSON",
                 function.path("arguments"));
    }
  }
}

void check_message(const json::Value& value, const std::string& path, const Limits& limits) {
  const Fields message(read_object(value, path), path);
  const std::string_view role =
      read_string(message.require("role"), message.path("role"), kNameBytes);
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    fail_param(message.path("role"),
               "{} is \"{}\"; it must be system, developer, user, assistant or tool",
               message.path("role"), role);
  }
  // A turn of the assistant may consist of tool calls alone.
  check_content(message, limits, role == "assistant");
  check_tool_calls(message, limits);
  message.string("name", kNameBytes);
  message.string("tool_call_id", kNameBytes);
  message.string("reasoning", limits.body_bytes);
  message.string("reasoning_content", limits.body_bytes);
}

bool is_function_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
  });
}

void check_tool(const json::Value& value, const std::string& path, const Limits& limits) {
  const Fields tool(read_object(value, path), path);
  const std::string_view type = read_string(tool.require("type"), tool.path("type"), kNameBytes);
  if (type != "function") {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} is \"{}\"; only functions are supported", tool.path("type"), type),
                tool.path("type"));
  }
  const Fields function(read_object(tool.require("function"), tool.path("function")),
                        tool.path("function"));
  const std::string_view name =
      read_string(function.require("name"), function.path("name"), kNameBytes);
  if (!is_function_name(name)) {
    fail_param(function.path("name"),
               "{} is \"{}\"; it must be letters, digits and any of _-.:", function.path("name"),
               name);
  }
  function.string("description", limits.body_bytes);
  function.object("parameters");
  function.boolean("strict");
}

/// Whether tools are offered at all. Choosing one for the model needs constrained output.
bool tools_wanted(const Fields& body) {
  const json::Value* choice = body.find("tool_choice");
  if (choice == nullptr) return true;
  const std::string path = body.path("tool_choice");
  if (!choice->is_object()) {
    const std::string_view mode = read_string(*choice, path, kNameBytes);
    if (mode == "auto") return true;
    if (mode == "none") return false;
    if (mode != "required") {
      fail_param(path, "{} is \"{}\"; it must be \"auto\" or \"none\"", path, mode);
    }
  }
  throw Error(ErrorCode::unsupported,
              path + " must be \"auto\" or \"none\": calls cannot be enforced", path);
}

}  // namespace

Chat read_chat(const Fields& body, const Limits& limits) {
  Chat chat;
  const json::Array& messages =
      read_array(body.require("messages"), body.path("messages"), limits.messages);
  if (messages.empty()) fail_param("messages", "messages is empty; send at least one message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    check_message(messages[i], item_path("messages", i), limits);
  }
  chat.messages = json::serialize(messages);

  const json::Array* tools = body.array("tools", limits.tools);
  for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    check_tool((*tools)[i], item_path("tools", i), limits);
  }
  body.boolean("parallel_tool_calls");
  if (tools_wanted(body) && tools != nullptr && !tools->empty()) {
    chat.tools = json::serialize(*tools);
  }
  if (const json::Object* arguments = body.object("chat_template_kwargs")) {
    for (const char* field : {"messages", "tools"}) {
      if (arguments->contains(field))
        fail_param("chat_template_kwargs",
                   "chat_template_kwargs has \"{}\", which is a field of the request itself",
                   field);
    }
    chat.template_arguments = json::serialize(*arguments);
  }
  chat.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  // Some send it there, as apply_chat_template has it beside the template's own arguments.
  if (const json::Object* arguments = body.object("chat_template_kwargs"))
    chat.add_generation_prompt = Fields(*arguments, "chat_template_kwargs")
                                     .boolean("add_generation_prompt")
                                     .value_or(chat.add_generation_prompt);
  return chat;
}

}  // namespace hasten::server
