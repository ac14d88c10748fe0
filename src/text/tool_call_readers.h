// SPDX-License-Identifier: Apache-2.0
// Reads one tool call character by character, in each of the forms that models write.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "text/json_scanner.h"
#include "text/mark_finder.h"
#include "text/marked_text.h"
#include "text/tool_schemas.h"

namespace hasten::text {

/// One call. The arguments are JSON text. What a model writes as JSON is handed out as it comes;
/// what has to be turned into JSON, whole with the last character, so that a call that breaks
/// before has handed out nothing.
class CallReader {
 public:
  virtual ~CallReader() = default;
  /// `done` with the call's last character; `broken` where this is no call.
  virtual JsonScanner::Status feed(char c, MarkedText::Source source) = 0;
  /// Of what was fed to a call that is broken, how many bytes at the end are no part of it, the one
  /// that broke it at least: another may begin there.
  virtual size_t num_unused() const { return 1; }
  /// Whether the next character may be handed out as part of the arguments.
  virtual bool in_arguments() const { return has_arguments_; }

  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  bool has_arguments() const { return has_arguments_; }
  /// What the model said within the call's marks before the call: known with its name.
  const std::string& words_before() const { return words_before_; }
  /// Text of the arguments that has come since the last call of this.
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 protected:
  std::string words_before_;
  std::string name_;
  std::string id_;
  std::string arguments_;
  bool has_arguments_ = false;
};

// Longer than any function's name with the marks around it: what goes on is no call.
inline constexpr size_t kMaxCallHead = 512;

/// Letters, digits and _-.:/$, at least one.
bool is_function_name(std::string_view name);

/// Stands around strings in Gemma 4's calls.
inline constexpr std::string_view kGemmaQuote = "<|\"|>";

/// The marks of a call whose arguments stand one by one in tags.
struct TagSyntax {
  std::string_view name_open;   // words before it are no part of the call
  std::string_view name_close;  // empty: the name ends where a key or the call's end begins
  std::string_view key_open;
  std::string_view key_close;
  std::string_view value_open;  // empty: the value begins behind the key
  std::string_view value_close;
  std::string_view call_end;
  std::span<const std::string_view> begins = {};  // one of them may stand first
  std::string_view call_open = {};                // may stand right before name_open
};

/// The head of a call whose arguments are an object behind its name.
struct HeadSyntax {
  std::span<const std::string_view> noise = {};  // stands around the name
  bool name_is_last = false;                     // of two words; else the second is the id
  bool id_holds_name = false;                    // functions.name:0, Kimi's ids
};

// Marks within a call count as `finder`, which must outlive the reader, has it. One of `openers`
// where no value stands breaks the call: another begins.

/// {"name": …, "arguments": {…}}, with the other names that models have for both. Arguments may be
/// a string that holds an object's JSON.
std::unique_ptr<CallReader> make_json_call_reader();
/// {"name": {…}}, the name of the function.
std::unique_ptr<CallReader> make_keyed_call_reader();
/// A head with the name, then the arguments' object. `syntax` must outlive it.
std::unique_ptr<CallReader> make_named_call_reader(const MarkFinder& finder,
                                                   std::span<const std::string_view> openers,
                                                   const HeadSyntax& syntax);
/// Values are plain text: `tools` say of which type, unless string="true" or "false" behind the key
/// does. Of values of one key the last counts. Both must outlive the reader.
std::unique_ptr<CallReader> make_tagged_call_reader(const MarkFinder& finder,
                                                    std::span<const std::string_view> openers,
                                                    const TagSyntax& syntax,
                                                    const ToolSchemas& tools);
/// name(key="text", other=[1, True]); `tools`, which must outlive the reader, say of which type
/// values are whose quotes say nothing.
std::unique_ptr<CallReader> make_pythonic_call_reader(const ToolSchemas& tools);
/// call:name{key:<|"|>text<|"|>,other:[1,true]}, as Gemma 4 writes it.
std::unique_ptr<CallReader> make_gemma_call_reader(const MarkFinder& finder,
                                                   std::span<const std::string_view> openers);

}  // namespace hasten::text
