// SPDX-License-Identifier: Apache-2.0
// Where an expression matches.
#pragma once

#include <cstddef>

namespace hasten::text::regex {

/// Bytes [begin, end) of a text.
struct Match {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Match&) const = default;
};

}  // namespace hasten::text::regex
