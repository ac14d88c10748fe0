// SPDX-License-Identifier: Apache-2.0
// Fuzzes the answer parsers: the first byte picks the format, the second how the rest is cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/tool_calls.h"

namespace {

using hasten::ChatEvent;
using namespace hasten::text;

/// Everything that comes of an answer, cut into pieces of `chunk` bytes.
std::string parsed(const AnswerFormat& format, std::string_view text, size_t chunk) {
  const auto parser = make_answer_parser(format, 1);
  std::string content, reasoning, calls;
  int32_t num_calls = 0;
  const auto take = [&](const std::vector<ChatEvent>& events) {
    for (const ChatEvent& event : events) {
      if (event.kind == ChatEvent::Kind::content) content += event.text;
      if (event.kind == ChatEvent::Kind::reasoning) reasoning += event.text;
      if (event.kind == ChatEvent::Kind::tool_call) {
        if (event.index != num_calls++ || event.name.empty() || event.id.empty()) std::abort();
        calls += "\n" + event.name + " ";
      }
      if (event.kind == ChatEvent::Kind::tool_arguments) {
        if (event.index != num_calls - 1) std::abort();
        calls += event.text;
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += chunk) take(parser->push(text.substr(at, chunk)));
  take(parser->finish());
  return content + "\x01" + reasoning + "\x01" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr int kFormats = static_cast<int>(ToolCallFormat::harmony) + 1;
  AnswerFormat format{.tool_calls = static_cast<ToolCallFormat>(data[0] % kFormats)};
  format.reasoning = (data[1] & 0x80) != 0;
  format.reasoning_format = static_cast<ReasoningFormat>(data[1] % 5);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t chunk = 1 + (data[1] & 0x0F);
  if (parsed(format, text, chunk) != parsed(format, text, text.size() + 1)) std::abort();
  return 0;
}
