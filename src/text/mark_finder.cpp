// SPDX-License-Identifier: Apache-2.0
// Compares bytes, and then asks where they come from.
#include "text/mark_finder.h"

#include <algorithm>

namespace hasten::text {

bool MarkFinder::counts(const MarkedText& text, size_t at, std::string_view mark) const {
  for (const std::string& name : control_tokens_) {
    const size_t begin = mark.find(name);
    if (begin == std::string_view::npos || at + begin >= text.size()) continue;
    if (!text.is_token(at + begin, name.size())) return false;
  }
  return true;
}

bool MarkFinder::is_at(const MarkedText& text, size_t at, std::string_view mark) const {
  return std::string_view(text.text()).substr(at).starts_with(mark) && counts(text, at, mark);
}

bool MarkFinder::may_become(const MarkedText& text, size_t at, std::string_view mark) const {
  const std::string_view rest = std::string_view(text.text()).substr(at);
  return rest.size() < mark.size() && mark.starts_with(rest) && counts(text, at, mark);
}

size_t MarkFinder::find(const MarkedText& text, std::string_view mark, size_t from,
                        size_t limit) const {
  const std::string_view bytes = std::string_view(text.text()).substr(0, limit);
  size_t at = bytes.find(mark, from);
  while (at != std::string_view::npos && !counts(text, at, mark)) at = bytes.find(mark, at + 1);
  return at;
}

size_t MarkFinder::ends_with_one_of(const MarkedText& text,
                                    std::span<const std::string_view> marks) const {
  for (const std::string_view mark : marks) {
    if (mark.size() > 1 && ends(text, mark)) return mark.size();
  }
  return 0;
}

size_t MarkFinder::partial_suffix(const MarkedText& text, std::string_view mark) const {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (may_become(text, text.size() - size, mark)) return size;
  }
  return 0;
}

}  // namespace hasten::text
