// SPDX-License-Identifier: Apache-2.0
// White space as JSON has it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hasten::text {

inline constexpr std::string_view kBlanks = " \t\r\n";

constexpr bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

/// How many blanks `text` begins with.
constexpr size_t num_blanks(std::string_view text) {
  return std::min(text.find_first_not_of(kBlanks), text.size());
}

/// Without the blanks around it.
constexpr std::string_view trimmed(std::string_view text) {
  text.remove_prefix(num_blanks(text));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace hasten::text
