// SPDX-License-Identifier: Apache-2.0
// Finds in a text the tokens that are matched by their names, before anything is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
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

class TextNormalizer;

/// Tokens that are looked for in a text by their names. Const after construction: any thread.
class AddedTokens {
 public:
  struct Match {
    size_t begin = 0;  // bytes of the text, white space that the token swallows included
    size_t end = 0;
    int32_t id = -1;
  };

  /// Control, unknown and user-defined tokens, for a text as it is written; the unknown one only
  /// where the file does not list what is added. Borrows `vocabulary`.
  /// Throws Error{invalid_data} for a rule with an id outside.
  AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  /// User-defined tokens that are matched in normalized text, their names written as `normalizer`,
  /// or none, writes them. Throws likewise.
  AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary,
              const TextNormalizer* normalizer);

  bool empty() const { return patterns_.empty(); }

  class Search;

  /// The token of exactly this name.
  std::optional<int32_t> find(std::string_view name) const;

 private:
  AddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary,
              const std::vector<PrefixMatcher::Name>& names, const TextNormalizer* normalizer);
  void take_rules(const TokenizerSpec& spec);

  const Vocabulary& vocabulary_;
  std::deque<std::string> spellings_;  // what both view, where that is not the vocabulary
  PrefixMatcher names_;                // as they are written in the file
  PrefixMatcher patterns_;             // as they are written in the text
  std::unordered_map<int32_t, AddedTokenRule> rules_;
};

/// Looks for added tokens in one text, from its front to its end. Borrows all three. One thread.
class AddedTokens::Search {
 public:
  Search(const AddedTokens& tokens, std::string_view text, const ControlFilter& filter)
      : tokens_(tokens), text_(text), filter_(filter), names_(tokens.patterns_, text) {}

  /// The first match that begins at `from` or later: the leftmost, of those the longest.
  std::optional<Match> next(size_t from);

 private:
  const AddedTokens& tokens_;
  std::string_view text_;
  const ControlFilter& filter_;
  PrefixMatcher::Search names_;
};

}  // namespace hasten::text
