// SPDX-License-Identifier: Apache-2.0
// Upper, lower and title case of characters, as Unicode's full case mappings have it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hasten::text::jinja {

enum class CaseMapping { upper, lower, title, fold };

/// Appends the character in another case, which may be several characters ("ß" to "SS"). Folded, as
/// Unicode's full case folding has it, are equal what differs in case only ("ß" to "ss").
void append_case(std::string& out, uint32_t code_point, CaseMapping mapping);

namespace tables {

/// first, first + step, … up to last are mapped to themselves + delta.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t delta;
};

/// A character that becomes several, as UTF-8.
struct CaseExpansion {
  uint32_t code_point;
  std::string_view to;
};

// Generated; each sorted by its first field. Title case is upper case but for the exceptions.
extern const std::span<const CaseRun> kUpperRuns, kLowerRuns, kTitleRuns;
extern const std::span<const CaseExpansion> kUpperExpansions, kLowerExpansions, kTitleExpansions;

}  // namespace tables
}  // namespace hasten::text::jinja
