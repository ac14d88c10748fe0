// SPDX-License-Identifier: Apache-2.0
// WordPiece from vocab.txt, tokenizer.json and GGUF's spelling, on vocabularies made here.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using Ids = std::vector<int32_t>;

//                                0      1      2      3      4       5   6     7      8     9  10
constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\naf\n中\n!\n";

TEST(WordPiece, TakesTheLongestPieces) {
  const auto tokenizer = make_tokenizer(parse_word_piece_vocabulary(kVocabulary));
  EXPECT_EQ(tokenizer->encode("unaffable"), (Ids{2, 5, 6, 7, 3}));
  EXPECT_EQ(tokenizer->encode("Ünaffable un!中", {.add_special = false}), (Ids{5, 6, 7, 5, 10, 9}));
  // A word is known whole or not at all.
  EXPECT_EQ(tokenizer->encode("unaf un", {.add_special = false}), (Ids{1, 5}));
  EXPECT_EQ(tokenizer->encode("[MASK] un", {.add_special = false, .parse_special = true}),
            (Ids{4, 5}));
  EXPECT_EQ(tokenizer->find("##aff"), 6);
  EXPECT_EQ(tokenizer->find("un"), 5);
  EXPECT_EQ(tokenizer->find("aff"), std::nullopt);
}

TEST(WordPiece, KeepsCaseWhereAsked) {
  const auto tokenizer = make_tokenizer(
      parse_word_piece_vocabulary(kVocabulary, {.config = R"({"do_lower_case": false})"}));
  EXPECT_EQ(tokenizer->encode("Un un", {.add_special = false}), (Ids{1, 5}));
}

// Words that the vocabulary lacks would be left out of every text.
TEST(WordPiece, NeedsAnUnknownToken) {
  const auto message = [](std::string_view lines, const TokenizerSideFiles& files) {
    try {
      parse_word_piece_vocabulary(lines, files);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_data);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_TRUE(message("[CLS]\n[SEP]\nun\n", {}).starts_with("none of its 3 lines is [UNK]"));
  EXPECT_EQ(message("[CLS]\n[SEP]\n<unk>\nun\n", {.config = R"({"unk_token": "<unk>"})"}), "");
  EXPECT_EQ(message(kVocabulary, {}), "");
}

TEST(WordPiece, LongWordsAreUnknown) {
  TokenizerSpec spec = parse_word_piece_vocabulary(kVocabulary);
  spec.max_input_chars_per_word = 4;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("unaff un", {.add_special = false}), (Ids{1, 5}));
  spec.unk = -1;
  EXPECT_EQ(make_tokenizer(spec)->encode("unaff un", {.add_special = false}), (Ids{5}));
}

TEST(WordPiece, ComesBackWithSpaces) {
  const auto tokenizer = make_tokenizer(parse_word_piece_vocabulary(kVocabulary));
  const Ids ids{2, 5, 6, 7, 5, 3};
  EXPECT_EQ(tokenizer->decode(ids), "unaffable un");
  Detokenizer detokenizer(*tokenizer, {.at_text_start = true});
  std::string streamed;
  for (const int32_t id : ids) streamed += detokenizer.append(id);
  EXPECT_EQ(streamed, "unaffable un");
}

// GGUF marks what begins a word instead of what continues one.
TEST(WordPiece, ReadsTheSpellingOfGguf) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_piece;
  spec.tokens = {"[UNK]", "▁un", "aff", "able", "▁!"};
  spec.types = {2, 1, 1, 1, 1};
  spec.unk = 0;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->encode("UNaffable! aff"), (Ids{1, 2, 3, 4, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3, 4}), "unaffable !");
}

TEST(WordPiece, FromTokenizerJson) {
  const std::string json = R"({
    "added_tokens": [{"id": 0, "content": "[UNK]", "special": true},
                     {"id": 1, "content": "[CLS]", "special": true},
                     {"id": 2, "content": "[SEP]", "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "un": 3, "##aff": 4, ".": 5, "ok": 6}}})";
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(json));
  EXPECT_EQ(tokenizer->encode("Unaff. ok x"), (Ids{1, 3, 4, 5, 6, 0, 2}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Unaff. ok.")), "unaff. ok.");
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
}

}  // namespace
}  // namespace hasten::text
