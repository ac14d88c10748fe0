// SPDX-License-Identifier: Apache-2.0
// What becomes of a piece where a step has found matches in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/pre_tokenizer_steps.h"
#include "text/regex/match.h"

namespace hasten::text {

/// Cuts by the behavior of a step, which it borrows. One thread.
class PieceAppender {
 public:
  PieceAppender(const PreTokenizerStep& step, std::vector<regex::Match>& pieces)
      : step_(step), pieces_(pieces) {}

  /// Appends what the text [begin, end) becomes, cut at `matches`, which are relative to `begin`;
  /// no piece is empty.
  void append(size_t begin, size_t end, const std::vector<regex::Match>& matches) {
    first_ = pieces_.size();
    previous_matched_ = false;
    size_t at = begin;
    for (const regex::Match& match : matches) {
      if (at != begin + match.begin) add({at, begin + match.begin}, false);
      add({begin + match.begin, begin + match.end}, true);
      at = begin + match.end;
    }
    if (at != end) add({at, end}, false);
    if (step_.behavior == SplitBehavior::merged_with_next) merge_with_next();
    const auto is_empty = [](const regex::Match& piece) { return piece.begin == piece.end; };
    pieces_.erase(std::remove_if(pieces_.begin() + static_cast<std::ptrdiff_t>(first_),
                                 pieces_.end(), is_empty),
                  pieces_.end());
  }

 private:
  void add(regex::Match piece, bool is_match) {
    const bool matched = is_match != step_.invert;
    const bool any = pieces_.size() > first_;
    switch (step_.behavior) {
      case SplitBehavior::removed:
        if (!matched) pieces_.push_back(piece);
        return;
      case SplitBehavior::isolated:
        pieces_.push_back(piece);
        return;
      case SplitBehavior::merged_with_previous:
        if (any && matched && !previous_matched_) {
          pieces_.back().end = piece.end;
        } else {
          pieces_.push_back(piece);
        }
        break;
      case SplitBehavior::contiguous:
        if (any && matched == previous_matched_) {
          pieces_.back().end = piece.end;
        } else {
          pieces_.push_back(piece);
        }
        break;
      case SplitBehavior::merged_with_next:
        pieces_.push_back(piece);
        matched_.push_back(matched ? 1 : 0);
        break;
    }
    previous_matched_ = matched;
  }

  // Backwards: a match joins the piece behind it unless that is a match too.
  void merge_with_next() {
    size_t kept = pieces_.size();
    bool previous = false;
    for (size_t i = pieces_.size(); i-- > first_;) {
      const bool matched = matched_[i - first_] != 0;
      if (matched && !previous && kept < pieces_.size()) {
        pieces_[kept].begin = pieces_[i].begin;
      } else {
        pieces_[--kept] = pieces_[i];
      }
      previous = matched;
    }
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first_),
                  pieces_.begin() + static_cast<std::ptrdiff_t>(kept));
    matched_.clear();
  }

  const PreTokenizerStep& step_;
  std::vector<regex::Match>& pieces_;
  size_t first_ = 0;  // of the pieces of this text
  bool previous_matched_ = false;
  std::vector<uint8_t> matched_;  // merged_with_next: by piece
};

}  // namespace hasten::text
