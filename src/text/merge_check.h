// SPDX-License-Identifier: Apache-2.0
// Finds merge lists that do not belong to their vocabulary, or of which the end is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Is told what becomes of each merge while the table is filled, and judges at the end. Borrows
/// both. One thread.
class MergeCheck {
 public:
  MergeCheck(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  /// A merge makes this token.
  void add_made(int32_t token) {
    if (!made_.empty()) made_[static_cast<size_t>(token)] = true;
  }
  /// The merge of this rank joins nothing: one of its pieces, or what they make, is no token that
  /// merging knows.
  void add_unused(size_t rank) { unused_.push_back(rank); }

  /// Throws Error{invalid_data} for what spec.merge_list does not allow. Where it allows merges of
  /// unknown pieces, a line of the log tells of them.
  void finish() const;

 private:
  void check_pieces() const;
  void check_is_whole() const;

  const TokenizerSpec& spec_;
  const Vocabulary& vocabulary_;
  std::vector<size_t> unused_;
  std::vector<bool> made_;  // by token; empty: not asked for
};

}  // namespace hasten::text
