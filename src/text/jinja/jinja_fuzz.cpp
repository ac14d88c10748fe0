// SPDX-License-Identifier: Apache-2.0
// Fuzzes the Jinja interpreter: the input is a template, rendered with a small conversation.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/jinja/template.h"

namespace {

using hasten::Error;
using hasten::ErrorCode;
using hasten::json::Object;
using hasten::text::TextRange;
using namespace hasten::text::jinja;

const Object& variables() {
  static const Object made =
      hasten::json::parse(R"({"messages": [{"role": "system", "content": "S é"},
        {"role": "user", "content": "<|u|> 'q' \"d\"\n"}, {"role": "assistant", "content": null,
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}],
        "tools": [{"name": "f", "n": 3}], "s": " ab cd ", "n": 5, "e": []})",
                          "variables")
          .as_object();
  return made;
}

Options options() {
  Options result;
  // Small budgets keep each input fast; the time limit stays out, since it is not deterministic.
  result.limits = {.source_bytes = 1 << 16,
                   .parse_bytes = 1 << 23,
                   .steps = 20'000,
                   .output_bytes = 1 << 16,
                   .memory_bytes = 1 << 22,
                   .time_us = INT64_MAX,
                   .depth = 60};
  result.unix_time_s = [] { return int64_t{0}; };
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Template parsed(std::string(reinterpret_cast<const char*>(data), size), options());
    const Object trusted{{"bos_token", "<s>"}};
    const auto rendered = parsed.render({.trusted = &trusted, .untrusted = &variables()});
    int64_t at = 0;
    for (const TextRange& range : rendered.literal) {
      if (range.begin < at || range.begin >= range.end) std::abort();
      at = range.end;
    }
    if (at > static_cast<int64_t>(rendered.text.size())) std::abort();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) std::abort();
  }
  return 0;
}
