// SPDX-License-Identifier: Apache-2.0
// Finds a literal pattern as an expression would.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/regex/match.h"

namespace hasten::text {

/// Appends all occurrences of `wanted` from the front on, none of which overlap. An empty one is
/// nowhere.
inline void find_literal(std::string_view text, std::string_view wanted,
                         std::vector<regex::Match>& matches) {
  if (wanted.empty()) return;
  for (size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos; at += wanted.size()) {
    matches.push_back({at, at + wanted.size()});
  }
}

}  // namespace hasten::text
