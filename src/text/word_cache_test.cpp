// SPDX-License-Identifier: Apache-2.0
// What was put is found, nothing else is, and parts are not whole words.
#include "text/word_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace hasten::text {
namespace {

TEST(WordKey, IsTheWordAndNothingBehindIt) {
  for (const std::string_view text : {"fox", "fox, and the hound behind it"}) {
    const WordKey key(text.substr(0, 3), text, /*part=*/false);
    EXPECT_EQ(key.low, 0x786F66U) << text;
    EXPECT_EQ(key.high, uint64_t{3} << 56) << text;
  }
  const std::string_view text = "0123456789abcdefgh";
  const WordKey eight(text.substr(0, 8), text, false);
  EXPECT_EQ(eight.low, 0x3736353433323130U);
  EXPECT_EQ(eight.high, uint64_t{8} << 56);
  const WordKey fifteen(text.substr(0, 15), text, true);
  EXPECT_EQ(fifteen.high, uint64_t{0x8F} << 56 | 0x65646362613938U);
}

TEST(WordCache, FindsWhatWasPutAndNothingElse) {
  std::mt19937 random(3);
  WordCache cache;
  std::map<std::string, std::vector<int32_t>> truth;
  int found = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string word(1 + random() % WordKey::kMaxBytes, 'a');
    for (char& c : word) c = static_cast<char>('a' + random() % 3);
    const WordKey key(word, word, false);
    std::vector<int32_t> tokens;
    if (cache.find(key, tokens)) {
      ASSERT_EQ(tokens, truth.at(word));
      ++found;
      continue;
    }
    ASSERT_TRUE(tokens.empty());
    for (size_t n = 0; n < 1 + word.size() % WordCache::kMaxTokens; ++n) {
      tokens.push_back(static_cast<int32_t>(random() % 1000));
    }
    truth[word] = tokens;
    cache.put(key, tokens);
  }
  EXPECT_GT(found, 10'000);
}

TEST(WordCache, TellsPartsFromWordsAndRefusesMany) {
  WordCache cache;
  std::vector<int32_t> out;
  cache.put(WordKey("fox", "fox", /*part=*/true), std::vector<int32_t>{1});
  EXPECT_FALSE(cache.find(WordKey("fox", "fox", /*part=*/false), out));
  EXPECT_TRUE(cache.find(WordKey("fox", "fox", /*part=*/true), out));
  cache.put(WordKey("many", "many", false), std::vector<int32_t>{1, 2, 3, 4, 5});
  cache.put(WordKey("none", "none", false), {});
  EXPECT_FALSE(cache.find(WordKey("many", "many", false), out));
  EXPECT_FALSE(cache.find(WordKey("none", "none", false), out));
  EXPECT_EQ(out, (std::vector<int32_t>{1}));
}

}  // namespace
}  // namespace hasten::text
