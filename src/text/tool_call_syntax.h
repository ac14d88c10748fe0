// SPDX-License-Identifier: Apache-2.0
// The marks around calls and reasoning, one row per format.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/mark_finder.h"
#include "text/marked_text.h"
#include "text/tool_call_readers.h"
#include "text/tool_calls.h"

namespace hasten::text {

/// How calls are set into an answer. Between two calls, and behind the last, blanks and `fillers`
/// go, each of those once, and the bracket that closes an array; a `reopens` begins another call,
/// but one of a single character parts calls and does so only within a list.
struct CallSyntax {
  std::string_view marker;  // opens the first call; empty: nothing does
  std::span<const std::string_view> reopens;
  std::span<const std::string_view> fillers;
  size_t num_call_ends = 0;          // of the fillers: behind the others only `marker` opens a call
  bool allows_array = false;         // of JSON objects, in brackets
  bool is_bare_list = false;         // calls are a list without brackets, too
  std::string_view opens_with = {};  // an answer that begins with one of these characters is a call
  bool is_json = true;
  bool name_is_key = false;  // {"name": {…}}, where JSON says the name otherwise
  HeadSyntax head = {};      // of a named call
  const TagSyntax* tags = nullptr;
  bool is_gemma = false;
  bool is_pythonic = false;  // unless an object of JSON stands in its place
};

const CallSyntax& call_syntax(ToolCallFormat format);

/// A reader for the call whose first character (blanks left out) is `first`. The others must
/// outlive it.
std::unique_ptr<CallReader> make_call_reader(const CallSyntax& syntax, const ToolSchemas& tools,
                                             const MarkFinder& finder, char first);

struct ReasoningMarks {
  std::string_view open;
  std::string_view close;
};
const ReasoningMarks& reasoning_marks(ReasoningFormat format);

/// All marks that a parser of `format` looks for.
std::vector<std::string_view> format_marks(const AnswerFormat& format);
/// Appends the next text of an answer and, hidden, those of the special tokens left out of it that
/// are part of a mark.
void append_answer(std::string_view text, std::span<const SpecialToken> special,
                   std::span<const std::string_view> marks, MarkedText& out);

/// Nine letters and digits, as the strictest templates want them.
std::string make_call_id(uint64_t seed, int32_t index);
/// The parser of gpt-oss's answers, which are messages in channels.
std::unique_ptr<ChatParser> make_harmony_parser(const AnswerFormat& format, uint64_t id_seed);
/// The marks of its answers.
std::span<const std::string_view> harmony_marks();

}  // namespace hasten::text
