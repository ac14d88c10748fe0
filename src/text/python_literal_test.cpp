// SPDX-License-Identifier: Apache-2.0
// Python's literals against the JSON that they mean, and what is no literal.
#include "text/python_literal.h"

#include <gtest/gtest.h>

#include <string>

namespace hasten::text {
namespace {

std::string json_of(const std::string& literal) {
  return json_of_python(literal).value_or("no literal");
}

TEST(PythonLiteral, Strings) {
  EXPECT_EQ(json_of("'Paris'"), R"("Paris")");
  EXPECT_EQ(json_of(R"("it's")"), R"("it's")");
  EXPECT_EQ(json_of("''"), R"("")");
  EXPECT_EQ(json_of(R"('a\'b\"c\\d\n\t\x41\u00e9\U0001F600\101\0')"),
            R"("a'b\"c\\d\n\tAé😀A\u0000")");
  EXPECT_EQ(json_of(R"("\d\q")"), R"("\\d\\q")");  // Python keeps what it does not know
  EXPECT_EQ(json_of("'a\\\nb'"), R"("ab")");
  EXPECT_EQ(json_of("'''a\n'b' \"c\"'''"), R"("a\n'b' \"c\"")");
  EXPECT_EQ(json_of("\"\"\"\"\"\""), R"("")");
  EXPECT_EQ(json_of("'a\nb'"), R"("a\nb")");  // a model's line break
  EXPECT_EQ(json_of(R"(r'C:\new\'')"), R"("C:\\new\\'")");
  EXPECT_EQ(json_of("u'x' 'y'\n\"z\""), R"("xyz")");
  // Pairs of surrogates, and halves of one.
  EXPECT_EQ(json_of(R"('\ud83d\ude00')"), R"("😀")");
  EXPECT_EQ(json_of(R"('\ud83dx\ude00')"), R"("�x�")");
  EXPECT_EQ(json_of(R"(['\ud83d', 'abc\ude00'])"), R"(["�", "abc�"])");
}

TEST(PythonLiteral, Numbers) {
  EXPECT_EQ(json_of("0"), "0");
  EXPECT_EQ(json_of("-12"), "-12");
  EXPECT_EQ(json_of("+1_000_000"), "1000000");
  EXPECT_EQ(json_of("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(json_of(".5"), "0.5");
  EXPECT_EQ(json_of("5."), "5.0");
  EXPECT_EQ(json_of("01.50"), "1.50");
  EXPECT_EQ(json_of("-1e5"), "-1e5");
  EXPECT_EQ(json_of("1.e-3"), "1.0e-3");
  EXPECT_EQ(json_of("0x1F"), "31");
  EXPECT_EQ(json_of("-0b101"), "-5");
  EXPECT_EQ(json_of("0o17"), "15");
  EXPECT_EQ(json_of("00"), "0");
}

TEST(PythonLiteral, Containers) {
  EXPECT_EQ(json_of(" [1, 'a', True, False, None] "), R"([1, "a", true, false, null])");
  EXPECT_EQ(json_of("[]"), "[]");
  EXPECT_EQ(json_of("(1, 2,)"), "[1, 2]");
  EXPECT_EQ(json_of("(1,)"), "[1]");
  EXPECT_EQ(json_of("(1)"), "1");
  EXPECT_EQ(json_of("()"), "[]");
  EXPECT_EQ(json_of("{}"), "{}");
  EXPECT_EQ(json_of("{'a': [{'b': (1, {})}], 2: 'x', None: 1.5, True: 0,}"),
            R"({"a": [{"b": [1, {}]}], "2": "x", "null": 1.5, "true": 0})");
  EXPECT_EQ(json_of("{1.50: 1, 0x1F: 2}"), R"({"1.50": 1, "31": 2})");
  EXPECT_EQ(json_of("[[[[['deep']]]]]"), R"([[[[["deep"]]]]])");
  EXPECT_EQ(json_of("[true, {'a': false, \"b\": null}, True]"),
            R"([true, {"a": false, "b": null}, true])");
}

TEST(PythonLiteral, OthersAreNone) {
  for (const char* text : {"",
                           " ",
                           "Paris",
                           "true",
                           "null",
                           "x()",
                           "1 + 1",
                           "1 2",
                           "--1",
                           "-",
                           ".",
                           "1.2.3",
                           "1e",
                           "1_",
                           "1__0",
                           "_1",
                           "007",
                           "1j",
                           "0x",
                           "0xG",
                           "0b2",
                           "0x1FFFFFFFFFFFFFFFFF",
                           "'",
                           "'a",
                           "\"a'",
                           "'''a''",
                           "'a' b",
                           "b'a'",
                           "f'a'",
                           "rb'a'",
                           "'\\x4'",
                           "'\\xzz'",
                           "'\\u12'",
                           "'\\N{DASH}'",
                           "'\\U00110000'",
                           "'\\",
                           "[",
                           "[1",
                           "[1,",
                           "[,]",
                           "[1 2]",
                           "[true x]",
                           "[truex]",
                           "[1,,2]",
                           "[1)",
                           "(",
                           "{",
                           "{1}",
                           "{1:}",
                           "{:1}",
                           "{'a' 1}",
                           "{'a': 1 'b': 2}",
                           "{[]: 1}",
                           "{{}: 1}",
                           "]",
                           "[1]]",
                           "1,",
                           "*a"})
    EXPECT_EQ(json_of(text), "no literal") << text;
  EXPECT_EQ(json_of(std::string(64, '1')), std::string(64, '1'));
  EXPECT_EQ(json_of(std::string(65, '1')), "no literal");
}

TEST(PythonLiteral, DepthIsBounded) {
  EXPECT_EQ(json_of(std::string(64, '[') + std::string(64, ']')),
            std::string(64, '[') + std::string(64, ']'));
  EXPECT_EQ(json_of(std::string(65, '[') + std::string(65, ']')), "no literal");
  EXPECT_EQ(json_of(std::string(1'000'000, '{')), "no literal");
}

}  // namespace
}  // namespace hasten::text
