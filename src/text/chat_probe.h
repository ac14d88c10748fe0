// SPDX-License-Identifier: Apache-2.0
// Finds out what a chat template can say by rendering small conversations with it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/chat_template.h"

namespace hasten::text {

/// Its functions throw Error{resource_exhausted} as soon as a conversation goes over a limit of
/// rendering: with all of them, a template that always does would take many seconds.
class Prober {
 public:
  explicit Prober(const ChatTemplate& chat) : chat_(chat) {}

  /// Renders about twenty conversations; a template that fails one cannot do what it asks for.
  /// Where it throws, `result` is what was found until then.
  void probe(Capabilities& result) const;
  /// Whether a question alone renders.
  bool renders() const;
  /// What it makes of chats that go on or begin with a system message, where a plain question
  /// renders, in the words of ChatTemplate::doubt; empty: what it should.
  std::string doubt(const Capabilities& capabilities) const;

 private:
  /// The rendered text; none if the template fails.
  std::optional<std::string> rendered(const json::Array& messages, const json::Value& tools = {},
                                      const json::Object& extra = {},
                                      bool add_generation_prompt = true) const;
  /// The same; empty if the template fails.
  std::string attempt(const json::Array& messages, const json::Value& tools = {},
                      const json::Object& extra = {}, bool add_generation_prompt = true) const;
  /// The same, with the tool described and, where the template fails on that, without.
  std::string attempt_call(const json::Array& messages) const;
  void probe_content(Capabilities& result) const;
  void probe_tools(Capabilities& result) const;
  void probe_reasoning(Capabilities& result) const;
  void probe_user(Capabilities& result) const;
  /// Text in the form that the template takes.
  json::Value content(std::string_view text, const Capabilities& so_far) const;

  const ChatTemplate& chat_;
};

}  // namespace hasten::text
