// SPDX-License-Identifier: Apache-2.0
// Values as text: Python's str() and repr(), and json.dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace hasten::text::jinja {

/// str(value), appended.
void print(TextBuilder& out, const Value& value);
/// repr(value), appended.
void print_repr(TextBuilder& out, const Value& value);
/// str(value); a string is returned as it is.
Value to_text(Runtime& rt, const Value& value);
/// Whether repr shows the character as it is.
bool is_printable(uint32_t code_point);
/// repr of a float: the shortest digits that read back equal.
std::string format_real(double value);

struct JsonStyle {
  std::optional<std::string> indent;  // of one level; nullopt: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};

/// json.dumps(value), appended; the contents of literal strings stay literal.
void print_json(TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace hasten::text::jinja
