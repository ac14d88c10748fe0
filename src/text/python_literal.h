// SPDX-License-Identifier: Apache-2.0
// Python's literals as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hasten::text {

/// The JSON of a literal: strings in any quotes, with escapes, raw or side by side; integers and
/// decimal fractions; True, False, None; lists, tuples (as lists) and dicts, nested. Inside these
/// JSON's true, false and null do too, since models mix both. Keys that are no strings become
/// strings of their JSON; fractions keep their digits, where json.dumps prints the value. Line
/// breaks may stand in any string, and text in front or behind is blank. Nothing for anything else:
/// names, operators, bytes, f-strings, sets, comments, \N{…}, complex numbers, numbers of more than
/// 64 characters, more than 64 levels. (The Python Language Reference 3.12, 2.4 and 6.2.)
std::optional<std::string> json_of_python(std::string_view literal);

}  // namespace hasten::text
