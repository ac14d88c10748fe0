// SPDX-License-Identifier: Apache-2.0
// RWKV's vocabulary file and its greedy matching.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/token_spelling.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kLines =
    "1 '\\x00' 1\n"
    "2 'a' 1\n"
    "3 b'\\xe4' 1\n"
    "4 ' ab' 3\n"
    "5 'ab' 2\n"
    "6 \"'s\" 2\r\n"
    "7 '中' 3\n"
    "8 '\\n\\t\\\\' 3\n"
    "9 '\\u00e9' 2\n"
    "10 ' ' 1\n"
    "12 '\\xe9x' 3\n";

TEST(RwkvWorld, TakesTheLongestToken) {
  const auto tokenizer = make_tokenizer(parse_rwkv_vocabulary(kLines));
  EXPECT_EQ(tokenizer->vocab_size(), 13);
  EXPECT_EQ(tokenizer->encode("abab ab"), (Ids{5, 5, 4}));
  EXPECT_EQ(tokenizer->encode(std::string("a\0's", 4)), (Ids{2, 1, 6}));
  EXPECT_EQ(tokenizer->encode("中\n\t\\ é"), (Ids{7, 8, 10, 9}));
  EXPECT_EQ(tokenizer->encode("éx"), (Ids{12}));
  EXPECT_EQ(tokenizer->encode("\xe4z"), (Ids{3}));  // no token for "z"
  EXPECT_EQ(tokenizer->decode(Ids{5, 8, 7, 0}), "ab\n\t\\中");
  EXPECT_EQ(tokenizer->find("\\n\\t\\\\"), 8);
  EXPECT_TRUE(tokenizer->is_end_of_generation(0));
}

TEST(RwkvWorld, RefusesLinesByNumber) {
  for (const char* line :
       {"1 'a'", "x 'a' 1", "1 'a' 2", "0 'a' 1", "999999 'a' 1", "1 a 1", "1 'a\" 1", "1 '\\q' 1",
        "1 '\\x4' 1", "1 '\\ud800' 3", "1 '\\' 1", "1 '\\u12' 2", "1 ' 1", "1 \x1b[2J 1"}) {
    try {
      (void)parse_rwkv_vocabulary(std::string("1 'a' 1\n") + line);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      EXPECT_NE(std::string_view(error.what()).find("line 2"), std::string_view::npos);
      EXPECT_EQ(std::string_view(error.what()).find('\x1b'), std::string_view::npos);
    }
  }
}

TEST(RwkvWorld, RefusesAFileOfNoTokens) {
  for (const char* lines : {"", "\n\r\n"}) {
    try {
      (void)parse_rwkv_vocabulary(lines);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      EXPECT_NE(std::string_view(error.what()).find("holds no token"), std::string_view::npos);
    }
  }
}

TEST(RwkvWorld, IdsHaveLinesOfTheirOwn) {
  EXPECT_EQ(parse_rwkv_vocabulary("1 'a' 1").tokens.size(), 2U);
  for (const char* end : {"\n", "\r\n"}) {
    std::string lines = "1000 'a' 1\n";
    for (int i = 0; i < 8000; ++i) lines += end;
    EXPECT_THROW((void)parse_rwkv_vocabulary(lines), Error);
  }
  EXPECT_EQ(parse_rwkv_vocabulary("3 '123456789012345678' 18\n").tokens.size(), 4U);
  EXPECT_THROW((void)parse_rwkv_vocabulary("4 '123456789012345678' 18\n"), Error);
}

TEST(PythonBytes, ThereAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(from_python_bytes(to_python_bytes(all)), all);
  EXPECT_EQ(from_python_bytes("a\\x0A\\n\\\"\\'"), "a\n\n\"'");
  EXPECT_EQ(from_python_bytes("\\"), std::nullopt);
  EXPECT_EQ(from_python_bytes("\\xg0"), std::nullopt);
}

}  // namespace
}  // namespace hasten::text
