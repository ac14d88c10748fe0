// SPDX-License-Identifier: Apache-2.0
// Escaping for errors.
#include "base/printable.h"

#include <fmt/format.h>

namespace hasten {

std::string printable(std::string_view text, size_t longest) {
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > longest ? "…\"" : "\"");
}

}  // namespace hasten
