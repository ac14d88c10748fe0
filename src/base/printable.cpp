// SPDX-License-Identifier: Apache-2.0
// Escaping for errors.
#include "base/printable.h"

#include <fmt/format.h>

namespace hasten {

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > kLongest ? "…\"" : "\"");
}

}  // namespace hasten
