// SPDX-License-Identifier: Apache-2.0
// Finds out what an untyped argument is.
#include "text/tool_values.h"

#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "text/blanks.h"
#include "text/json_scanner.h"
#include "text/python_literal.h"

namespace hasten::text {
namespace {

using Status = JsonScanner::Status;

/// The type of JSON that is no string.
ValueTypes::Type type_of(std::string_view json) {
  switch (json[0]) {
    case '{':
      return ValueTypes::object;
    case '[':
      return ValueTypes::array;
    case 't':
    case 'f':
      return ValueTypes::boolean;
    case 'n':
      return ValueTypes::null;
    default:
      return json.find_first_of(".eE") == std::string_view::npos ? ValueTypes::integer
                                                                 : ValueTypes::number;
  }
}

}  // namespace

std::string unquoted(std::string_view literal) {
  try {
    const json::Value value = json::parse(literal, "string", {.max_bytes = std::ssize(literal)});
    return value.is_string() ? std::string(value.get_string()) : std::string();
  } catch (const Error&) {
    return {};
  }
}

bool is_other_json(std::string_view text) {
  JsonScanner scanner;
  if (text.empty() || text[0] == '"') return false;
  // A list of one element, since the scanner reads what has brackets.
  Status status = scanner.feed('[');
  for (const char c : text) {
    if (status != Status::more || (scanner.depth() == 1 && !scanner.in_string() && c == ','))
      return false;
    status = scanner.feed(c);
  }
  return scanner.feed(']') == Status::done;
}

std::string json_of_text(std::string_view text, ValueTypes types) {
  const std::string_view word = trimmed(text);
  const bool may_be_string = types.has(ValueTypes::string);
  if (is_other_json(word) && (types.has(type_of(word)) || !may_be_string)) return std::string(word);
  if (!may_be_string) {
    const std::optional<std::string> json = json_of_python(word);
    if (json && !json->starts_with('"') && types.has(type_of(*json))) return *json;
  }
  return json::serialize(json::Value(text));
}

}  // namespace hasten::text
