// SPDX-License-Identifier: Apache-2.0
// Counts as people read them, and what terminals obey taken out of text.
#include "cli/words.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "server/openai_json.h"

namespace hasten::cli {
namespace {

/// Nested no deeper than what json::parse let in.
void write_json(const json::Value& value, std::string& out) {
  const char* comma = "";
  if (const auto* number = value.if_double()) {
    out += std::isfinite(*number) ? fmt::format("{}", *number) : "null";
  } else if (const auto* items = value.if_array()) {
    out += '[';
    for (const json::Value& item : *items) {
      out += std::exchange(comma, ",");
      write_json(item, out);
    }
    out += ']';
  } else if (const auto* object = value.if_object()) {
    out += '{';
    for (const auto& [key, field] : *object) {
      out += std::exchange(comma, ",");
      out += json::serialize(json::Value(key)) + ":";
      write_json(field, out);
    }
    out += '}';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string count_text(int64_t count) {
  constexpr std::array<std::string_view, 5> kUnits = {"", " K", " M", " B", " T"};
  auto value = static_cast<double>(count);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, kUnits[unit]);
}

std::string json_text(const json::Value& value) {
  std::string text;
  write_json(value, text);
  return text;
}

std::string safe_text(std::string_view text, bool keep_newlines) {
  const std::string utf8 = server::to_utf8(text);
  std::string result;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    // U+0080 to U+009F, which some terminals obey too, are C2 and the number itself.
    const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(utf8[i + 1]) < 0xA0;
    if ((byte < 0x20 && !(keep_newlines && byte == '\n')) || byte == 0x7F || is_c1) {
      result += "\xEF\xBF\xBD";
      i += is_c1 ? 1 : 0;
    } else {
      result += utf8[i];
    }
  }
  return result;
}

}  // namespace hasten::cli
