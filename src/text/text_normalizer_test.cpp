// SPDX-License-Identifier: Apache-2.0
// Each normaliser on what it is there for, and on malformed text.
#include "text/text_normalizer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "text/precompiled_charsmap.h"
#include "text/tiny_charsmap.h"

namespace hasten::text {
namespace {

using NormalizerKind = NormalizerStep::Kind;

std::string normalized(const NormalizerSteps& steps, std::string_view text) {
  TextNormalizer::Growth growth(text.size());
  return TextNormalizer(steps).apply(text, growth);
}

TEST(TextNormalizer, Forms) {
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nfc}}, "e\u0301"), "é");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nfd}}, "é"), "e\u0301");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nfkc}}, "ﬁé"), "fié");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nfkd}}, "ﬁé"), "fie\u0301");
  EXPECT_TRUE(TextNormalizer({{.kind = NormalizerKind::nfc}}).leaves_alone("plain é"));
  EXPECT_FALSE(TextNormalizer({{.kind = NormalizerKind::nfc}}).leaves_alone("e\u0301"));
  EXPECT_FALSE(TextNormalizer({{.kind = NormalizerKind::lowercase}}).leaves_alone("plain"));
}

TEST(TextNormalizer, CaseAndAccents) {
  EXPECT_EQ(normalized({{.kind = NormalizerKind::lowercase}}, "AÉİΣ\xff"), "aéi\u0307σ\xff");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::strip_accents}}, "e\u0301\u0903é"), "eé");
  EXPECT_EQ(
      normalized({{.kind = NormalizerKind::nfd}, {.kind = NormalizerKind::strip_accents}}, "é"),
      "e");
}

TEST(TextNormalizer, Strips) {
  NormalizerStep step{.kind = NormalizerKind::strip};
  EXPECT_EQ(normalized({step}, " \t\u00a0a b\u3000\n"), "a b");
  EXPECT_EQ(normalized({step}, " \n"), "");
  step.right = false;
  EXPECT_EQ(normalized({step}, " a "), "a ");
  step.left = false;
  step.right = true;
  EXPECT_EQ(normalized({step}, " a "), " a");
  EXPECT_EQ(normalized({step}, "  "), "");
}

TEST(TextNormalizer, ReplacesAndPrepends) {
  EXPECT_EQ(
      normalized({{.kind = NormalizerKind::replace, .pattern = "aa", .content = "b"}}, "aaa aa"),
      "ba b");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::replace, .pattern = "", .content = "b"}}, "aa"),
            "aa");
  EXPECT_EQ(
      normalized(
          {{.kind = NormalizerKind::replace, .pattern = " {2,}", .literal = false, .content = "_"}},
          "a   b c"),
      "a_b c");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::prepend, .content = "_"}}, "a"), "_a");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::prepend, .content = "_"}}, ""), "");
}

TEST(TextNormalizer, BertRules) {
  NormalizerStep step{.kind = NormalizerKind::bert};
  EXPECT_EQ(normalized({step}, "Héllo\t中文\u200b\x01 \uFFFD!"), "hello  中  文  !");
  EXPECT_EQ(normalized({step}, "a\u0378b\ue000"), "a\u0378b");  // unassigned stays, private goes
  step.strip_accents = false;
  EXPECT_EQ(normalized({step}, "HÉ"), "hé");
  step.lowercase = false;
  step.handle_chinese_chars = false;
  step.clean_text = false;
  EXPECT_EQ(normalized({step}, "HÉ\t中"), "HÉ\t中");
}

TEST(TextNormalizer, MapsNmtAndBytes) {
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nmt}}, "a\u200b\x02\tb\u2581"), "a  b ");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::byte_level}}, "a é"), "aĠÃ©");
  EXPECT_EQ(normalized({{.kind = NormalizerKind::precompiled,
                         .content = testing::tiny_charsmap({{"a", "xy"}})}},
                       "aba\xff"),
            "xybxy\xff");
}

// Short characters with their marks are mapped by their beginning, long ones each by itself.
TEST(TextNormalizer, MapsWhatAReaderSeesAsOneCharacter) {
  const NormalizerSteps steps{
      {.kind = NormalizerKind::precompiled,
       .content = testing::tiny_charsmap({{"a", "xy"}, {"\r", "_"}, {"\t", " "}, {"½", "1/2"}})}};
  EXPECT_EQ(normalized(steps, "a\u0301b\u0301"), "xyb\u0301");
  EXPECT_EQ(normalized(steps, "a\u0301\u0302"), "xy");
  EXPECT_EQ(normalized(steps, "a\u0301\u0302\u0303"), "xy\u0301\u0302\u0303");
  EXPECT_EQ(normalized(steps, "\r\n\r\t\u0301"), "__ \u0301");
  EXPECT_EQ(normalized(steps, "½\u093e½\u0e33½\u200d"), "1/21/21/2");
  EXPECT_EQ(normalized(steps, "\u0301a\xcc"), "\u0301xy\xcc");
}

TEST(TextNormalizer, BoundsWhatATextBecomes) {
  NormalizerSteps doubling;
  for (int i = 0; i < 40; ++i) {
    doubling.push_back({.kind = NormalizerKind::replace, .pattern = "a", .content = "aaaa"});
  }
  EXPECT_THROW((void)normalized(doubling, "aaaa"), Error);
  EXPECT_THROW((void)TextNormalizer(NormalizerSteps(65, {.kind = NormalizerKind::nfc})), Error);
  // All stretches of a text share one limit: 64 KiB of a short one.
  const TextNormalizer prepending(
      {{.kind = NormalizerKind::prepend, .content = std::string(20'000, 'a')}});
  TextNormalizer::Growth growth(4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(prepending.apply("x", growth).size(), 20'001U);
  EXPECT_THROW((void)prepending.apply("x", growth), Error);
  EXPECT_THROW(
      (void)TextNormalizer({{.kind = NormalizerKind::replace, .pattern = "(", .literal = false}}),
      Error);
}

// Of NFKC's characters U+FDFA becomes the most, and again as much in GPT-2's alphabet.
TEST(TextNormalizer, LeavesRoomForWhatUnicodeMakesOfAText) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "\uFDFA";
  EXPECT_EQ(normalized({{.kind = NormalizerKind::nfkc}, {.kind = NormalizerKind::byte_level}}, text)
                .size(),
            22 * text.size());
  EXPECT_THROW(
      (void)normalized(
          {{.kind = NormalizerKind::nfkc},
           {.kind = NormalizerKind::byte_level},
           {.kind = NormalizerKind::replace, .pattern = "\u0120", .content = std::string(20, ' ')}},
          text),
      Error);
}

// No step goes on far beyond the limit before somebody looks: 64,000 bytes of each would be 4 GiB.
TEST(TextNormalizer, StopsWhereALimitIsPassed) {
  const std::string text(65'536, 'a');
  const size_t limit = text.size() * TextNormalizer::kMaxGrowth;
  const NormalizerStep longer{
      .kind = NormalizerKind::replace, .pattern = "a", .content = std::string(30, 'b')};
  const std::string charsmap =
      testing::tiny_charsmap({{"b", std::string(PrecompiledCharsMap::kMaxGrowth, 'c')}});
  const NormalizerStep steps[] = {
      {.kind = NormalizerKind::precompiled, .content = charsmap},
      {.kind = NormalizerKind::replace, .pattern = "b", .content = std::string(256, 'c')},
      {.kind = NormalizerKind::replace,
       .pattern = "b+?",
       .literal = false,
       .content = std::string(256, 'c')}};
  for (const NormalizerStep& step : steps) {
    try {
      (void)normalized({longer, step}, text);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      const std::string_view what = error.what();
      const std::string_view least = what.substr(what.find("at least ") + 9);
      EXPECT_LT(std::stoul(std::string(least)), 3 * limit) << what;
    }
  }
}

TEST(TextNormalizer, RefusesLiteralsThatTakeTooLongToLookFor) {
  NormalizerStep step{
      .kind = NormalizerKind::replace, .pattern = std::string(1024, 'a'), .content = "b"};
  EXPECT_EQ(normalized({step}, std::string(1025, 'a')), "ba");
  step.pattern.push_back('b');
  EXPECT_THROW((void)TextNormalizer({step}), Error);
}

}  // namespace
}  // namespace hasten::text
