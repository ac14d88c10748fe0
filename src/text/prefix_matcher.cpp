// SPDX-License-Identifier: Apache-2.0
// A sorted list used as a trie: each further byte narrows the range of names that still fit.
#include "text/prefix_matcher.h"

#include <algorithm>

#include "base/error.h"

namespace hasten::text {

PrefixMatcher::PrefixMatcher(std::vector<Name> names) : names_(std::move(names)) {
  std::erase_if(names_, [](const Name& name) { return name.text.empty(); });
  std::stable_sort(names_.begin(), names_.end(),
                   [](const Name& a, const Name& b) { return a.text < b.text; });
  const auto last = std::unique(names_.begin(), names_.end(),
                                [](const Name& a, const Name& b) { return a.text == b.text; });
  names_.erase(last, names_.end());
  for (size_t i = 0; i < names_.size(); ++i) {
    num_bytes_ += names_[i].text.size();
    Range& range = with_first_byte_[static_cast<uint8_t>(names_[i].text[0])];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
    is_first_byte_[static_cast<uint8_t>(names_[i].text[0])] = true;
    if (names_[i].text.size() == 1) is_second_byte_.fill(true);
    if (names_[i].text.size() > 1) {
      is_second_byte_[static_cast<uint8_t>(names_[i].text[1])] = true;
    }
  }
  if (num_bytes_ > kMaxNameBytes) {
    fail(ErrorCode::unsupported,
         "the names of the tokens that are looked for in texts have {} bytes; the limit is {}",
         num_bytes_, kMaxNameBytes);
  }
  if (!names_.empty() && names_.front().text[0] == names_.back().text[0]) {
    only_first_byte_ = static_cast<uint8_t>(names_.front().text[0]);
  }
}

PrefixMatcher::Range PrefixMatcher::narrow(Range range, size_t depth, char next) const {
  // string_view compares bytes as unsigned, so the list is sorted by unsigned bytes too.
  const auto byte_at = [&](const Name& name) { return static_cast<uint8_t>(name.text[depth]); };
  const auto begin = names_.begin() + static_cast<ptrdiff_t>(range.begin);
  const auto end = names_.begin() + static_cast<ptrdiff_t>(range.end);
  const auto wanted = static_cast<uint8_t>(next);
  const auto lower =
      std::partition_point(begin, end, [&](const Name& name) { return byte_at(name) < wanted; });
  const auto upper =
      std::partition_point(lower, end, [&](const Name& name) { return byte_at(name) == wanted; });
  return {static_cast<size_t>(lower - names_.begin()), static_cast<size_t>(upper - names_.begin())};
}

NameAutomaton PrefixMatcher::make_automaton() const {
  std::vector<std::string_view> texts;
  texts.reserve(names_.size());
  for (const Name& name : names_) texts.push_back(name.text);
  return NameAutomaton(texts);
}

int32_t PrefixMatcher::find(std::string_view name) const {
  const auto found =
      std::lower_bound(names_.begin(), names_.end(), name,
                       [](const Name& entry, std::string_view key) { return entry.text < key; });
  return found != names_.end() && found->text == name ? found->id : -1;
}

}  // namespace hasten::text
