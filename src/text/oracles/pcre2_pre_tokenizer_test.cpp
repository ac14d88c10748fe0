// SPDX-License-Identifier: Apache-2.0
// Every named pre-tokenizer against PCRE2 on its expressions, and the hand-written scanners against
// our own automata.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hasten_test/random_inputs.h"
#include "text/oracles/pcre2_regex.h"
#include "text/oracles/random_text.h"
#include "text/pre_tokenizer_chain.h"
#include "text/regex/regex.h"

namespace hasten::text {
namespace {

using regex::Match;

// PCRE2 has no &&: what [A&&[^\p{Han}]] says as a look-ahead.
std::string without_intersections(std::string pattern) {
  static constexpr std::string_view kButHan = R"(&&[^\p{Han}]])";
  for (size_t at; (at = pattern.find(kButHan)) != std::string::npos;) {
    const size_t begin = pattern.rfind('[', at);
    pattern.replace(at, kButHan.size(), "])");
    pattern.insert(begin, R"((?:(?!\p{Han}))");
  }
  return pattern;
}

// The expressions of a pre-tokenizer one after the other, each match a piece.
class Pcre2Chain {
 public:
  explicit Pcre2Chain(const PreTokenizer& pre_tokenizer) {
    for (const std::string_view expression : pre_tokenizer.expressions) {
      steps_.emplace_back(
          testing::for_pcre2(without_intersections(std::string(expression)), /*lines=*/true));
    }
  }

  std::vector<Match> cut(std::string_view text) const {
    std::vector<Match> pieces;
    if (!text.empty()) pieces.push_back({0, text.size()});
    for (const testing::Pcre2Regex& step : steps_) {
      std::vector<Match> next;
      const auto add = [&](size_t begin, size_t end) {
        if (begin < end) next.push_back({begin, end});
      };
      for (const Match& piece : pieces) {
        size_t at = piece.begin;
        const std::vector<Match> matches =
            step.find_all(text.substr(piece.begin, piece.end - piece.begin)).value();
        for (const Match& match : matches) {
          add(at, piece.begin + match.begin);
          add(piece.begin + match.begin, piece.begin + match.end);
          at = piece.begin + match.end;
        }
        add(at, piece.end);
      }
      pieces = std::move(next);
    }
    return pieces;
  }

 private:
  std::vector<testing::Pcre2Regex> steps_;
};

// The names by what they stand for, each kind under its first name.
std::map<std::string, std::vector<const PreTokenizer*>> names_by_expressions() {
  std::map<std::string, std::vector<const PreTokenizer*>> kinds;
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return std::ranges::equal(kind.second.front()->expressions, known.expressions);
    });
    (same == kinds.end() ? kinds[std::string(known.name)] : same->second).push_back(&known);
  }
  return kinds;
}

std::vector<std::string> kinds() {
  std::vector<std::string> kinds;
  for (const auto& [name, names] : names_by_expressions()) kinds.push_back(name);
  return kinds;
}

class NamedPreTokenizer : public ::testing::TestWithParam<std::string> {};

TEST_P(NamedPreTokenizer, CutsAsPcre2) {
  const size_t num_texts = hasten::testing::num_random_texts(200000);
  const PreTokenizer& pre_tokenizer = find_pre_tokenizer(GetParam());
  const PreTokenizerChain ours(pre_tokenizer.steps());
  const Pcre2Chain theirs(pre_tokenizer);
  testing::RandomText random(hasten::testing::random_seed(std::hash<std::string>()(GetParam())));
  PreTokenizerChain::Words cut;
  for (size_t i = 0; i < num_texts; ++i) {
    const std::string text = random.next(16);
    ours.cut(text, true, cut);
    ASSERT_EQ(cut.words, theirs.cut(text)) << "text " << i << ": \"" << text << "\"";
    if (!ours.scanner()) continue;
    std::vector<Match> scanned;
    for (size_t at = 0; at < text.size();) {
      const size_t end = at + first_word_length(*ours.scanner(), std::string_view(text).substr(at));
      scanned.push_back({at, end});
      at = end;
    }
    ASSERT_EQ(scanned, cut.words) << "scanner, text " << i << ": \"" << text << "\"";
  }
  std::string names;
  const auto by_expressions = names_by_expressions();
  for (const PreTokenizer* one : by_expressions.at(GetParam())) {
    names.append(names.empty() ? "" : ", ").append(one->name);
  }
  std::printf("%zu random texts as PCRE2%s: %s\n", num_texts,
              ours.scanner() ? " and the scanner" : "", names.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, NamedPreTokenizer, ::testing::ValuesIn(kinds()), [](const auto& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

}  // namespace

}  // namespace hasten::text
