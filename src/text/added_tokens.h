// SPDX-License-Identifier: Apache-2.0
// Finds in a text the tokens that are matched as they are written, before any other rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/prefix_matcher.h"
#include "text/text_range.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Where control tokens may be recognised in one text.
class ControlFilter {
 public:
  /// Nowhere unless `parse_special`, and nowhere that overlaps a range of `literal`. Throws
  /// Error{invalid_argument} for a range outside the `text_bytes` of the text.
  ControlFilter(bool parse_special, std::span<const TextRange> literal, size_t text_bytes);

  bool allows(size_t begin, size_t end) const;

 private:
  bool parse_special_;
  std::vector<TextRange> literal_;  // sorted, disjoint, none empty
};

/// Control, unknown and user-defined tokens by their names. Const after construction: any thread.
class AddedTokens {
 public:
  struct Match {
    size_t begin = 0;  // bytes of the text, white space that the token swallows included
    size_t end = 0;
    int32_t id = -1;
  };

  /// Borrows `vocabulary`. Throws Error{invalid_data} for a rule with an id outside.
  AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  /// The first match that begins at `from` or later: the leftmost, of those the longest.
  std::optional<Match> next(std::string_view text, size_t from, const ControlFilter& filter) const;
  /// The token of exactly this name.
  std::optional<int32_t> find(std::string_view name) const;

 private:
  const Vocabulary& vocabulary_;
  PrefixMatcher names_;
  std::unordered_map<int32_t, AddedTokenRule> rules_;
};

}  // namespace hasten::text
