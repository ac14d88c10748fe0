// SPDX-License-Identifier: Apache-2.0
// Composition: the cases that Unicode Standard Annex #15 and chapter 3 spell out.
#include "text/nfc.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <utility>

namespace hasten::text {
namespace {

TEST(Nfc, Composes) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain ASCII", "plain ASCII"},
      {"e\u0301", "\u00e9"},
      {"\u212b", "\u00c5"},               // the Ångström sign is a letter
      {"\u1e9b\u0323", "\u1e9b\u0323"},   // stays: a dot below does not compose with it
      {"D\u0307\u0323", "\u1e0c\u0307"},  // ordered first, then the dot below composes
      {"\u0958", "\u0915\u093c"},         // excluded from composition
      {"\u1100\u1161\u11a8", "\uac01"},   // Hangul by arithmetic
      {"\uac00\u11a8", "\uac01"},
      {"\u1100\u1161\u11a7", "\uac00\u11a7"},  // the base of the trailing jamo is none itself
      {"a\u0315\u0300", "\u00e0\u0315"},       // reordered past a mark of a higher class
      {"a\u0313\u0300", "a\u0313\u0300"},      // a mark of the same class stands between
      {"a\u0327\u0327\u0301", "\u00e1\u0327\u0327"},
      {"\u0301e", "\u0301e"},          // a mark without a base
      {"e\xff\u0301", "e\xff\u0301"},  // malformed bytes part the two
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(to_nfc(text), expected);
    EXPECT_EQ(to_nfc(expected), expected);
    if (is_nfc_stable(text)) {
      EXPECT_EQ(text, expected);
    }
  }
}

TEST(Nfc, KnowsStableText) {
  EXPECT_TRUE(is_nfc_stable("plain é \u4e2d\u6587 \uac00 \U0001F999"));
  EXPECT_FALSE(is_nfc_stable("e\u0301"));
  EXPECT_FALSE(is_nfc_stable("\u1161"));
  EXPECT_FALSE(is_nfc_stable("\u0958"));
}

TEST(NormalizationForms, DecomposeAndCompose) {
  const auto form = [](const char* text, NormalizationForm wanted) {
    return to_normalization_form(text, wanted);
  };
  using enum NormalizationForm;
  EXPECT_EQ(form("\u1e9b\u0323", nfc), "\u1e9b\u0323");
  EXPECT_EQ(form("\u1e9b\u0323", nfd), "\u017f\u0323\u0307");
  EXPECT_EQ(form("\u1e9b\u0323", nfkc), "\u1e69");
  EXPECT_EQ(form("\u1e9b\u0323", nfkd), "s\u0323\u0307");
  EXPECT_EQ(form("\uac01", nfd), "\u1100\u1161\u11a8");
  EXPECT_EQ(form("\ufb01\u2460\uff21\u3392", nfkc), "fi1AMHz");
  EXPECT_EQ(form("\u3131\u314f", nfkc), "\uac00");  // compatibility jamo compose
  EXPECT_TRUE(is_nfkc_stable("plain \u00e9\u4e2d\xff"));
  EXPECT_FALSE(is_nfkc_stable("\u00bd"));
  EXPECT_FALSE(is_nfkc_stable("e\u0301"));
  EXPECT_EQ(form("a\xff\u00bd", nfkd), "a\xff\u0031\u2044\u0032");
}

// A long text is put in order in stretches, which begin where nothing reaches across.
TEST(NormalizationForms, LongTextsAreThoseOfTheirParts) {
  const std::string characters[] = {
      "e",      "\u0301", "\u0323", "\u1e9b", "\u1100\u1161", "\uac00\u11a8", "\u0bc6\u0bbe",
      "\u1100", "\u1161", "\u11a8", "\u0958", "\u3131\u314f", "\ufdfa",       "\xff",
      "\u0345"};
  std::mt19937 random(3);
  using enum NormalizationForm;
  for (const NormalizationForm form : {nfc, nfd, nfkc, nfkd}) {
    std::string text, expected;
    while (text.size() < 200'000) {
      std::string part = "1";  // composes with nothing
      for (size_t i = random() % 40; i > 0; --i)
        part += characters[random() % std::size(characters)];
      text += part;
      expected += to_normalization_form(part, form);
    }
    EXPECT_EQ(to_normalization_form(text, form), expected);
  }
}

TEST(NormalizationForms, StopsBehindWhatIsWanted) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "\ufdfa";  // 33 bytes each
  const std::string whole = to_normalization_form(text, NormalizationForm::nfkd);
  EXPECT_EQ(whole.size(), 3'300'000U);
  const std::string begun = to_normalization_form(text, NormalizationForm::nfkd, 5000);
  EXPECT_GT(begun.size(), 5000U);
  EXPECT_LT(begun.size(), 50'000U);
  EXPECT_TRUE(whole.starts_with(begun));
}

}  // namespace
}  // namespace hasten::text
