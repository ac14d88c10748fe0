// SPDX-License-Identifier: Apache-2.0
// Sets of code points: the classes and properties of regular expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hasten::text::regex {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

/// Both ends belong to it.
struct CodePointRange {
  uint32_t first;
  uint32_t last;
  bool operator==(const CodePointRange&) const = default;
};

/// Sorted ranges that neither overlap nor touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  /// In any order, overlapping or not.
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  explicit CodePointSet(uint32_t code_point) : ranges_{{code_point, code_point}} {}

  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t code_point) const;
  bool operator==(const CodePointSet&) const = default;

  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;

 private:
  std::vector<CodePointRange> ranges_;
};

/// \s: the property White_Space.
const CodePointSet& white_space();
/// \d: the general category Nd.
const CodePointSet& decimal_digits();
/// \w: letters, marks, decimal digits, letter numbers, connectors and what else is Alphabetic.
const CodePointSet& word_characters();

/// What \p{name} stands for: a general category ("L", "Lu", "Letter", "Uppercase_Letter"), a script
/// ("Han", "Script=Greek") or "Any"; case, spaces, hyphens and underscores do not count.
std::optional<CodePointSet> find_property(std::string_view name);

}  // namespace hasten::text::regex
