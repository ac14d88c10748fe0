// SPDX-License-Identifier: Apache-2.0
// Stop strings against a plain search, however the text is cut.
#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hasten::engine {
namespace {

struct Outcome {
  std::string text;
  std::string match;
  bool operator==(const Outcome&) const = default;
};

/// The text before the stop string that is complete first, the longest of several.
Outcome plain_search(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string match;
    for (const std::string& stop : stops)
      if (text.substr(0, end).ends_with(stop) && stop.size() > match.size()) match = stop;
    if (!match.empty()) return {text.substr(0, end - match.size()), match};
  }
  return {text, ""};
}

Outcome in_pieces(const std::vector<std::string>& stops, const std::string& text,
                  std::mt19937& random) {
  const StopStrings strings(stops);
  StopMatcher matcher(strings);
  Outcome outcome;
  for (size_t at = 0; at < text.size();) {
    const size_t size = random() % 5;
    const auto piece = matcher.append(std::string_view(text).substr(at, size), true);
    outcome.text += piece.text;
    if (piece.match != nullptr) return {outcome.text, *piece.match};
    at += size;
  }
  outcome.text += matcher.flush();
  return outcome;
}

TEST(StopMatcher, FindsWhatAPlainSearchFinds) {
  std::mt19937 random(11);
  const auto word = [&](size_t size) {
    std::string result;
    while (result.size() < size) result += static_cast<char>('a' + random() % 2);
    return result;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = word(1 + random() % 9);
    const std::string text = word(random() % 60);
    ASSERT_EQ(in_pieces(stops, text, random), plain_search(stops, text)) << text;
  }
}

TEST(StopMatcher, ReleasesWhatCannotBeginAStopStringAtOnce) {
  const StopStrings strings({"</s>", "<end>"});
  StopMatcher matcher(strings);
  EXPECT_EQ(matcher.append("one <", true).text, "one ");
  EXPECT_EQ(matcher.append("en", true).text, "");
  EXPECT_EQ(matcher.append("t", true).text, "<ent");
  EXPECT_EQ(matcher.append("<<", true).text, "<");
  const auto piece = matcher.append("/s> after", true);
  EXPECT_EQ(piece.text, "");
  ASSERT_NE(piece.match, nullptr);
  EXPECT_EQ(*piece.match, "</s>");
}

TEST(StopMatcher, LetsStopStringsPassWhileTheyMayNotStop) {
  const StopStrings strings({"ab", "bb"});
  StopMatcher matcher(strings);
  // The b at the end may begin "bb".
  EXPECT_EQ(matcher.append("xab", false).text, "xa");
  const auto piece = matcher.append("b", true);
  EXPECT_EQ(piece.text, "");
  ASSERT_NE(piece.match, nullptr);
  EXPECT_EQ(*piece.match, "bb");
}

TEST(StopMatcher, FlushGivesBackAPartialStopString) {
  const StopStrings strings({"stop"});
  StopMatcher matcher(strings);
  EXPECT_EQ(matcher.append("a sto", true).text, "a ");
  EXPECT_EQ(matcher.flush(), "sto");
  EXPECT_EQ(matcher.flush(), "");
}

}  // namespace
}  // namespace hasten::engine
