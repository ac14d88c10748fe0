// SPDX-License-Identifier: Apache-2.0
// Chat templates: a conversation in, the prompt that the model was trained to expect out.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/jinja/template.h"
#include "text/text_range.h"
#include "text/tool_calls.h"

namespace hasten::text {

/// What a template can say, found by rendering small conversations with it.
struct Capabilities {
  bool system_role = false;          // a system message reaches the prompt
  bool tools = false;                // descriptions of tools reach the prompt
  bool tool_calls = false;           // an earlier turn's calls reach the prompt
  bool parallel_tool_calls = false;  // several of them in one turn
  bool tool_results = false;         // messages of role "tool" reach the prompt
  bool string_content = false;       // content may be a string
  bool typed_content = false;        // content may be a list of parts {"type": "text", "text": …}
  bool object_arguments = false;     // takes a call's arguments as an object, not as JSON text
  bool null_content = false;         // a turn that only calls tools is given the content null
  bool thinking_switch = false;      // the variable enable_thinking changes the prompt
  bool reasoning = false;            // answers may begin with <think>…</think>, or its like
  bool generation_prompt = false;    // add_generation_prompt opens the assistant's turn
  bool ignores_users = false;        // renders, and the same prompt whatever a user says
  std::string_view reasoning_key;    // of a turn's earlier reasoning in its message; empty: unused
  // Where the key is not the clients' own:
  bool reasoning_or_content = false;  // a turn that calls tools takes one of the two, not both
  bool reasoning_with_calls = false;  // only there: it makes something else of other turns
  ToolCallFormat call_format = ToolCallFormat::none;  // in which answers write calls

  /// "system role, tools, tool calls (hermes), parallel tool calls", for people.
  std::string describe() const;
  bool operator==(const Capabilities&) const = default;
};

/// A model's chat template. Const after construction; any thread.
class ChatTemplate {
 public:
  /// Parses and probes; one that goes over a limit is probed no further. The tokens are their text
  /// ("<s>"), empty when the model has none. Throws Error{invalid_data} for a template that does
  /// not parse.
  ChatTemplate(std::string source, std::string bos_token, std::string eos_token,
               jinja::Options options = {});

  /// Renders `messages`, an array of {"role", "content", …} in the shape of OpenAI's chat API.
  /// `tools`: an array of tool descriptions, or null for none. `extra`: further variables
  /// (enable_thinking, …); they do not replace the ones above. Content and arguments are brought
  /// into the form that the template takes. All strings are literal in the result, except the
  /// names of well-known roles. Throws Error{invalid_argument} for what the template refuses and
  /// for malformed messages, naming the field; Error{resource_exhausted} when a limit is reached.
  Rendered render(const json::Value& messages, const json::Value& tools, bool add_generation_prompt,
                  const json::Object& extra = {}) const;

  const Capabilities& capabilities() const { return capabilities_; }
  std::string_view source() const { return template_.source(); }
  /// What makes it doubtful that the template does what it is for, in the words that follow "the
  /// chat template "; empty: nothing. Chats may render all the same.
  const std::string& doubt() const { return doubt_; }
  /// Which filters, tests and functions it uses that there are not, where not every chat gets, in
  /// such words; empty: none. Published templates name some where no chat ever gets.
  std::string unknown_names() const;

 private:
  Rendered render_as_given(json::Value messages, const json::Value& tools,
                           bool add_generation_prompt, const json::Object& extra) const;
  void probe();
  friend class Prober;

  jinja::Template template_;
  json::Object tokens_;  // bos_token and eos_token
  // Without tools there is no variable of that name, where one that is None would not do.
  bool omits_null_tools_ = false;
  Capabilities capabilities_;
  std::string doubt_;
};

/// The source of a template for models that come without one: ChatML.
std::string_view default_template();
/// The source of what files call by a name instead of carrying it ("rwkv-world"); empty for an
/// unknown one.
std::string_view named_template(std::string_view name);

}  // namespace hasten::text
