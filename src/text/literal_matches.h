// SPDX-License-Identifier: Apache-2.0
// Finds a literal pattern as an expression would.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "text/regex/match.h"

namespace hasten::text {

// Published patterns have a few characters. Each place of a text may be compared with all of them.
inline constexpr size_t kMaxLiteralBytes = 1024;

/// Throws Error{unsupported} for a pattern that would take too long to look for.
inline void check_literal(std::string_view wanted) {
  if (wanted.size() > kMaxLiteralBytes) {
    fail(ErrorCode::unsupported, "the tokenizer has a literal pattern of {} bytes; the limit is {}",
         wanted.size(), kMaxLiteralBytes);
  }
}

/// take(match) for all occurrences of `wanted` from the front on, none of which overlap, until it
/// answers false. An empty one is nowhere.
template <class Take>
void find_literal(std::string_view text, std::string_view wanted, const Take& take) {
  if (wanted.empty()) return;
  for (size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos; at += wanted.size()) {
    if (!take(regex::Match{at, at + wanted.size()})) return;
  }
}

}  // namespace hasten::text
