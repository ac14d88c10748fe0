// SPDX-License-Identifier: Apache-2.0
// The double array against a plain search, on entries of few letters and of all bytes.
#include "text/piece_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hasten::text {
namespace {

using Found = std::vector<std::pair<size_t, int32_t>>;

Found prefixes(const PieceTrie& trie, std::string_view text) {
  Found found;
  trie.prefixes(text, [&](size_t length, int32_t value) { found.emplace_back(length, value); });
  return found;
}

TEST(PieceTrie, FindsEveryPrefix) {
  const PieceTrie trie({{"ab", 0}, {"a", 1}, {"", 2}, {"abcd", 3}, {"b", 4}, {"ab", 5}});
  EXPECT_EQ(prefixes(trie, "abcde"), (Found{{1, 1}, {2, 0}, {4, 3}}));
  EXPECT_EQ(prefixes(trie, "abc"), (Found{{1, 1}, {2, 0}}));
  EXPECT_EQ(prefixes(trie, "ba"), (Found{{1, 4}}));
  EXPECT_EQ(prefixes(trie, "c"), Found{});
  EXPECT_EQ(prefixes(trie, ""), Found{});
  EXPECT_EQ(prefixes(PieceTrie({}), "abc"), Found{});
}

TEST(PieceTrie, AgreesWithPlainSearch) {
  std::mt19937_64 random(3);
  for (const size_t alphabet : {2, 5, 256}) {
    const auto word = [&](size_t longest) {
      std::string text(random() % longest, '\0');
      for (char& c : text) c = static_cast<char>(256 - alphabet / 2 + random() % alphabet);
      return text;
    };
    std::map<std::string, int32_t> known;
    for (int32_t i = 0; i < 3000; ++i) known.emplace(word(9), i);
    std::vector<PieceTrie::Entry> entries;
    for (const auto& [text, value] : known) entries.push_back({text, value});
    const PieceTrie trie(entries);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = word(12);
      Found expected;
      for (size_t length = 1; length <= text.size(); ++length) {
        const auto found = known.find(text.substr(0, length));
        if (found != known.end()) expected.emplace_back(length, found->second);
      }
      ASSERT_EQ(prefixes(trie, text), expected);
    }
  }
}

}  // namespace
}  // namespace hasten::text
