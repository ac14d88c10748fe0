// SPDX-License-Identifier: Apache-2.0
// Looks for the marks of calls and reasoning in text that may only quote them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/marked_text.h"

namespace hasten::text {

/// Finds marks in an answer. Where one has a control token's name in it, those bytes must come from
/// special tokens: else any text that a model quotes could call a tool.
class MarkFinder {
 public:
  explicit MarkFinder(std::vector<std::string> control_tokens)
      : control_tokens_(std::move(control_tokens)) {}

  /// Whether `mark` stands at a place of the text.
  bool is_at(const MarkedText& text, size_t at, std::string_view mark) const;
  /// Whether the text ends at or behind `at` with what may be the start of `mark`, from `at` on.
  bool may_become(const MarkedText& text, size_t at, std::string_view mark) const;
  /// The first place of `mark` at or behind `from`, or npos. Looks at `limit` bytes of the text.
  size_t find(const MarkedText& text, std::string_view mark, size_t from = 0,
              size_t limit = std::string_view::npos) const;
  /// Whether the text ends with `mark`.
  bool ends(const MarkedText& text, std::string_view mark) const {
    return text.size() >= mark.size() && is_at(text, text.size() - mark.size(), mark);
  }
  /// The size of the mark of `marks` that the text ends with, or 0. A comma, which parts calls in a
  /// list, is none here.
  size_t ends_with_one_of(const MarkedText& text, std::span<const std::string_view> marks) const;
  /// How many bytes at the end of the text may be the start of `mark`.
  size_t partial_suffix(const MarkedText& text, std::string_view mark) const;

 private:
  /// Whether what is there of a mark that is spelled at a place comes from where it must.
  bool counts(const MarkedText& text, size_t at, std::string_view mark) const;

  const std::vector<std::string> control_tokens_;
};

}  // namespace hasten::text
