// SPDX-License-Identifier: Apache-2.0
// Our regular expressions against PCRE2: made-up small ones on small texts.
#include "text/oracles/pcre2_regex.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "base/error.h"
#include "hasten_test/random_inputs.h"
#include "text/regex/linear_search.h"
#include "text/regex/regex.h"

namespace hasten::text {
namespace {

// Random expressions over a few characters, with everything that both engines read alike.
class RandomExpression {
 public:
  explicit RandomExpression(uint64_t seed) : random_(seed) {}

  std::string next() { return alternatives(3); }
  size_t below(size_t limit) { return random_() % limit; }

  std::string text() {
    static constexpr std::string_view kParts[] = {"a", "b", "c",  " ",  "\n",
                                                  "1", "é", "中", "aa", "ab"};
    std::string text;
    for (size_t parts = below(14); parts > 0; --parts) text += kParts[below(std::size(kParts))];
    return text;
  }

 private:
  std::string alternatives(int depth) {
    std::string out = sequence(depth);
    while (below(4) == 0) out += "|" + sequence(depth);
    return out;
  }
  std::string sequence(int depth) {
    std::string out;
    for (size_t items = below(4) + (below(8) == 0 ? 0 : 1); items > 0; --items) out += item(depth);
    return out;
  }
  std::string item(int depth) {
    if (below(12) == 0) return assertion(depth);
    const bool group = depth > 0 && below(4) == 0;
    std::string atom = group ? "(?:" + alternatives(depth - 1) + ")" : character();
    static constexpr std::string_view kCounts[] = {"*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"};
    if (below(3) != 0) return atom;
    // An empty round of a loop is where engines part; Perl's way for those is tested by hand.
    const std::string_view count = kCounts[below(std::size(kCounts))];
    const bool loop = count == "*" || count == "+" || count == "{2,}";
    if (group && loop) atom = "(?:" + character() + atom + ")";
    atom += count;
    if (below(4) == 0) return atom + "?";
    if (!group && below(6) == 0) return atom + "+";
    return atom;
  }
  std::string character() {
    static constexpr std::string_view kCharacters[] = {
        "a",      "b",      "c",        " ",      "é",    "中",          ".",      "\\s",
        "\\S",    "\\d",    "\\w",      "\\W",    "[ab]", "[^a]",        "[a-c1]", "\\p{L}",
        "\\P{L}", "\\p{N}", "\\p{Han}", "(?i:A)", "\\n",  "[\\s\\p{Lu}]"};
    return std::string(kCharacters[below(std::size(kCharacters))]);
  }
  std::string assertion(int depth) {
    static constexpr std::string_view kAssertions[] = {
        "$",      "\\A",      "\\z",      "(?!\\S)",     "(?=a)",
        "(?<=b)", "(?<!\\s)", "(?![ab])", "(?=\\s|\\z)", "\\b"};
    if (depth > 0 && below(2) == 0) {
      return (below(2) == 0 ? "(?=" : "(?!") + alternatives(depth - 1) + ")";
    }
    return std::string(kAssertions[below(std::size(kAssertions))]);
  }

  std::mt19937_64 random_;
};

TEST(Regex, SameMatchesAsPcre2) {
  const size_t num_expressions = hasten::testing::num_random_texts(30000);
  constexpr size_t kTexts = 12;
  RandomExpression random(hasten::testing::random_seed(20261120));
  size_t deterministic = 0;
  size_t refused = 0;
  size_t given_up = 0;  // texts
  for (size_t i = 0; i < num_expressions; ++i) {
    const std::string pattern = random.next();
    const regex::Dialect dialect = i % 2 == 0 ? regex::Dialect::perl : regex::Dialect::ruby;
    // x{1,2}+ repeats in the one dialect and is possessive in the other.
    if (dialect == regex::Dialect::ruby &&
        (pattern.find("}+") != std::string::npos || pattern.find("}?") != std::string::npos)) {
      continue;
    }
    std::optional<regex::Regex> compiled;
    try {
      compiled.emplace(pattern, dialect);
    } catch (const Error& error) {  // a repeated assertion
      ASSERT_EQ(error.code(), ErrorCode::unsupported) << pattern;
      ++refused;
      continue;
    }
    const regex::Regex& ours = *compiled;
    const testing::Pcre2Regex theirs(testing::for_pcre2(pattern, dialect == regex::Dialect::ruby));
    deterministic += ours.size().num_states > 0 ? 1 : 0;
    // Where the automaton is deterministic, the general search has to find the same.
    const regex::Syntax syntax = regex::parse(pattern, dialect);
    const regex::Alphabet alphabet(syntax.sets);
    const regex::Program program = regex::compile(syntax, alphabet);
    const regex::LinearSearch general(program, alphabet);
    regex::Scratch scratch;
    for (size_t t = 0; t < kTexts; ++t) {
      const std::string text = random.text();
      std::vector<regex::Match> matches;
      ours.find_all(text, matches);
      const std::optional<std::vector<regex::Match>> expected = theirs.find_all(text);
      given_up += expected ? 0 : 1;
      if (expected) {
        ASSERT_EQ(matches, *expected) << pattern << " on \"" << text << "\"";
      }
      std::vector<regex::Match> general_matches;
      general.find_all(text, 0, std::nullopt, scratch, general_matches);
      ASSERT_EQ(general_matches, matches) << pattern << " on \"" << text << "\"";
    }
  }
  std::printf(
      "%zu expressions (%zu deterministic, %zu refused), %zu texts each, %zu of them too much for "
      "PCRE2\n",
      num_expressions, deterministic, refused, kTexts, given_up);
  EXPECT_LT(refused, num_expressions / 100);
}

}  // namespace

}  // namespace hasten::text
