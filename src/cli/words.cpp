// SPDX-License-Identifier: Apache-2.0
// Counts as people read them, and what terminals obey taken out of text.
#include "cli/words.h"

#include <fmt/format.h>

#include <algorithm>
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

/// The code point of a well-formed sequence.
char32_t code_point(std::string_view sequence) {
  constexpr std::array<unsigned, 5> kFirstMask = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t point = static_cast<unsigned char>(sequence[0]) & kFirstMask[sequence.size()];
  for (const char byte : sequence.substr(1))
    point = (point << 6U) | (static_cast<unsigned char>(byte) & 0x3FU);
  return point;
}

/// Control characters, spaces other than ' ', fillers, marks of direction and others that have no
/// shape, and what is for private use.
bool shows_nothing(char32_t point) {
  constexpr std::array<std::pair<char32_t, char32_t>, 22> kRanges = {
      {{0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},     {0x034F, 0x034F}, {0x061C, 0x061C},
       {0x115F, 0x1160},   {0x1680, 0x1680},   {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x2000, 0x200F},
       {0x2028, 0x202F},   {0x205F, 0x206F},   {0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164},
       {0xE000, 0xF8FF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF9, 0xFFFB},
       {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}}};
  return std::any_of(kRanges.begin(), kRanges.end(), [point](const auto& range) {
    return point >= range.first && point <= range.second;
  });
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

std::string escaped_bytes(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes)
    result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return result;
}

std::string escaped_text(std::string_view bytes) {
  constexpr std::string_view kNamed = "\n\r\t\"\\";
  constexpr std::string_view kNames = "nrt\"\\";
  std::string result;
  while (!bytes.empty()) {
    const size_t length = server::sequence_length(bytes);
    const std::string_view next = bytes.substr(0, std::max<size_t>(1, length));
    bytes.remove_prefix(next.size());
    const size_t named = kNamed.find(next[0]);
    if (length == 0) {
      result += escaped_bytes(next);
    } else if (named != std::string_view::npos) {
      (result += '\\') += kNames[named];
    } else if (const char32_t point = code_point(next); shows_nothing(point)) {
      result += point > 0xFFFF ? fmt::format("\\U{:08x}", static_cast<uint32_t>(point))
                               : fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      result += next;
    }
  }
  return result;
}

}  // namespace hasten::cli
