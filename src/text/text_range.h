// SPDX-License-Identifier: Apache-2.0
// Byte ranges of a text, and text that knows which of its bytes came from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hasten::text {

/// Bytes [begin, end) of a text.
struct TextRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TextRange&) const = default;
};

/// A prompt that a template made. The ranges of `literal` (sorted, disjoint, none empty) hold what
/// users, tools or requests wrote: no special token may be recognised where it overlaps one.
struct Rendered {
  std::string text;
  std::vector<TextRange> literal;
};

}  // namespace hasten::text
