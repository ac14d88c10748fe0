// SPDX-License-Identifier: Apache-2.0
// A merge belongs to a vocabulary that has its two pieces and what they make: Hugging Face's
// library in Rust refuses any other.
#include "text/merge_check.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "text/merge_rules.h"

namespace hasten::text {
namespace {

// Those of all tokens, sorted: whatever a file calls its tokens, a look-up takes few comparisons,
// where a hash table could be aimed at.
class TokenNames {
 public:
  explicit TokenNames(const std::vector<std::string>& tokens)
      : sorted_(tokens.begin(), tokens.end()) {
    std::sort(sorted_.begin(), sorted_.end());
  }

  bool contains(std::string_view name) const {
    return std::binary_search(sorted_.begin(), sorted_.end(), name);
  }

 private:
  std::vector<std::string_view> sorted_;
};

// Of merges that may be of pieces that do not exist, so many are looked at for the log.
constexpr size_t kMaxLookedAt = 1000;

// The first of a merge's parts that is no token, or empty: one cut that makes sense is enough, and
// without any the first says what is missing.
std::string missing_part(std::string_view merge, std::string_view mark, const TokenNames& names) {
  std::string missing;
  std::string joined;
  const auto part_of_cut = [&](std::string_view left, std::string_view right) -> std::string_view {
    if (!names.contains(left)) return left;
    if (!names.contains(right)) return right;
    joined.assign(left).append(right.substr(right.starts_with(mark) ? mark.size() : 0));
    return names.contains(joined) ? std::string_view() : joined;
  };
  const bool makes_sense = cut_merge(merge, [&](std::string_view left, std::string_view right) {
    const std::string_view part = part_of_cut(left, right);
    if (missing.empty()) missing = part;
    return part.empty();
  });
  return makes_sense ? std::string() : missing;
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
  const TokenNames names(spec_.tokens);
  const bool may_lack = spec_.merge_list == MergeList::any;
  const size_t num_looked_at = may_lack ? std::min(unused_.size(), kMaxLookedAt) : unused_.size();
  for (size_t i = 0; i < num_looked_at; ++i) {
    const std::string& merge = spec_.merges[unused_[i]];
    const std::string missing = missing_part(merge, spec_.continuing_subword_prefix, names);
    if (missing.empty()) continue;
    if (!may_lack) {
      fail(ErrorCode::invalid_data,
           "merge {}, {}, needs {}, which is not in the vocabulary: one of the two is damaged, "
           "trimmed, or of another model; fetch both again",
           unused_[i], printable(merge), printable(missing));
    }
    log::warn(
        "{}{}{} of {} merges never apply: merge {}, {}, needs {}, which is not in the "
        "vocabulary",
        spec_.file, spec_.file.empty() ? "" : ": ", unused_.size(), spec_.merges.size(), unused_[i],
        printable(merge), printable(missing));
    return;
  }
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
