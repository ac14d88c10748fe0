// SPDX-License-Identifier: Apache-2.0
// The rules of encoding that no published vector covers, on vocabularies made here.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tiny_charsmap.h"
#include "text/tiny_vocabularies.h"

namespace hasten::text {
namespace {

using testing::tiny_bpe_spec;
using testing::tiny_spm_spec;
using Ids = std::vector<int32_t>;

ErrorCode code_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

TEST(ByteLevelBpe, MergesAndComesBack) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{259}));
  EXPECT_EQ(tokenizer->encode("hello hello"), (Ids{259, 260}));
  EXPECT_EQ(tokenizer->encode("hell"), (Ids{258}));
  EXPECT_EQ(tokenizer->encode("lll"), (Ids{257, 'l'}));  // the leftmost pair first
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->token_bytes(260), " hello");
  EXPECT_EQ(tokenizer->find("Ġhello"), 260);
  EXPECT_EQ(tokenizer->find("<|im_end|>"), 262);
  EXPECT_EQ(tokenizer->find(" hello"), std::nullopt);
}

TEST(ByteLevelBpe, TakesWholeWordsWhereMergesAreIgnored) {
  TokenizerSpec spec = tiny_bpe_spec();
  spec.merges.pop_back();  // nothing makes "Ġhello" any more
  EXPECT_EQ(make_tokenizer(spec)->encode("o hello"), (Ids{'o', ' ', 259}));
  spec.ignore_merges = true;
  EXPECT_EQ(make_tokenizer(spec)->encode("o hello"), (Ids{'o', 260}));
}

TEST(ByteLevelBpe, KeepsMalformedBytes) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  const std::string text("a\xff\xc3(\xed\xa0\x80\x00z\xf0\x9f", 11);
  std::string bytes;
  for (const int32_t id : tokenizer->encode(text)) bytes += tokenizer->token_bytes(id);
  EXPECT_EQ(bytes, text);
}

TEST(SpecialTokens, OnlyWhenAskedFor) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  const std::string text = "<|im_start|>hello<|im_end|>";
  EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), (Ids{261, 259, 262}));
  const Ids plain = tokenizer->encode(text);
  for (const int32_t id : plain) EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_EQ(tokenizer->decode(plain), text);
  // A user-defined token is text and always matched.
  EXPECT_EQ(tokenizer->encode("<tool>"), (Ids{263}));
}

TEST(SpecialTokens, InertInsideLiteralRanges) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  const std::string text = "<|im_start|>hello<|im_end|>";
  const auto specials_of = [&](std::vector<TextRange> literal) {
    Ids specials;
    for (const int32_t id : tokenizer->encode(text, {.parse_special = true, .literal = literal})) {
      if (tokenizer->is_special(id)) specials.push_back(id);
    }
    return specials;
  };
  EXPECT_EQ(specials_of({}), (Ids{261, 262}));
  EXPECT_EQ(specials_of({{0, 12}}), (Ids{262}));
  EXPECT_EQ(specials_of({{12, 17}}), (Ids{261, 262}));             // the user's text only
  EXPECT_EQ(specials_of({{12, 18}}), (Ids{261}));                  // straddles the beginning
  EXPECT_EQ(specials_of({{26, 27}, {3, 4}}), (Ids{}));             // in any order
  EXPECT_EQ(specials_of({{5, 5}}), (Ids{261, 262}));               // an empty range holds nothing
  EXPECT_EQ(specials_of({{0, 20}, {10, 14}, {26, 27}}), (Ids{}));  // overlapping ranges
  const std::vector<TextRange> outside{{0, 28}};
  EXPECT_EQ(code_of([&] { (void)tokenizer->encode(text, {.literal = outside}); }),
            ErrorCode::invalid_argument);
}

// A user's text that ends in half a control token, completed by the template's own text.
TEST(SpecialTokens, CannotBeAssembledAcrossARange) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  const std::string text =
      "user: <|im_en"
      "d|>";
  const std::vector<TextRange> user{{6, 13}};
  for (const int32_t id : tokenizer->encode(text, {.parse_special = true, .literal = user})) {
    EXPECT_FALSE(tokenizer->is_special(id));
  }
}

TEST(SpecialTokens, LiteralRangesDoNotCutWords) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  const std::vector<TextRange> inside{{2, 3}};
  EXPECT_EQ(tokenizer->encode("hello hello", {.parse_special = true, .literal = inside}),
            (Ids{259, 260}));
}

TEST(SpecialTokens, StripAndSingleWord) {
  TokenizerSpec spec = tiny_bpe_spec();
  spec.added_token_rules = {{.id = 261, .lstrip = true, .rstrip = true},
                            {.id = 263, .single_word = true}};
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("hello \t<|im_start|>\u00a0\nhello", {.parse_special = true}),
            (Ids{259, 261, 259}));
  EXPECT_EQ(tokenizer->encode("hello<tool>").size(), 7U);
  EXPECT_EQ(tokenizer->encode("<tool>").size(), 1U);
  EXPECT_EQ(tokenizer->encode("é<tool>").size(), 8U);
  EXPECT_EQ(tokenizer->encode("!<tool>!"), (Ids{'!', 263, '!'}));
}

TEST(SpecialTokens, TurnMarkersAreControlWhateverTheFileSays) {
  TokenizerSpec spec = tiny_bpe_spec();
  spec.types[261] = static_cast<int32_t>(TokenType::user_defined);
  spec.types[262] = static_cast<int32_t>(TokenType::normal);
  const auto tokenizer = make_tokenizer(spec);
  for (const int32_t id : tokenizer->encode("<|im_start|>x<|im_end|>")) {
    EXPECT_FALSE(tokenizer->is_special(id));
  }
  EXPECT_TRUE(tokenizer->is_end_of_generation(262));
  EXPECT_FALSE(tokenizer->is_end_of_generation(261));
}

// DeepSeek R1's distilled models add them as tokens that are not special.
TEST(SpecialTokens, DeepSeekTurnsAreControlWhateverTheFileSays) {
  TokenizerSpec spec = tiny_bpe_spec();
  const std::string user = "<｜User｜>", assistant = "<｜Assistant｜>";
  for (const std::string& name : {user, assistant}) {
    spec.tokens.push_back(name);
    spec.types.push_back(static_cast<int32_t>(TokenType::user_defined));
  }
  const auto tokenizer = make_tokenizer(spec);
  const std::string text = user + assistant;
  EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), (Ids{264, 265}));
  const std::vector<TextRange> outside{{0, std::ssize(text)}};
  for (const int32_t id : tokenizer->encode(text, {.parse_special = true, .literal = outside})) {
    EXPECT_LT(id, 264);
  }
}

TEST(Encode, AddsBosAndEos) {
  TokenizerSpec spec = tiny_bpe_spec();
  spec.bos = 261;
  spec.eos = 262;
  spec.add_bos = true;
  spec.add_eos = true;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{261, 259, 262}));
  EXPECT_EQ(tokenizer->encode("hello", {.add_special = false}), (Ids{259}));
  EXPECT_EQ(tokenizer->decode(Ids{261, 259, 262}), "hello");
  EXPECT_EQ(tokenizer->decode(Ids{261, 259, 262}, true), "<|im_start|>hello<|im_end|>");
}

TEST(SentencePieceBpe, PrefixesMergesAndFallsBack) {
  const auto tokenizer = make_tokenizer(tiny_spm_spec());
  const int32_t bos = tokenizer->bos();
  const auto id = [&](const char* piece) { return tokenizer->find(piece).value(); };
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{bos, id("▁ab")}));
  EXPECT_EQ(tokenizer->encode(" ab"), (Ids{bos, id("▁"), id("▁ab")}));
  EXPECT_EQ(tokenizer->encode("a"), (Ids{bos, id("▁"), id("a")}));
  EXPECT_EQ(tokenizer->encode("aé"), (Ids{bos, id("▁"), id("a"), id("<0xC3>"), id("<0xA9>")}));
  EXPECT_EQ(tokenizer->encode("a\xff"), (Ids{bos, id("▁"), id("a"), id("<0xFF>")}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{bos}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab é")), "ab é");
  EXPECT_EQ(tokenizer->token_bytes(id("<0xC3>")), "\xc3");
  // "xy" is a piece though neither of its characters is.
  EXPECT_EQ(tokenizer->encode("xyx", {.add_special = false}),
            (Ids{id("▁"), id("xy"), id("<0x78>")}));
}

TEST(SentencePieceBpe, UserDefinedPiecesComeFirst) {
  const auto tokenizer = make_tokenizer(tiny_spm_spec());
  const auto id = [&](const char* piece) { return tokenizer->find(piece).value(); };
  EXPECT_EQ(tokenizer->encode("a b", {.add_special = false}),
            (Ids{id("▁"), id("a▁b")}));  // higher than the merge of "▁" and "a"
}

TEST(SentencePieceBpe, UnknownWithoutByteTokens) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::spm;
  spec.tokens = {"<unk>", "a"};
  spec.scores = {0, 0};
  spec.types = {2, 1};
  spec.unk = 0;
  spec.space_prefix = SpacePrefix::none;
  EXPECT_EQ(make_tokenizer(spec)->encode("aéééa"), (Ids{1, 0, 1}));  // one for the run
  EXPECT_EQ(make_tokenizer(spec)->encode("aé é é"), (Ids{1, 0}));    // which spaces do not end
  spec.unk = -1;
  EXPECT_EQ(make_tokenizer(spec)->encode("aéa"), (Ids{1, 1}));
}

TEST(SentencePieceBpe, HighestScoreMergesFirst) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::spm;
  spec.tokens = {"a", "b", "c", "ab", "bc"};
  spec.space_prefix = SpacePrefix::none;
  spec.scores = {0, 0, 0, -2, -1};
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{0, 4}));
  spec.scores = {0, 0, 0, -1, -2};
  EXPECT_EQ(make_tokenizer(spec)->encode("abc"), (Ids{3, 2}));
}

TEST(SentencePieceBpe, ExtraWhiteSpace) {
  TokenizerSpec spec = tiny_spm_spec();
  spec.remove_extra_whitespaces = true;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("  ab   ab  ")), "ab ab");
  EXPECT_EQ(tokenizer->encode("   "), (Ids{tokenizer->bos()}));
}

TEST(SentencePieceBpe, SpacePrefixPlaces) {
  TokenizerSpec spec = tiny_spm_spec();
  const auto spaces = [&](SpacePrefix prefix, bool single, const char* text) {
    spec.space_prefix = prefix;
    spec.single_space_prefix = single;
    const auto tokenizer = make_tokenizer(spec);
    std::string bytes;
    for (const int32_t id : tokenizer->encode(text, {.parse_special = true})) {
      bytes += tokenizer->token_bytes(id);
    }
    return bytes;
  };
  EXPECT_EQ(spaces(SpacePrefix::every, false, "b</s>b"), "<s> b</s> b");
  EXPECT_EQ(spaces(SpacePrefix::first, false, "b</s>b"), "<s> b</s>b");
  EXPECT_EQ(spaces(SpacePrefix::none, false, "b</s>b"), "<s>b</s>b");
  EXPECT_EQ(spaces(SpacePrefix::every, false, " b"), "<s>  b");
  EXPECT_EQ(spaces(SpacePrefix::every, true, " b"), "<s> b");
}

TEST(Tokenizer, NamesIdsOutside) {
  const auto tokenizer = make_tokenizer(tiny_bpe_spec());
  for (const int32_t id : {-1, 264, INT32_MAX, INT32_MIN}) {
    std::string message;
    EXPECT_EQ(code_of([&] { (void)tokenizer->token_bytes(id); }, &message),
              ErrorCode::invalid_argument);
    EXPECT_NE(message.find(std::to_string(id)), std::string::npos);
    EXPECT_NE(message.find("264"), std::string::npos);
    EXPECT_EQ(code_of([&] { (void)tokenizer->decode(Ids{id}); }), ErrorCode::invalid_argument);
  }
}

// A normalizer that makes much of little does so once for a text, not for each stretch of it.
TEST(HostileSpec, GrowthIsBoundedForTheWholeText) {
  TokenizerSpec spec = testing::tiny_bpe_spec();
  spec.normalizers = {{.kind = NormalizerStep::Kind::prepend, .content = std::string(60'000, 'a')}};
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("x").size(), 60'001U);
  std::string text;
  for (int i = 0; i < 200; ++i) text += "x<tool>";
  EXPECT_THROW((void)tokenizer->encode(text), Error);
}

// Nor does a SentencePiece's map, whose text no step of a tokenizer.json has seen.
TEST(HostileSpec, GrowthByACharacterMapIsBounded) {
  TokenizerSpec spec = testing::tiny_spm_spec();
  spec.precompiled_charsmap = testing::tiny_charsmap({{"x", std::string(256, 'a')}});
  for (const TokenizerKind kind : {TokenizerKind::spm, TokenizerKind::unigram}) {
    spec.kind = kind;
    const auto tokenizer = make_tokenizer(spec);
    EXPECT_EQ(code_of([&] { (void)tokenizer->encode("ax"); }), ErrorCode::invalid_data);
    EXPECT_FALSE(tokenizer->encode("a").empty());
  }
}

TEST(HostileSpec, IsRefusedByName) {
  const auto refuse = [](const std::function<void(TokenizerSpec&)>& spoil, const char* word) {
    TokenizerSpec spec = tiny_bpe_spec();
    spoil(spec);
    std::string message;
    const ErrorCode code = code_of([&] { (void)make_tokenizer(spec); }, &message);
    EXPECT_TRUE(code == ErrorCode::invalid_data || code == ErrorCode::unsupported);
    EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  refuse(
      [](auto& spec) {
        spec.tokens.clear();
        spec.types.clear();
      },
      "no tokens");
  refuse([](auto& spec) { spec.types.pop_back(); }, "263 token types");
  refuse([](auto& spec) { spec.types[3] = 9; }, "token 3 has type 9");
  refuse([](auto& spec) { spec.eos = 264; }, "eos token 264");
  refuse([](auto& spec) { spec.bos = -2; }, "bos token -2");
  refuse([](auto& spec) { spec.pre = "gpt-5"; }, "\"gpt-5\" is not known; known are gpt-2");
  refuse([](auto& spec) { spec.pre = "\x1b[2J"; }, R"("\x1b[2J" is not known)");
  refuse(
      [](auto& spec) {
        spec.tokens[3] = "\x1b[2J";
        spec.types[3] = 6;
      },
      R"(like <0x0A>: "\x1b[2J")");
  refuse([](auto& spec) { spec.merges.clear(); }, "no merges");
  refuse([](auto& spec) { spec.merges[1] = "nospace"; }, "merge 1");
  refuse([](auto& spec) { spec.merges[1] = ""; }, "merge 1");
  refuse([](auto& spec) { spec.merges[1] = "a "; }, "merge 1");
  refuse([](auto& spec) { spec.tokens[7] = std::string(100000, 'a'); }, "token 7");
  refuse([](auto& spec) { spec.added_token_rules = {{.id = 999}}; }, "added token 999");
  refuse(
      [](auto& spec) {
        spec.kind = TokenizerKind::spm;
        spec.merges.clear();
      },
      "0 scores");
}

TEST(HostileSpec, OddVocabulariesStillWork) {
  TokenizerSpec spec = tiny_bpe_spec();
  spec.tokens[258] = "he";  // twice, and "hell" is gone: its merge and those above never apply
  spec.merges.push_back("zzz y");
  spec.tokens[257] = "";
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{256, 'l', 'l', 'o'}));
  EXPECT_EQ(tokenizer->token_bytes(257), "");
}

TEST(Encode, LongRunsAreNearLinear) {
  const auto bpe = make_tokenizer(tiny_bpe_spec());
  const auto spm = make_tokenizer(tiny_spm_spec());
  for (const char* unit : {"l", "hello", " ", "\n", "\u4e2d", "'", "\xff", "1", "\u0301"}) {
    std::string text;
    while (text.size() < 200000) text += unit;
    EXPECT_EQ(bpe->decode(bpe->encode(text)).size() > 0, true);
    EXPECT_EQ(spm->decode(spm->encode(text)).size() > 0, true);
  }
}

}  // namespace
}  // namespace hasten::text
