// SPDX-License-Identifier: Apache-2.0
// What tokenizer.json files say beyond byte-level BPE: Unigram, BPE over characters,
// post-processors and decoders.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using Ids = std::vector<int32_t>;

// A file with this model and these other members.
std::string file(std::string_view model, std::string_view others = "") {
  std::string json = R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}],)";
  json.append(others).append(others.empty() ? "" : ",");
  return json.append(R"("model": )").append(model).append("}");
}

std::unique_ptr<const Tokenizer> load(std::string_view model, std::string_view others = "") {
  return make_tokenizer(parse_tokenizer_json(file(model, others)));
}

constexpr std::string_view kUnigram =
    R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["a", -3], ["b", -3],
        ["▁ab", -4], ["ab", -7]]})";

TEST(UnigramJson, CutsWordsFirst) {
  const std::string metaspace =
      R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
         "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})";
  const auto tokenizer = load(kUnigram, metaspace);
  EXPECT_EQ(tokenizer->encode("ab ab"), (Ids{4, 4}));
  EXPECT_EQ(tokenizer->encode("bab"), (Ids{1, 3, 2, 3}));
  EXPECT_EQ(tokenizer->encode("xy zx"), (Ids{1, 0, 1, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 4}), "ab ab");
  EXPECT_EQ(tokenizer->bos(), -1);
}

TEST(UnigramJson, ReplacesSpacesByOneCharacter) {
  for (const std::string replacement : {"", "ab", "▁▁"}) {
    std::string words;
    try {
      load(kUnigram,
           R"("pre_tokenizer": {"type": "Metaspace", "replacement": ")" + replacement + "\"}");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      words = error.what();
    }
    EXPECT_NE(words.find("exactly one character"), std::string::npos) << words;
  }
}

TEST(UnigramJson, NormalizesFirst) {
  const auto tokenizer =
      load(kUnigram,
           R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"},
           {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
           {"type": "Strip", "strip_left": false, "strip_right": true}]},
         "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
           {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}]},
         "post_processor": {"type": "TemplateProcessing",
           "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<unk>"}}],
           "special_tokens": {"<unk>": {"id": "<unk>", "ids": [0]}}})");
  EXPECT_EQ(tokenizer->encode("AB   Ab  "), (Ids{4, 4, 0}));
}

// In float, the longer piece would look better.
TEST(UnigramJson, AddsScoresInDouble) {
  const auto tokenizer = load(
      R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["b", -1000000], ["a", -0.47],
          ["aa", -0.95]]})");
  EXPECT_EQ(tokenizer->encode("baa"), (Ids{1, 2, 2}));
  // Scores that float cannot tell apart.
  const auto close = load(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1],
      ["aa", -2.00000000001]]})");
  EXPECT_EQ(close->encode("aa"), (Ids{1, 1}));
}

constexpr std::string_view kCharacters =
    R"({"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>",
        "vocab": {"<unk>": 0, "l": 1, "o": 2, "w</w>": 3, "lo": 4, "low</w>": 5, "o</w>": 6},
        "merges": ["l o", "lo w</w>"]})";

TEST(CharacterBpe, MarksTheEndOfWords) {
  const auto tokenizer = load(kCharacters,
                              R"("pre_tokenizer": {"type": "Whitespace"},
                                 "decoder": {"type": "BPEDecoder", "suffix": "</w>"})");
  EXPECT_EQ(tokenizer->encode("low lo"), (Ids{5, 1, 6}));
  EXPECT_EQ(tokenizer->encode("xyo"), (Ids{0, 0, 6}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 1, 6}), "low lo");
  EXPECT_EQ(tokenizer->token_bytes(5), "low ");
}

TEST(CharacterBpe, MarksTheInsideOfWords) {
  const auto tokenizer = load(
      R"({"type": "BPE", "unk_token": "<unk>", "continuing_subword_prefix": "##", "fuse_unk": true,
          "vocab": {"<unk>": 0, "l": 1, "##o": 2, "##w": 3, "lo": 4, "low": 5},
          "merges": [["l", "##o"], ["lo", "##w"]]})",
      R"("pre_tokenizer": {"type": "Whitespace"},
         "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false})");
  EXPECT_EQ(tokenizer->encode("low lo"), (Ids{5, 4}));
  EXPECT_EQ(tokenizer->encode("xylo"), (Ids{0, 2}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 4, 3}), "low low");
}

TEST(CharacterBpe, BytesAndWholeWords) {
  const std::string_view model =
      R"({"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "ignore_merges": true,
          "vocab": {"<unk>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "aa": 4}, "merges": []})";
  const auto tokenizer = load(model, R"("pre_tokenizer": {"type": "Whitespace"},
      "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  EXPECT_EQ(tokenizer->encode("aa aé è"), (Ids{4, 1, 2, 3, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3}), "aé");
}

TEST(CharacterBpe, TheModelSaysWhatIsUnknown) {
  const char* const model = R"({"added_tokens": [{"id": 0, "content": "?", "special": true}],
      "model": {"type": "BPE", "unk_token": null, "vocab": {"?": 0, "a": 1}, "merges": []}})";
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(model, R"({"unk_token": "?"})"));
  EXPECT_EQ(tokenizer->encode("axa"), (Ids{1, 1}));
}

// What is added as a token may be what merges make, too.
TEST(CharacterBpe, MergesToAddedTokens) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(R"({
      "added_tokens": [{"id": 1, "content": "▁▁", "normalized": false}],
      "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
      "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never", "split": false,
                        "replacement": "▁"},
      "model": {"type": "BPE", "vocab": {"▁": 0, "▁▁": 1, "a": 2}, "merges": ["▁ ▁"]}})"));
  EXPECT_EQ(tokenizer->encode("   a"), (Ids{1, 0, 2}));
  EXPECT_EQ(tokenizer->encode("▁▁a"), (Ids{1, 2}));
}

// CLIP: byte-level characters with the mark of the end of a word.
TEST(CharacterBpe, InTheAlphabetOfGpt2) {
  const auto tokenizer = load(
      R"({"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>",
          "vocab": {"<unk>": 0, "Ã": 1, "©</w>": 2, "Ã©</w>": 3}, "merges": ["Ã ©</w>"]})",
      R"("normalizer": {"type": "Lowercase"},
         "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{L}+"}, "behavior": "Removed", "invert": true},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  EXPECT_EQ(tokenizer->encode("É é"), (Ids{3, 3}));
}

TEST(WordLevel, WordsAreKnownOrNot) {
  const std::string_view model =
      R"({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "a": 1, "low": 2, "!": 3}})";
  const auto tokenizer = load(model, R"("normalizer": {"type": "Lowercase"},
                                        "pre_tokenizer": {"type": "Whitespace"})");
  EXPECT_EQ(tokenizer->encode("A low! lower low"), (Ids{1, 2, 3, 0, 2}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3}), "a low !");
  EXPECT_EQ(tokenizer->find("low"), 2);
  const auto whole = load(model);
  EXPECT_EQ(whole->encode("low"), (Ids{2}));
  EXPECT_EQ(whole->encode("a low"), (Ids{0}));
}

TEST(FixedLength, CutsEveryFewCharacters) {
  const auto tokenizer = load(
      R"({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "ACG": 1, "T\n": 2, "é": 3}})",
      R"("pre_tokenizer": {"type": "FixedLength", "length": 3})");
  EXPECT_EQ(tokenizer->encode("ACGACGT\n"), (Ids{1, 1, 2}));
  EXPECT_EQ(tokenizer->encode("CGAé"), (Ids{0, 3}));
}

// A file with these added tokens, words in lower case between spaces.
std::unique_ptr<const Tokenizer> with_added_tokens(const std::string& tokens) {
  return make_tokenizer(parse_tokenizer_json(R"({"added_tokens": [)" + tokens + R"(],
      "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}}})"));
}

TEST(AddedTokens, MatchInNormalizedTextWhereTheySaySo) {
  const auto tokenizer = with_added_tokens(R"({"id": 3, "content": "Foo", "normalized": true},
      {"id": 4, "content": "Bar", "normalized": false},
      {"id": 5, "content": "<S>", "special": true, "normalized": true})");
  EXPECT_EQ(tokenizer->encode("fooFOO a Bar bar"), (Ids{3, 3, 1, 4, 0}));
  EXPECT_EQ(tokenizer->encode("<s> <S>", {.parse_special = true}), (Ids{0, 5}));
  EXPECT_EQ(tokenizer->encode("<s> <S>"), (Ids{0, 0}));
  EXPECT_EQ(tokenizer->find("Foo"), 3);
  EXPECT_EQ(tokenizer->find("foo"), std::nullopt);
  // Those that are not ordinary text are normalized unless they say otherwise.
  EXPECT_EQ(with_added_tokens(R"({"id": 3, "content": "Foo"})")->encode("fOO a"), (Ids{3, 1}));
}

// What is written in the text goes before what is found in normalized text.
TEST(AddedTokens, AsWrittenGoesFirst) {
  const auto tokenizer = with_added_tokens(R"({"id": 3, "content": "ab", "normalized": true},
      {"id": 4, "content": "bb", "normalized": false, "rstrip": true})");
  EXPECT_EQ(tokenizer->encode("abb  ab"), (Ids{1, 4, 3}));
}

// A word that is part of another takes what is inside it along.
TEST(AddedTokens, SingleWords) {
  const auto tokenizer = with_added_tokens(
      R"({"id": 3, "content": "ab", "normalized": false, "single_word": true},
         {"id": 4, "content": "b", "normalized": false},
         {"id": 5, "content": "a", "normalized": false})");
  EXPECT_EQ(tokenizer->encode("ab xab aⅧ b"), (Ids{3, 0, 5, 0, 4}));
  EXPECT_EQ(tokenizer->encode("abⅧ ab-"), (Ids{0, 3, 0}));
}

// Llama's first tokenizer.json: the space before a text is part of what is normalized.
TEST(AddedTokens, SeeThePrefixOfTheNormalizer) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(R"({
      "added_tokens": [{"id": 5, "content": "<t>", "normalized": true}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "model": {"type": "BPE", "unk_token": "<", "fuse_unk": true,
                "vocab": {"▁": 0, "a": 1, "▁a": 2, "<": 3, "t": 4}, "merges": ["▁ a"]},
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})"));
  EXPECT_EQ(tokenizer->encode("<t>a"), (Ids{5, 1}));
  EXPECT_EQ(tokenizer->encode("a <t> a"), (Ids{2, 5, 2}));
  EXPECT_EQ(tokenizer->encode("a<t"), (Ids{2, 3, 4}));
  EXPECT_EQ(tokenizer->encode("a<t>"), (Ids{2, 3, 4, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 2}), "a a");
}

// Gemma's runs of spaces are merged; its added tokens for them are matched before a space is
// written as one, so only where the text has U+2581 itself.
TEST(AddedTokens, WithASpaceSymbolAreNoSpaces) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(R"({
      "added_tokens": [{"id": 1, "content": "▁▁", "normalized": false},
                       {"id": 4, "content": "<a▁b>", "special": true, "normalized": false}],
      "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
      "model": {"type": "BPE", "vocab": {"▁": 0, "▁▁": 1, "a": 2, "▁a": 3,
                "<a▁b>": 4}, "merges": ["▁ a", "▁ ▁"]}})"));
  EXPECT_EQ(tokenizer->encode("   a"), (Ids{1, 3}));
  EXPECT_EQ(tokenizer->encode("  a"), (Ids{0, 3}));
  EXPECT_EQ(tokenizer->encode("▁▁a"), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->encode("<a▁b>a", {.parse_special = true}), (Ids{4, 2}));
  EXPECT_EQ(tokenizer->find("▁▁"), 1);
}

// RoBERTa's vocabulary has GPT-2's <|endoftext|>, which is one of its own special tokens no more.
TEST(AddedTokens, PiecesCalledLikeMarkersAreNoMarkers) {
  const std::string json = R"({
      "added_tokens": [{"id": 0, "content": "<|im_end|>", "special": false, "normalized": false}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
      "model": {"type": "BPE", "vocab": {"<|im_end|>": 0, "<|end|>": 1, "<": 2, "|": 3, "e": 4,
                "n": 5, "d": 6, ">": 7, "nd": 8}, "merges": ["n d"]}})";
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(json));
  EXPECT_EQ(tokenizer->encode("<|end|>", {.parse_special = true}), (Ids{2, 3, 4, 8, 3, 7}));
  EXPECT_FALSE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", {.parse_special = true}), Ids{0});
  EXPECT_TRUE(tokenizer->is_special(0));
  // Unless the config calls it special.
  const auto declared = make_tokenizer(parse_tokenizer_json(json, R"({"eos_token": "<|end|>"})"));
  EXPECT_EQ(declared->encode("<|end|>", {.parse_special = true}), Ids{1});
  EXPECT_TRUE(declared->is_end_of_generation(1));
}

// Where its rules let it not be matched, a token that the model does not know is no piece of it.
TEST(AddedTokens, BesideTheModelAreNoPieces) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(R"({
      "added_tokens": [{"id": 3, "content": "ab", "single_word": true, "normalized": false}],
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -1]]}})"));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{3}));
  EXPECT_EQ(tokenizer->encode("abb"), (Ids{1, 2, 2}));
}

TEST(AddedTokens, TheUnknownOneIsAPieceUnlessItIsAdded) {
  const std::string json = R"({"pre_tokenizer": {"type": "WhitespaceSplit"},
      "model": {"type": "BPE", "unk_token": "<?>", "vocab": {"<?>": 0, "<": 1, "?": 2, ">": 3,
                "?>": 4}, "merges": ["? >"]}})";
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(json));
  EXPECT_EQ(tokenizer->encode("<?> x", {.parse_special = true}), (Ids{1, 4, 0}));
  const auto declared = make_tokenizer(parse_tokenizer_json(json, R"({"unk_token": "<?>"})"));
  EXPECT_EQ(declared->encode("<?> x", {.parse_special = true}), (Ids{0, 0}));
  const auto unigram = make_tokenizer(parse_tokenizer_json(R"({"model": {"type": "Unigram",
      "unk_id": 1, "vocab": [["a", -1], ["<?>", 0]]}})"));
  EXPECT_EQ(unigram->encode("a<?>a<"), (Ids{0, 1, 0, 1}));
}

TEST(PostProcessors, PutTokensAround) {
  const auto roberta = load(kCharacters,
                            R"("pre_tokenizer": {"type": "Whitespace"},
      "post_processor": {"type": "RobertaProcessing", "sep": ["o", 2], "cls": ["l", 1]})");
  EXPECT_EQ(roberta->encode("low"), (Ids{1, 5, 2}));
  EXPECT_EQ(roberta->bos(), 1);
  const auto several = load(kCharacters, R"("pre_tokenizer": {"type": "Whitespace"},
      "post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "x"}}, {"SpecialToken": {"id": "y"}}, {"Sequence": {"id": "A"}},
        {"SpecialToken": {"id": "y"}}],
      "special_tokens": {"x": {"id": "x", "ids": [1]}, "y": {"id": "y", "ids": [2, 4]}}})");
  EXPECT_EQ(several->encode("low"), (Ids{1, 2, 4, 5, 2, 4}));
  EXPECT_EQ(several->encode("low", {.add_special = false}), (Ids{5}));
}

constexpr std::string_view kPieces =
    R"({"type": "BPE", "unk_token": "<unk>", "merges": [],
        "vocab": {"<unk>": 0, "_a": 1, "b|": 2, "<pad>": 3, " c": 4}})";

TEST(Decoders, ReplaceStripAndFuse) {
  const auto tokenizer = load(kPieces, R"("decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  EXPECT_EQ(tokenizer->decode(Ids{1, 1}), "a a");
  EXPECT_EQ(tokenizer->decode(Ids{4, 4}), "c c");
  const auto per_token =
      load(kPieces, R"("decoder": {"type": "Strip", "content": " ", "start": 2, "stop": 0})");
  EXPECT_EQ(per_token->decode(Ids{4, 4}), "cc");
}

TEST(Decoders, CtcDropsRepeats) {
  const auto tokenizer = load(kPieces, R"("decoder": {"type": "CTC", "pad_token": "<pad>",
      "word_delimiter_token": "|", "cleanup": false})");
  const Ids ids{1, 1, 2, 2, 3, 2, 3, 3, 1};
  EXPECT_EQ(tokenizer->decode(ids), "_ab b _a");
  Detokenizer detokenizer(*tokenizer, {.at_text_start = true});
  std::string streamed;
  for (const int32_t id : ids) streamed += detokenizer.append(id);
  EXPECT_EQ(streamed, "_ab b _a");
}

TEST(Decoders, BoundsWhatAFileCanAskFor) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_level;
  spec.tokens = {"a", "aa"};
  const DecoderStep step{
      .kind = DecoderStep::Kind::replace, .pattern = "a", .content = std::string(256, 'b')};
  spec.decoders = {step};
  EXPECT_EQ(make_tokenizer(spec)->token_bytes(1).size(), 512U);
  spec.decoders->front().content.push_back('b');
  EXPECT_THROW((void)make_tokenizer(spec), Error);
  spec.decoders = DecoderSteps(64, {.kind = DecoderStep::Kind::byte_fallback});
  EXPECT_EQ(make_tokenizer(spec)->token_bytes(1), "aa");
  spec.decoders->push_back({.kind = DecoderStep::Kind::byte_fallback});
  EXPECT_THROW((void)make_tokenizer(spec), Error);
}

TEST(TokenizerJsonModels, RefusesByName) {
  const auto refuse = [](std::string_view model, std::string_view others, std::string_view words) {
    try {
      (void)load(model, others);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
      EXPECT_NE(error.code(), ErrorCode::internal);
    }
  };
  refuse(R"({"type": "Unigram", "vocab": [["a"]]})", "", "a piece and its score");
  refuse(R"({"type": "Unigram", "vocab": [["a", "b"]]})", "", "the score of entry 0");
  refuse(R"({"type": "Unigram", "unk_id": 3, "vocab": [["a", 1]]})", "", "unk_id");
  refuse(R"({"type": "WordLevel", "vocab": {"a": "b"}})", "", "\"a\"");
  refuse(R"({"type": "WordPiece", "vocab": {"a": 0}})", "", "continuing_subword_prefix");
  refuse(kUnigram, R"("normalizer": {"type": "Foo"})", "Foo");
  refuse(kUnigram, R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "!"})",
         "Base64");
  refuse(kUnigram, R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"})",
         "character map");
  refuse(kUnigram, R"("pre_tokenizer": {"type": "ByteLevel"})", "byte-level");
  refuse(kUnigram, R"("decoder": {"type": "Foo"})",
         R"(the decoder "Foo" is not supported; this hasten knows Sequence, BPEDecoder, )");
  refuse(kUnigram, R"("decoder": {"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"})",
         "Regex");
  // Whose decoder is not needed.
  constexpr std::string_view kBytes =
      R"({"type": "BPE", "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]})";
  const auto of_bytes = [](std::string_view decoder) {
    return std::string(R"("pre_tokenizer": {"type": "ByteLevel"}, "decoder": )").append(decoder);
  };
  refuse(kBytes, of_bytes(R"({"type": "Foo"})"), "Foo");
  refuse(kBytes,
         of_bytes(R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Foo"}]})"),
         "Foo");
  for (const char* type : {"BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace",
                           "Replace", "Strip", "WordPiece"}) {
    const std::string decoder = std::string(R"({"type": ")").append(type).append("\"}");
    EXPECT_NO_THROW((void)load(kBytes, of_bytes(decoder))) << type;
  }
  EXPECT_NO_THROW((void)load(kBytes, of_bytes("null")));
  refuse(kUnigram, R"("decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
                       {"type": "ByteLevel"}]})",
         "whole texts");
  refuse(kUnigram, R"("decoder": {"type": "Strip", "content": "", "start": 1})", "content");
  refuse(kCharacters, R"("post_processor": {"type": "BertProcessing", "sep": ["a"]})", "cls");
}

}  // namespace
}  // namespace hasten::text
