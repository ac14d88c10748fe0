// SPDX-License-Identifier: Apache-2.0
// What expressions match, what is refused, and that hostile ones cost nothing.
#include "text/regex/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "text/oracles/random_text.h"
#include "text/regex/linear_search.h"

namespace hasten::text::regex {
namespace {

using namespace std::string_literals;

// The matches of `text` with a bar between them.
std::string matches(std::string_view pattern, std::string_view text,
                    Dialect dialect = Dialect::ruby) {
  std::vector<Match> found;
  Regex(pattern, dialect).find_all(text, found);
  std::string joined;
  for (const Match& match : found) {
    joined.append(&match == found.data() ? "" : "|")
        .append(text.substr(match.begin, match.end - match.begin));
  }
  return joined;
}

TEST(Regex, Constructs) {
  EXPECT_EQ(matches("ab|a", "abaab"), "ab|a|ab");
  EXPECT_EQ(matches("a|ab", "abaab"), "a|a|a");  // the first that matches, not the longest
  EXPECT_EQ(matches("a+?b?", "aab"), "a|ab");
  EXPECT_EQ(matches("a{2}", "aaaaa"), "aa|aa");
  EXPECT_EQ(matches("a{2,3}", "aaaaaa1aa"), "aaa|aaa|aa");
  EXPECT_EQ(matches("a{2,}b", "ab aab aaab"), "aab|aaab");
  EXPECT_EQ(matches("(?:ab)+c", "ababc abc c"), "ababc|abc");
  EXPECT_EQ(matches("[a-c&&[^b]]+", "abcab"), "a|ca");
  EXPECT_EQ(matches("[^\\r\\n\\p{L}]+", "ab12\r3é!"), "12|3|!");
  EXPECT_EQ(matches("[x[0-3]]+", "x1 4 3x"), "x1|3x");
  EXPECT_EQ(matches("[\\]\\-a-]+", "a-]b"), "a-]");
  EXPECT_EQ(matches("\\x41\\u0042\\x{43}\\u{1F999}", "ABC\U0001F999"), "ABC\U0001F999");
  EXPECT_EQ(matches("\\p{Han}+|\\p{Hiragana}|\\p{Script=Greek}", "中文ひλ々"), "中文|ひ|λ|々");
  EXPECT_EQ(matches("\\p{Lu}\\p{Ll}+|\\P{L}|\\pN|\\p{^L}", "Ab1"), "Ab|1");
  EXPECT_EQ(matches("(?i:'s|'RE)", "'S're's'\u017f"), "'S|'re|'s|'\u017f");
  EXPECT_EQ(matches("(?i)ab(?-i:C)", "ABC abC abc"), "ABC|abC");
  EXPECT_EQ(matches("a(?=b)|b(?!c)", "abcab"), "a|a|b");
  EXPECT_EQ(matches("(?<=a)b|(?<!a)c", "abcac"), "b|c");
  EXPECT_EQ(matches("\\bfoo\\b", "foo foobar foo\u0301 foo"), "foo|foo");
  EXPECT_EQ(matches("\\Aa|b\\z", "aabb"), "a|b");
  EXPECT_EQ(matches(".+", "ab\ncd"), "ab|cd");
  EXPECT_EQ(matches("\\w+", "añ_1\u0301\u2160 b"), "añ_1\u0301\u2160|b");
  EXPECT_EQ(matches("\\d+", "12\u0663\u00b2"), "12\u0663");
  EXPECT_EQ(matches("(?>a+)b|(c)", "aab c"), "aab|c");
}

TEST(Regex, LooksFurtherAhead) {
  EXPECT_EQ(matches("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567 12 123456"), "1|234|567|12|123|456");
  EXPECT_EQ(matches("a(?=(?!bc)b)", "ab abc abd"), "a|a");
  EXPECT_EQ(matches("(?!.*x).+", "axb\nab"), "b|ab");
}

TEST(Regex, EmptyMatches) {
  std::vector<Match> found;
  Regex("(?=(\\d{3})+(?!\\d))").find_all("1234567", found);
  EXPECT_EQ(found, (std::vector<Match>{{1, 1}, {4, 4}}));
  found.clear();
  Regex("a*").find_all("baac", found);  // none where another has just ended
  EXPECT_EQ(found, (std::vector<Match>{{0, 0}, {1, 3}, {4, 4}}));
  found.clear();
  Regex("").find_all("\u00e9", found);
  EXPECT_EQ(found, (std::vector<Match>{{0, 0}, {2, 2}}));
}

// An empty round ends a loop, as in Perl.
TEST(Regex, EmptyRounds) {
  EXPECT_EQ(matches("(|a)*b", "aab"), "aab");
  EXPECT_EQ(matches("(|a)*", "aa"), "||");
  EXPECT_EQ(matches("(a|b*)*", "abba"), "abba");
  EXPECT_EQ(matches("(a*|b)*", "ba"), "|a");
  EXPECT_EQ(matches("(a*)+", "aa"), "aa");
  EXPECT_EQ(matches("(a{0,1}?)*?b", "aab"), "aab");
}

TEST(Regex, Possessive) {
  EXPECT_EQ(matches("a++a", "aaa"), "");
  EXPECT_EQ(matches("[^a]?+b+", "bb b cb"), "bb| b|cb");
  EXPECT_EQ(matches("[^a]?+b", "b"), "");
  EXPECT_EQ(matches("[^\\r\\n\\p{L}]?+\\p{L}+", " ab ??c"), " ab|?c");
  EXPECT_EQ(matches("\\d{1,2}+1", "111 11 1", Dialect::perl), "111");
  EXPECT_EQ(matches("\\d{1,2}+1", "11111", Dialect::ruby), "11111");
  EXPECT_EQ(matches("(?>a*)ab", "aab"), "");
}

TEST(Regex, Lines) {
  EXPECT_EQ(matches("a$", "a\na", Dialect::ruby), "a|a");
  EXPECT_EQ(matches("a$", "ab\na", Dialect::perl), "a");
  EXPECT_EQ(matches("^a", "a\na", Dialect::ruby), "a|a");
  EXPECT_EQ(matches("^a", "a\na", Dialect::perl), "a");
}

TEST(Regex, MalformedBytesAreOneSymbol) {
  EXPECT_EQ(matches("\\p{So}+", "a\xff\xfe b\xe4\xb8"), "\xff\xfe|\xe4\xb8");
}

ErrorCode refusal(const std::string& pattern, std::string* message = nullptr) {
  try {
    const Regex compiled(pattern);
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "accepted: " << pattern;
  return ErrorCode::internal;
}

TEST(Regex, NamesWhatItDoesNotSupport) {
  for (const char* pattern :
       {"(a)\\1", "(?<=ab)c", "(?P<n>a)", "\\p{Foo}", "\\Ga", "a**", "(?:ab)++", "[[:alpha:]]",
        "(?i:\u00e4)", "a(?i)b", "\\h", "(?m:a)", "(?=a)*", "a{1001}", "x{,", "[]a]"}) {
    EXPECT_EQ(refusal(pattern), ErrorCode::unsupported) << pattern;
  }
  for (const char* pattern :
       {"(a", "a)", "[a", "*a", "a{3,2}", "[z-a]", "\\", "\\x{110000}", "\\p{L", "\xff"}) {
    EXPECT_EQ(refusal(pattern), ErrorCode::invalid_data) << pattern;
  }
  std::string message;
  refusal("abc(?<=de)", &message);
  EXPECT_NE(message.find("look-behind"), std::string::npos) << message;
  EXPECT_NE(message.find("at byte 10"), std::string::npos) << message;
}

TEST(Regex, NamesTheExpressionThatIsTooLarge) {
  const std::tuple<std::string, const char*, const char*> large[] = {
      {"\t\u00e4(?:a{1000}){1000}", "it takes more than 4096 states; lower the counts",
       R"("\x09\xc3\xa4(?:a{1000}){1000}")"},
      {"((((){1000}){1000}){1000}){1000}", "the counts in its braces multiply to more than 262144",
       R"("((((){1000}){1000}){1000}){1000}")"},
      {std::string(20000, 'a'), "it has 20000 bytes; the limit is 16384", "aaa…\""}};
  for (const auto& [pattern, why, quoted] : large) {
    std::string message;
    EXPECT_EQ(refusal(pattern, &message), ErrorCode::unsupported);
    EXPECT_TRUE(message.starts_with(std::string("regular expression: ") + why)) << message;
    EXPECT_NE(message.find(quoted), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000U);
  }
}

// Each is refused, or compiled within limits, soon.
TEST(Regex, HostileExpressions) {
  std::string many_letters = "(?:";
  for (char32_t c = 0x4E00; c < 0x4E00 + 3000; ++c) append_utf8(many_letters.append("|"), c);
  const std::string patterns[] = {std::string(20000, 'a'),
                                  std::string(8000, '('),
                                  std::string(8000, '['),
                                  "((((a{1000}){1000}){1000}){1000}){1000}",
                                  "(((((){1000}){1000}){1000}){1000}){1000}",
                                  "(?:a|b|ab){1,900}c",
                                  "(?:[ab]*a[ab]{15})+",
                                  many_letters + ")",
                                  "(?i:[\\x{0}-\\x{10ffff}])" + std::string(4000, '?')};
  for (const std::string& pattern : patterns) {
    const auto start = std::chrono::steady_clock::now();
    try {
      std::vector<Match> found;
      Regex(pattern).find_all("aaaaaabbbbbbbbc", found);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2))
        << pattern.substr(0, 40);
  }
}

// Each text makes an engine that tries again from every position read it as often as it is long.
TEST(Regex, LinearInTheText) {
  constexpr size_t kLength = 300000;
  const std::pair<std::string, std::string> cases[] = {
      {"\\s+$", std::string(kLength, ' ') + "x"},
      {"\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s", std::string(kLength, ' ') + "x"},
      {"\\d{1,3}(?=(?:\\d{3})*\\b)", std::string(kLength, '1')},
      {"a+b|a", std::string(kLength, 'a')},
      {"(?:a*)*c|a", std::string(kLength, 'a')},
      {"(?=.*x)a|(?!.*y)b", std::string(kLength, 'a')},
  };
  for (const auto& [pattern, text] : cases) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Match> found;
    Regex(pattern).find_all(text, found);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3)) << pattern;
  }
}

// Texts of many blocks, read in vain so often that the general search takes over.
TEST(Regex, SwitchesToTheGeneralSearchUnnoticed) {
  text::testing::RandomText random(7);
  std::string text;
  while (text.size() < 400000) {
    text += random.next(24);
    text.append(random.next(3).size() * 100, ' ');
  }
  for (const char* pattern :
       {"\\s+$|\\p{L}+|\\s*x", "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s|\\S+?\\.", "a*"}) {
    const Regex regex(pattern);
    ASSERT_GT(regex.size().num_states, 0U);
    std::vector<Match> found;
    regex.find_all(text, found);
    const Syntax syntax = parse(pattern, Dialect::ruby);
    const Alphabet alphabet(syntax.sets);
    const Program program = compile(syntax, alphabet);
    std::vector<Match> general;
    Scratch scratch;
    LinearSearch(program, alphabet).find_all(text, 0, std::nullopt, scratch, general);
    EXPECT_GT(found.size(), 1000U);
    EXPECT_EQ(found, general) << pattern;
  }
}

}  // namespace
}  // namespace hasten::text::regex
