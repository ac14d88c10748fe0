// SPDX-License-Identifier: Apache-2.0
// Finds out what an untyped argument is.
#include "text/tool_values.h"

#include <algorithm>

#include "text/json_scanner.h"

namespace hasten::text {
namespace {

using Status = JsonScanner::Status;

/// The type of what is_other_json.
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
  return status == Status::more && scanner.depth() == 1 && scanner.feed(']') == Status::done;
}

std::string json_of_text(std::string_view text, ValueTypes types) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::string_view word = text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
  const bool may_be_string = types.has(ValueTypes::string);
  if (is_other_json(word) && (types.has(type_of(word)) || !may_be_string)) return std::string(word);
  if (!may_be_string && types.has(ValueTypes::boolean) && word == "True") return "true";
  if (!may_be_string && types.has(ValueTypes::boolean) && word == "False") return "false";
  if (!may_be_string && types.has(ValueTypes::null) && word == "None") return "null";
  return json::serialize(json::Value(text));
}

}  // namespace hasten::text
