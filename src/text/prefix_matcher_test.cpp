// SPDX-License-Identifier: Apache-2.0
// The longest names at every place, and what finding them costs where a text goes on and on like a
// name that does not come.
#include "text/prefix_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "hasten_test/random_inputs.h"

namespace hasten::text {
namespace {

using Names = std::vector<std::string>;

PrefixMatcher matcher_of(const Names& names) {
  std::vector<PrefixMatcher::Name> list;
  for (const std::string& name : names) list.push_back({name, static_cast<int32_t>(list.size())});
  return PrefixMatcher(std::move(list));
}

// Every third id is refused.
bool accepts(int32_t id) { return id % 3 != 2; }

int32_t longest_by_hand(const Names& names, std::string_view text) {
  int32_t best = -1;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!accepts(id) || !text.starts_with(names[i])) continue;
    if (best < 0 || names[i].size() > names[static_cast<size_t>(best)].size()) best = id;
  }
  return best;
}

void expect_longest_everywhere(const Names& names, const std::string& text) {
  const PrefixMatcher matcher = matcher_of(names);
  PrefixMatcher::Search search(matcher, text);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto match = search.longest(at, [](const auto& found) { return accepts(found.id); });
    const int32_t expected = longest_by_hand(names, std::string_view(text).substr(at));
    ASSERT_EQ(match.id, expected) << "at " << at;
    if (expected >= 0) {
      ASSERT_EQ(match.length, names[static_cast<size_t>(expected)].size());
    }
  }
  EXPECT_LE(search.num_compared(), 12 * text.size() + 100'000);
}

TEST(PrefixMatcher, LongestOfNested) {
  expect_longest_everywhere({"a", "ab", "abc", "abcd", "b", "bcde", "\xff", "\xff\x01"},
                            "abcdeabcabxab\xff\x01\xff");
}

// Names that most places begin like: the automaton takes over, and finds the same.
TEST(PrefixMatcher, LongestOfRepeating) {
  Names names;
  for (const size_t length : {1, 2, 3, 5, 64, 200, 700, 701}) {
    names.emplace_back(length, 'a');
    names.push_back(std::string(length, 'a') + "b");
    names.push_back("c" + std::string(length, 'a') + "c");
  }
  std::string text;
  for (const size_t length : {5000, 63, 64, 699, 1, 700, 90'000, 3}) {
    text += std::string(length, 'a') + "b" + "c" + std::string(length % 100, 'a') + "c";
  }
  expect_longest_everywhere(names, text);
}

TEST(PrefixMatcher, LongestOfRandomNames) {
  std::mt19937_64 random(hasten::testing::random_seed(1));
  const auto letters = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += random() % 8 == 0 ? 'b' : 'a';
    return text;
  };
  for (int i = 0; i < 10; ++i) {
    std::string text = letters(3000);
    Names names;
    for (size_t k = 0; k < 40; ++k) {
      // Parts of the text, whole or but for the last letter.
      names.push_back(text.substr(random() % 2000, 1 + random() % 300));
      if (k % 2 == 0) names.back().back() = 'c';
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::shuffle(names.begin(), names.end(), random);
    for (int repeats = 0; repeats < 4; ++repeats) text += text.substr(0, 3000);
    expect_longest_everywhere(names, text);
  }
}

TEST(PrefixMatcher, LongNameThatDoesNotComeIsLinear) {
  const Names names = {std::string(1000, 'a') + "!"};
  const PrefixMatcher matcher = matcher_of(names);
  const std::string text(size_t{1} << 20, 'a');
  PrefixMatcher::Search search(matcher, text);
  for (size_t at = search.find_beginning(0); at < text.size(); at = search.find_beginning(at + 1)) {
    ASSERT_EQ(search.longest(at).id, -1);
  }
  EXPECT_LE(search.num_compared(), 100'000U);
}

// The automaton takes more than 40 bytes for each of them.
TEST(PrefixMatcher, BoundsTheBytesOfAllNames) {
  Names names;
  for (size_t i = 0; i < PrefixMatcher::kMaxNameBytes / 2048; ++i) {
    names.push_back(std::to_string(1'000'000 + i) + std::string(2041, 'a'));
  }
  EXPECT_EQ(matcher_of(names).find(names[7]), 7);
  names.emplace_back("b");
  try {
    (void)matcher_of(names);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string_view(error.what()).find("4194305 bytes; the limit is 4194304"),
              std::string_view::npos)
        << error.what();
  }
}

TEST(PrefixMatcher, FindsBeginnings) {
  const Names names = {"<|x|>", "<s>"};
  const PrefixMatcher matcher = matcher_of(names);
  const std::string_view text = "a<b<<|x<";
  const PrefixMatcher::Search search(matcher, text);
  EXPECT_EQ(search.find_beginning(0), 4U);
  EXPECT_EQ(search.find_beginning(5), 7U);  // a second byte may come
  EXPECT_EQ(search.find_beginning(8), 8U);
}

}  // namespace
}  // namespace hasten::text
