// SPDX-License-Identifier: Apache-2.0
// Distances of Damerau and Levenshtein, between words that people write.
#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hasten {
namespace {

size_t num_edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] =
          std::min({last[j] + 1, next[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(last, next);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  // A longer one is none that somebody mistyped, and comparing takes time.
  word = word.substr(0, 64);
  std::string nearest;
  size_t least = 2 + word.size() / 4;  // more edits make another word of it
  for (const std::string& name : names) {
    const size_t edits = num_edits(word, name);
    if (edits >= least) continue;
    least = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace hasten
