// SPDX-License-Identifier: Apache-2.0
// Where the merges of a vocabulary come from: a list, or the order of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Throws Error{invalid_data} unless `merge`, the listed one of this rank, is two pieces with a
/// space between them.
void check_merge(std::string_view merge, size_t rank);

/// Calls `try_cut` with the two parts at each space of a merge until it returns true, and says
/// whether it did: pieces may hold spaces themselves, and the first cut that makes sense is meant.
/// At most kMaxCuts, more than published merges have: each takes time with the length of the merge.
template <class TryCut>
bool cut_merge(std::string_view merge, const TryCut& try_cut) {
  constexpr int kMaxCuts = 256;
  size_t cut = merge.find(' ', 1);
  for (int i = 0; i < kMaxCuts && cut < merge.size() - 1; ++i, cut = merge.find(' ', cut + 1)) {
    if (try_cut(merge.substr(0, cut), merge.substr(cut + 1))) return true;
  }
  return false;
}

/// The merges that `spec` lists, "left right" each, the first first. One that names a piece which
/// the vocabulary does not have can never apply and is left out. Throws Error{invalid_data} for a
/// line that is no pair, and for what spec.merge_list does not allow.
[[nodiscard]] MergeTable merges_of_list(const TokenizerSpec& spec, const Vocabulary& vocabulary);

/// What merging begins with, and what it makes: the ordinary tokens and, where characters are
/// merged, those that stand in tokens but are none themselves, numbered from vocab_size on. Borrows
/// the vocabulary. Const after construction: any thread.
class MergeSymbols {
 public:
  enum class First : uint8_t { byte, character };

  MergeSymbols(const Vocabulary& vocabulary, First first);

  int32_t size() const { return vocabulary_.size() + static_cast<int32_t>(parts_only_.size()); }
  /// The length of the symbol that merging begins with at the front of `text`, which is not empty.
  size_t first_length(std::string_view text) const {
    return first_ == First::byte ? 1 : decode_utf8(text).length;
  }
  /// The symbols that merging of `text` begins with; -1 for what is none.
  void cut(std::string_view text, std::vector<int32_t>& symbols) const;
  /// The symbol of these bytes, which are not empty, or -1.
  int32_t find(std::string_view bytes) const {
    if (first_ == First::byte && bytes.size() == 1) {
      return vocabulary_.byte_token(static_cast<uint8_t>(bytes.front()));
    }
    const int32_t token = vocabulary_.find_ordinary(bytes);
    return token >= 0 || parts_only_.empty() ? token : find_part_only(bytes);
  }

 private:
  int32_t find_part_only(std::string_view bytes) const;

  const Vocabulary& vocabulary_;
  First first_;
  std::unordered_map<std::string_view, int32_t> parts_only_;  // views of the vocabulary
};

/// Two neighbours join if their bytes are an ordinary token, that of the lowest rank first: the
/// rule of tiktoken, whose ranks are the ids, and of SentencePiece, whose ranks are those of the
/// scores. ranks: [vocab_size], at least 0.
[[nodiscard]] MergeTable merges_of_ranks(std::span<const int32_t> ranks,
                                         const Vocabulary& vocabulary, const MergeSymbols& first);

}  // namespace hasten::text
