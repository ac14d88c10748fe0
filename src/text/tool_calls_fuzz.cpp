// SPDX-License-Identifier: Apache-2.0
// Fuzzes the answer parsers: the first byte picks the format and whether special tokens are shown,
// the second how the rest is cut, the third which marks are control tokens.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/blanks.h"
#include "text/json_scanner.h"
#include "text/tool_call_syntax.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

namespace {

using hasten::ChatEvent;
using hasten::SpecialToken;
using namespace hasten::text;

/// Text with special tokens, which are left out of it unless they are shown.
struct Answer {
  std::string text;
  std::vector<SpecialToken> special;
};

/// In the fuzzed bytes each special token stands between 02 and 03.
Answer read_answer(std::string_view bytes, bool shown) {
  Answer answer;
  while (!bytes.empty()) {
    const size_t open = std::min(bytes.find('\x02'), bytes.size());
    answer.text += bytes.substr(0, open);
    bytes.remove_prefix(open);
    const size_t close = bytes.find('\x03');
    if (close == std::string_view::npos) break;
    const std::string name(bytes.substr(1, close - 1));
    answer.special.push_back({static_cast<int64_t>(answer.text.size()), name, shown});
    if (shown) answer.text += name;
    bytes.remove_prefix(close + 1);
  }
  return answer;
}

/// The offered tools: f takes a string s and an integer n.
std::shared_ptr<const ToolSchemas> tools() {
  static const auto kTools = std::make_shared<const ToolSchemas>(hasten::json::parse(
      R"([{"function": {"name": "f", "parameters": {"properties":
          {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])",
      "tools"));
  return kTools;
}

std::string decode_all(std::string_view bytes) {
  std::string text;
  Utf8Assembler assembler;
  assembler.append(bytes, text);
  assembler.flush(text);
  return text;
}

/// Aborts unless the arguments of a call are JSON, or the beginning of some where the call is cut
/// off or breaks.
void check_arguments(const AnswerFormat& format, std::string_view arguments) {
  // gpt-oss's are what stands in its message.
  if (format.tool_calls == ToolCallFormat::harmony) return;
  JsonScanner scanner;
  auto status = JsonScanner::Status::more;
  for (const char c : arguments) {
    if (status == JsonScanner::Status::done && !is_blank(c)) std::abort();
    if (status == JsonScanner::Status::more) status = scanner.feed(c);
    if (status == JsonScanner::Status::broken) std::abort();
  }
  const bool is_whole = status == JsonScanner::Status::done;
  const bool is_utf8 = decode_all(arguments) == arguments;
  // Half a surrogate pair is JSON to the scanner, and to clients.
  if (!is_whole || !is_utf8 || arguments.find("\\u") != std::string_view::npos) return;
  (void)hasten::json::parse(arguments, "arguments");
}

/// Everything that comes of an answer, cut into pieces of `chunk` bytes.
std::string parsed(const AnswerFormat& format, const Answer& answer, size_t chunk) {
  const auto parser = make_answer_parser(format, tools(), 1);
  std::string content, reasoning, calls;
  std::vector<std::string> arguments;
  int32_t num_calls = 0;
  const auto take = [&](const std::vector<ChatEvent>& events) {
    for (const ChatEvent& event : events) {
      if (event.kind == ChatEvent::Kind::content) content += event.text;
      if (event.kind == ChatEvent::Kind::reasoning) reasoning += event.text;
      if (event.kind == ChatEvent::Kind::tool_call) {
        if (event.index != num_calls++ || event.name.empty() || event.id.empty()) std::abort();
        calls += "\n" + event.name + " ";
        arguments.emplace_back();
      }
      if (event.kind == ChatEvent::Kind::tool_arguments) {
        if (event.index != num_calls - 1) std::abort();
        calls += event.text;
        arguments.back() += event.text;
      }
    }
  };
  auto next = answer.special.begin();
  for (size_t at = 0, end = 0; at < answer.text.size() || next != answer.special.end(); at = end) {
    end = std::min(at + chunk, answer.text.size());
    std::vector<SpecialToken> special;
    for (; next != answer.special.end() && next->offset <= static_cast<int64_t>(end); ++next) {
      const auto offset = static_cast<size_t>(next->offset);
      // A token's text comes whole.
      if (next->shown) end = std::max(end, offset + next->name.size());
      special.push_back({static_cast<int64_t>(offset - at), next->name, next->shown});
    }
    take(parser->push(std::string_view(answer.text).substr(at, end - at), special));
  }
  take(parser->finish());
  for (const std::string& of_call : arguments) check_arguments(format, of_call);
  return content + "\x01" + reasoning + "\x01" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  constexpr int kFormats = static_cast<int>(ToolCallFormat::harmony) + 1;
  AnswerFormat format{.tool_calls = static_cast<ToolCallFormat>((data[0] & 0x7F) % kFormats)};
  format.reasoning = (data[1] & 0x80) != 0;
  format.reasoning_format = static_cast<ReasoningFormat>(data[1] % 6);
  format.reads_calls = (data[1] & 0x70) != 0x70;
  const auto marks = format_marks(format);
  for (size_t i = 0; i < marks.size(); ++i) {
    if ((data[2] >> (i % 8) & 1) != 0 && !marks[i].empty())
      format.control_tokens.emplace_back(marks[i]);
  }
  const bool shown = (data[0] & 0x80) != 0;
  const Answer answer = read_answer({reinterpret_cast<const char*>(data) + 3, size - 3}, shown);
  const size_t chunk = 1 + (data[1] & 0x0F);
  if (parsed(format, answer, chunk) != parsed(format, answer, answer.text.size() + 1)) std::abort();
  return 0;
}
