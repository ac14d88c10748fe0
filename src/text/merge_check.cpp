// SPDX-License-Identifier: Apache-2.0
// A merge belongs to a vocabulary that has its two pieces and what they make: Hugging Face's
// library in Rust refuses any other.
#include "text/merge_check.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"

namespace hasten::text {
namespace {

// Those of all tokens, sorted: whatever a file calls its tokens, a look-up takes few comparisons,
// where a hash table could be aimed at.
class Names {
 public:
  explicit Names(const std::vector<std::string>& tokens) : sorted_(tokens.begin(), tokens.end()) {
    std::sort(sorted_.begin(), sorted_.end());
  }

  bool contains(std::string_view name) const {
    return std::binary_search(sorted_.begin(), sorted_.end(), name);
  }

 private:
  std::vector<std::string_view> sorted_;
};

// The first of a merge's parts that is no token, or empty. Pieces may hold spaces themselves: one
// cut that makes sense is enough, and without any the first says what is missing.
std::string missing_part(std::string_view merge, std::string_view mark, const Names& names) {
  std::string missing;
  for (size_t cut = merge.find(' ', 1); cut < merge.size() - 1; cut = merge.find(' ', cut + 1)) {
    const std::string_view left = merge.substr(0, cut);
    const std::string_view right = merge.substr(cut + 1);
    const std::string_view rest = right.starts_with(mark) ? right.substr(mark.size()) : right;
    const std::string joined = std::string(left).append(rest);
    const bool has_left = names.contains(left);
    const bool has_right = names.contains(right);
    if (has_left && has_right && names.contains(joined)) return {};
    if (missing.empty()) missing = !has_left ? left : !has_right ? right : joined;
  }
  return missing;
}

}  // namespace

MergeCheck::MergeCheck(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : spec_(spec), vocabulary_(vocabulary) {
  if (spec.merge_list == MergeList::whole) made_.resize(static_cast<size_t>(vocabulary.size()));
}

void MergeCheck::finish() const {
  check_pieces();
  check_is_whole();
}

void MergeCheck::check_pieces() const {
  if (unused_.empty()) return;
  // Many are of tokens that are known but never made of text, such as control tokens.
  const Names names(spec_.tokens);
  size_t num_unknown = 0;
  std::string first;
  for (const size_t rank : unused_) {
    const std::string missing =
        missing_part(spec_.merges[rank], spec_.continuing_subword_prefix, names);
    if (missing.empty()) continue;
    if (num_unknown++ == 0) {
      first = "merge " + std::to_string(rank) + ", " + printable(spec_.merges[rank]) + ", needs " +
              printable(missing);
    }
    if (spec_.merge_list == MergeList::any) continue;
    fail(ErrorCode::invalid_data,
         "{}, which is not in the vocabulary: one of the two is damaged, trimmed, or of another "
         "model; fetch both again",
         first);
  }
  if (num_unknown == 0) return;
  log::warn("{}{}{} of {} merges never apply, since the vocabulary lacks their pieces: {}",
            spec_.file, spec_.file.empty() ? "" : ": ", num_unknown, spec_.merges.size(), first);
}

void MergeCheck::check_is_whole() const {
  if (made_.empty()) return;
  int64_t num_pieces = 0;
  int64_t num_unmade = 0;
  int32_t first = -1;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.bytes(id).size() < 2 || !vocabulary_.is_first_ordinary(id)) continue;
    ++num_pieces;
    if (made_[static_cast<size_t>(id)]) continue;
    if (num_unmade++ == 0) first = id;
  }
  // Names such as <mask> and [UNUSED-7] are pieces, too, where no file calls them special: 55 of
  // 50,262 in a published vocabulary, none in most.
  const int64_t most = 300 + num_pieces / 100;
  if (num_unmade <= most) return;
  fail(
      ErrorCode::invalid_data,
      "{} of the {} pieces of several bytes are not made by any of the {} merges, {} the first; at "
      "most {} would be expected: the list of merges looks cut, fetch it again",
      num_unmade, num_pieces, spec_.merges.size(), printable(vocabulary_.bytes(first)), most);
}

}  // namespace hasten::text
