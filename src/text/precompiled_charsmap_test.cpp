// SPDX-License-Identifier: Apache-2.0
// Character maps: what they find, and that damaged ones do no harm.
#include "text/precompiled_charsmap.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "text/tiny_charsmap.h"

namespace hasten::text {
namespace {

using testing::tiny_charsmap;

TEST(PrecompiledCharsMap, FindsTheLongestKey) {
  const PrecompiledCharsMap map(tiny_charsmap({{"a", "xyz"}, {"\xc3\x89", "E"}, {"q", ""}}));
  EXPECT_EQ(map.find("ab").length, 1U);
  EXPECT_EQ(map.find("ab").to, "xyz");
  EXPECT_EQ(map.find("É").length, 2U);
  EXPECT_EQ(map.find("É").to, "E");
  EXPECT_EQ(map.find("q").length, 1U);
  EXPECT_EQ(map.find("q").to, "");
  for (const char* text : {"", "b", "\xc3", "\xc3\x88"}) EXPECT_EQ(map.find(text).length, 0U);
  // Both "a" and "aa" would be keys if the letter's node were its own child.
  std::string blob = tiny_charsmap({{"a", "x"}});
  EXPECT_EQ(PrecompiledCharsMap(blob).find("aa").length, 1U);
}

TEST(PrecompiledCharsMap, RefusesWhatIsNoMap) {
  const std::string whole = tiny_charsmap({{"a", "xyz"}});
  const auto refuses = [](std::string_view blob) {
    EXPECT_THROW(PrecompiledCharsMap{blob}, Error) << blob.size();
  };
  refuses("");
  refuses("abc");
  refuses(std::string(8, '\0'));
  refuses(std::string("\x03\0\0\0abc", 7));
  refuses(std::string("\xff\xff\xff\xff", 4) + std::string(100, '\0'));
  refuses(whole.substr(0, 200));
  refuses(whole + std::string(257, 'v'));
  // The last string may lack its end.
  EXPECT_EQ(PrecompiledCharsMap(whole.substr(0, whole.size() - 1)).find("a").to, "xyz");
}

// What a text becomes is bounded by what each of its sequences may become.
TEST(PrecompiledCharsMap, BoundsWhatASequenceBecomes) {
  const std::string most(PrecompiledCharsMap::kMaxGrowth, 'v');
  const PrecompiledCharsMap map(tiny_charsmap({{"a", most},
                                               {"b", most + "v"},
                                               {"\xc3\x89", most + most},
                                               {"\xc4\x80", most + most + "v"}}));
  EXPECT_EQ(map.find("a").to, most);
  EXPECT_EQ(map.find("\xc3\x89").to, most + most);
  for (const auto& [text, words] :
       {std::pair("b", "33 bytes of 1; the limit is 32"), std::pair("\xc4\x80", "65 bytes of 2")}) {
    try {
      (void)map.find(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
    }
  }
}

TEST(PrecompiledCharsMap, DamagedMapsStayInside) {
  std::mt19937_64 random(5);
  const std::string whole = tiny_charsmap({{"a", "xyz"}, {"\xc3\x89", "E"}});
  for (int round = 0; round < 20000; ++round) {
    std::string blob = whole;
    for (int i = 0; i < 40; ++i)
      blob[4 + random() % (blob.size() - 4)] = static_cast<char>(random());
    // The root and the nodes that the text leads to, with offsets of any size.
    for (const size_t unit : {0U, 256U ^ 'a', 256U ^ 0xC3U}) {
      for (size_t i = 1; i < 4; ++i) blob[4 + 4 * unit + i] = static_cast<char>(random());
    }
    try {
      const PrecompiledCharsMap map(blob);
      for (const char* text : {"aaaa", "É", "ab\xc3", "zzz"}) {
        const PrecompiledCharsMap::Mapping found = map.find(text);
        EXPECT_LE(found.length, std::string_view(text).size());
        EXPECT_LE(found.to.size(), PrecompiledCharsMap::kMaxGrowth * found.length);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
    }
  }
}

}  // namespace
}  // namespace hasten::text
