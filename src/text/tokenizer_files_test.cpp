// SPDX-License-Identifier: Apache-2.0
// The readers of tokenizer.json, tokenizer.model and rank files: what they take and what they
// refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/shared_vocabularies.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

// Expects an error of `code` that says `words`.
void expect_error(const auto& action, ErrorCode code, std::string_view words) {
  try {
    (void)action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown: " << words;
}

// `text` with its first `from` made `to`.
std::string changed(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to change: " + std::string(from));
  return text.replace(at, from.size(), to);
}

const std::string kByteLevel = R"({
  "added_tokens": [{"id": 6, "content": "<s>", "special": true},
                   {"id": 7, "content": "<pad>", "special": true, "rstrip": true}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": {"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
     "special_tokens": {"<s>": {"id": "<s>", "ids": [6]}}}]},
  "model": {"type": "BPE", "vocab": {"h": 0, "e": 1, "he": 2, "Ġ": 3, "Ã": 4, "©": 5},
            "merges": ["h e"]}})";

TEST(TokenizerJson, ReadsByteLevelBpe) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(kByteLevel));
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->encode("he h"), (Ids{6, 2, 3, 0}));
  EXPECT_EQ(tokenizer->encode("e\u0301"), (Ids{6, 4, 5}));  // composed first
  EXPECT_EQ(tokenizer->encode("<pad>  h", {.parse_special = true}), (Ids{6, 7, 0}));
  EXPECT_EQ(tokenizer->bos(), 6);
  // Merges as pairs are the same merges.
  const auto pairs =
      make_tokenizer(parse_tokenizer_json(changed(kByteLevel, R"(["h e"])", R"([["h", "e"]])")));
  EXPECT_EQ(pairs->encode("he h"), (Ids{6, 2, 3, 0}));
}

// A vocabulary of single bytes needs no merges; where it lists none, it says so.
TEST(TokenizerJson, ReadsByteLevelBpeWithoutMerges) {
  const std::string without = changed(kByteLevel, "\"h e\"", "");
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(without));
  EXPECT_EQ(tokenizer->encode("he h", {.add_special = false}), (Ids{0, 1, 3, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{0, 1, 3, 0}), "he h");
  // But not where most of its tokens can only come of merges.
  EXPECT_THROW(
      make_tokenizer(parse_tokenizer_json(changed(without, "\"\u00c3\": 4, \"\u00a9\": 5",
                                                  "\"hh\": 4, \"ee\": 5, \"eh\": 8, \"hee\": 9"))),
      Error);
}

TEST(TokenizerJson, TakesRolesFromTheConfig) {
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(
      kByteLevel,
      R"({"bos_token": {"content": "<pad>"}, "eos_token": "<end>", "add_bos_token": false,
                      "added_tokens_decoder": {"8": {"content": "<end>", "special": true},
                                                "0": {"content": "not h"}}})"));
  EXPECT_EQ(tokenizer->bos(), 7);
  EXPECT_EQ(tokenizer->eos(), 8);
  EXPECT_TRUE(tokenizer->is_end_of_generation(8));
  EXPECT_EQ(tokenizer->encode("h"), (Ids{0}));
}

TEST(TokenizerJson, DoubtsRolesThatTheVocabularyHasOtherwise) {
  const auto doubts = [](const char* config) {
    return parse_tokenizer_json(kByteLevel, config).doubts;
  };
  EXPECT_THAT(doubts(R"({"bos_token": "<s>", "eos_token": {"content": "<pad>"},
      "added_tokens_decoder": {"6": {"content": "<s>", "special": true}}})"),
              IsEmpty());
  EXPECT_THAT(doubts(R"({"bos_token": null, "eos_token": ""})"), IsEmpty());
  EXPECT_THAT(
      doubts(R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}})"),
      ElementsAre(R"(the bos_token of tokenizer_config.json is "<b>", which the vocabulary )"
                  R"(does not have; token 6, "<s>" is taken for it)",
                  R"(the eos_token of tokenizer_config.json is "<e>", which the vocabulary )"
                  R"(does not have; no token is taken for it)"));
  EXPECT_THAT(doubts(R"({"eos_token": "<e>", "added_tokens_decoder": {"7": {"content": "<e>"}}})"),
              ElementsAre(HasSubstr(R"(does not have, and which added_tokens_decoder has as 7; no )"
                                    R"(token is taken)")));
  // It stands in the vocabulary twice: the later one is meant, and taken.
  EXPECT_THAT(
      doubts(
          R"({"bos_token": "<s>", "added_tokens_decoder": {"9": {"content": "<s>", "special": true}}})"),
      IsEmpty());
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2})";
  EXPECT_THAT(parse_vocab_and_merges(vocab, "a b\n", {.config = R"({"bos_token": "<b>"})"}).doubts,
              ElementsAre(HasSubstr(R"("<b>", which the vocabulary does not have)")));
  EXPECT_THAT(
      parse_word_piece_vocabulary("[UNK]\na\n", {.config = R"({"bos_token": "<b>"})"}).doubts,
      ElementsAre(HasSubstr(R"("<b>", which the vocabulary does not have)")));
}

// Its family's tokens, which no file lists, are not missing.
TEST(TiktokenFile, DoubtsRolesThatTheVocabularyDoesNotHave) {
  const auto doubts = [](const char* role) {
    return parse_tiktoken_file("hy.tiktoken", "YQ== 0\nYg== 1\n",
                               {.config = R"({"eos_token": ")" + std::string(role) + "\"}"})
        .doubts;
  };
  EXPECT_THAT(doubts("<|eos|>"), IsEmpty());
  EXPECT_THAT(doubts("<e>"),
              ElementsAre(HasSubstr(
                  R"("<e>", which the vocabulary does not have; token 5, "<|eos|>" is)")));
}

TEST(TokenizerJson, ReadsSentencePieceStyle) {
  const std::string json = R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                      "split": false},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
              "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "▁": 3, "a": 4, "▁a": 5},
              "merges": ["▁ a"]}})";
  const auto tokenizer = make_tokenizer(parse_tokenizer_json(json));
  EXPECT_EQ(tokenizer->encode("a a"), (Ids{5, 5}));
  EXPECT_EQ(tokenizer->encode(" aé"), (Ids{5, 1, 2}));
  EXPECT_EQ(tokenizer->encode("axa"), (Ids{5, 0, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{5, 1, 2, 5}), "aé a");
}

TEST(TokenizerJson, RefusesByName) {
  const auto refuse = [](std::string_view from, std::string_view to, ErrorCode code,
                         std::string_view words) {
    expect_error(
        [&] { return make_tokenizer(parse_tokenizer_json(changed(kByteLevel, from, to))); }, code,
        words);
  };
  refuse("\"BPE\"", "\"WordGuess\"", ErrorCode::unsupported, "WordGuess");
  refuse("\"NFC\"", "\"NFX\"", ErrorCode::unsupported, "NFX");
  refuse("\"TemplateProcessing\"", "\"OtherProcessing\"", ErrorCode::unsupported,
         "OtherProcessing");
  refuse("\"he\": 2", "\"he\": 1", ErrorCode::invalid_data, "id 1");
  refuse("\"he\": 2", "\"he\": -1", ErrorCode::invalid_data, "\"he\"");
  refuse("\"he\": 2", "\"he\": 2000000000", ErrorCode::invalid_data, "\"he\"");
  refuse("\"he\": 2", "\"he\": \"2\"", ErrorCode::invalid_data, "\"he\"");
  refuse("[\"h e\"]", "[\"he\"]", ErrorCode::invalid_data, "merge 0");
  refuse("[\"h e\"]", "[[\"h\"]]", ErrorCode::invalid_data, "pair");
  refuse("[\"h e\"]", "[\"h e\", \"e x\"]", ErrorCode::invalid_data,
         "merge 1, \"e x\", needs \"x\"");
  refuse("[\"h e\"]", "7", ErrorCode::invalid_data, "model.merges");
  refuse("\"ids\": [6]", "\"ids\": [60000]", ErrorCode::invalid_data, "<s>");
  expect_error([] { return parse_tokenizer_json("[]"); }, ErrorCode::invalid_data, "object");
  expect_error([] { return parse_tokenizer_json(kByteLevel.substr(0, 300)); },
               ErrorCode::invalid_data, "JSON");
  expect_error(
      [] { return parse_tokenizer_json(kByteLevel, R"({"added_tokens_decoder": {"x": 1}})"); },
      ErrorCode::invalid_data, "\"x\"");
}

// What a file says reaches terminals and logs only as text.
TEST(TokenizerJson, SaysWhichEntryAndWhichValue) {
  const auto expect = [](const std::string& json, std::string_view words) {
    expect_error([&] { return parse_tokenizer_json(json); }, ErrorCode::invalid_data, words);
  };
  const auto with = [](std::string_view from, std::string_view to) {
    return changed(kByteLevel, from, to);
  };
  for (const char* odd : {"5", R"(["h"])", R"(["h", 5])"}) {
    expect(with(R"(["h e"])", R"(["h e", )" + std::string(odd) + "]"),
           R"(tokenizer.json: entry 1 of model.merges is not "left right" or a pair of strings)");
  }
  expect(with(R"("merges": ["h e"])", R"("fuse_unk": false)"),
         R"(tokenizer.json: "model" is of type BPE and has no merges)");
  expect(with(R"("merges": ["h e"])", R"("merges": 5)"), R"("model.merges" is not a list)");
  expect(with(R"({"SpecialToken": {"id": "<s>"}})", R"({"SpecialToken": {"id": "<nope>"}})"),
         R"(the post-processor puts "<nope>" around texts, which its special_tokens do not have)");
  for (const char* odd : {"[]", "null", "5"}) {
    expect(odd, "tokenizer.json: the file is not a JSON object");
    expect_error([&] { return parse_vocab_and_merges(odd, "", {}); }, ErrorCode::invalid_data,
                 "vocab.json: the file is not a JSON object");
    expect_error([&] { return parse_tekken_json(odd); }, ErrorCode::invalid_data,
                 "the file is not a JSON object");
  }
  expect(with(R"("he": 2)", R"("he": 99999999)"), R"(the id of "he" is 99999999, not within [0, )");
  expect(with(R"("he": 2)", R"("he": 99999999)"), "), as many tokens as files of this size list");
  expect(with(R"("he": 2)", R"("he": -3)"), R"(the id of "he" is -3, not within [0, )");
  expect(with(R"("he": 2)", R"("he": 2.5)"), R"(the id of "he" is not a whole number)");
  expect(with(R"({"id": 7, )", R"({"id": -7, )"), "the id of entry 1 of added_tokens is -7, not");
  expect(with(R"({"id": 7, )", "{"), "the id of entry 1 of added_tokens is missing");
  expect(
      with(R"("content": "<s>", "special": true},)", R"("content": "<s>", "special": true}, 5,)"),
      "entry 1 of added_tokens is not an object");
  expect(with(R"("ids": [6])", R"("ids": [600])"),
         R"(the id of "<s>" is 600, not within [0, 8), the tokens of the vocabulary)");
}

TEST(TokenizerJson, SaysWhichPieceOfAUnigramModelIsWrong) {
  const auto expect = [](const char* vocab, std::string_view others, std::string_view words) {
    const std::string json = R"({"model": {"type": "Unigram", "vocab": [["a", -1], )" +
                             std::string(vocab) + "]" + std::string(others) + "}}";
    expect_error([&] { return parse_tokenizer_json(json); }, ErrorCode::invalid_data, words);
  };
  expect("5", "", "tokenizer.json: entry 1 of model.vocab is not a piece and its score");
  expect(R"(["b"])", "", "entry 1 of model.vocab is not a piece and its score");
  expect(R"(["b", -1, 0])", "", "entry 1 of model.vocab is not a piece and its score");
  expect(R"([5, -1])", "", "entry 1 of model.vocab is not a piece and its score");
  expect(R"(["b", "-1"])", "", R"(the score of entry 1 of model.vocab, "b", is not a number)");
  expect(R"(["b", -1])", R"(, "unk_id": 2)",
         R"(model.unk_id is 2, not within [0, 2), the tokens of the vocabulary)");
}

TEST(TokenizerJson, CallsCountsByTheirNames) {
  const auto expect = [](const std::string& json, std::string_view words) {
    expect_error([&] { return parse_tokenizer_json(json); }, ErrorCode::invalid_data, words);
  };
  const auto longest = [](const char* value) {
    return R"({"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": {"a": 0},
               "max_input_chars_per_word": )" +
           std::string(value) + "}}";
  };
  expect(longest("-3"),
         "tokenizer.json: max_input_chars_per_word is -3, not within [0, 2147483647)");
  expect(longest("2.5"), "tokenizer.json: max_input_chars_per_word is not a whole number");
  const auto with = [](const char* name, const char* component) {
    return changed(kByteLevel, R"("model")",
                   "\"" + std::string(name) + "\": " + component + R"(, "model")");
  };
  expect(changed(kByteLevel, R"({"type": "ByteLevel", "add_prefix_space": false})",
                 R"({"type": "FixedLength", "length": 5000})"),
         "tokenizer.json: length is 5000, not within [0, 1000)");
  expect(changed(with("decoder", R"({"type": "Strip", "content": " ", "start": -1})"),
                 R"({"type": "ByteLevel", "add_prefix_space": false})", "null"),
         "tokenizer.json: start is -1, not within [0, 1024)");
}

TEST(TokenizerJson, EscapesWhatItQuotes) {
  const auto refuse = [](std::string_view from, std::string_view to, ErrorCode code) {
    expect_error(
        [&] { return make_tokenizer(parse_tokenizer_json(changed(kByteLevel, from, to))); }, code,
        R"(\x1b[2J)");
  };
  refuse("\"BPE\"", R"("\u001b[2J")", ErrorCode::unsupported);
  refuse("\"TemplateProcessing\"", R"("\u001b[2J")", ErrorCode::unsupported);
  refuse("\"he\": 2", R"("\u001b[2J": 1)", ErrorCode::invalid_data);
  refuse("\"he\": 2", R"("\u001b[2J": -1)", ErrorCode::invalid_data);
  refuse("[\"h e\"]", R"(["\u001b[2J"])", ErrorCode::invalid_data);
  expect_error(
      [] {
        return parse_tokenizer_json(kByteLevel, R"({"added_tokens_decoder": {"\u001b[2J": 1}})");
      },
      ErrorCode::invalid_data, R"(\x1b[2J)");
  expect_error([] { return parse_tiktoken_ranks("\x1b[2J\n", "gpt-2"); }, ErrorCode::invalid_data,
               R"(\x1b[2J)");
}

TEST(SentencePieceModel, RefusesByName) {
  const auto refuse = [](std::string_view bytes, ErrorCode code, std::string_view words) {
    expect_error([&] { return make_tokenizer(parse_sentencepiece_model(bytes)); }, code, words);
  };
  const std::string bpe = "\x12\x02\x18\x02";  // trainer_spec.model_type = 2
  const std::string piece =
      "\x0a\x03\x0a\x01"
      "a";                                            // one piece
  const std::string normalizer = "\x1a\x02\x18\x01";  // normalizer_spec.add_dummy_prefix = true
  refuse("", ErrorCode::invalid_data, "no pieces");
  refuse(piece + "\x12\x02\x18\x03" + normalizer, ErrorCode::unsupported, "type 3");
  refuse(bpe + normalizer, ErrorCode::invalid_data, "no pieces");
  refuse(piece + piece, ErrorCode::invalid_data,
         "tokenizer.model looks cut: it ends after 2 pieces without the trainer_spec");
  refuse(piece + bpe, ErrorCode::invalid_data,
         "tokenizer.model looks cut: it ends after 1 pieces without the normalizer_spec");
  refuse("\x0a\x7f", ErrorCode::invalid_data, "cut short");
  refuse("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrorCode::invalid_data, "cut short");
  refuse("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ErrorCode::invalid_data, "cut short");
  refuse("\x0b", ErrorCode::invalid_data, "wire type 3");
  refuse("\x0a\x02\x18\x09" + bpe, ErrorCode::invalid_data, "type 9");
  refuse(piece + bpe + "\x1a\x03\x12\x01x", ErrorCode::invalid_data, "character map");
  EXPECT_EQ(parse_sentencepiece_model(piece + bpe + normalizer).tokens,
            std::vector<std::string>{"a"});
}

// Where SentencePiece looks for its user-defined pieces, spaces are U+2581 already: it never finds
// those that are spelled with a space, and makes the same text of others.
TEST(SentencePieceModel, NeverFindsPiecesSpelledWithSpaces) {
  const auto piece = [](std::string_view text, char type) {
    const auto size = static_cast<char>(text.size());
    const std::string body =
        std::string("\x0a") + size + std::string(text) + std::string("\x18") + type;
    return std::string("\x0a") + static_cast<char>(body.size()) + body;
  };
  // BPE, with a space before the text, all spaces kept.
  const std::string settings = std::string("\x12\x02\x18\x02\x1a\x04\x18\x01\x20") + '\0';
  const std::string model = piece("<unk>", 2) + piece("  ", 4) + piece("<x>", 4) +
                            piece("\u2581", 1) + piece("a", 1) + piece("\u2581\u2581", 1) +
                            settings;
  const auto tokenizer = make_tokenizer(parse_sentencepiece_model(model));
  EXPECT_EQ(tokenizer->encode(" a"), (Ids{5, 4}));
  EXPECT_EQ(tokenizer->encode("<x>  a"), (Ids{3, 2, 5, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 1, 4}), "a  a");
  // Files beside the model may have it matched as it is written.
  TokenizerSpec spec = parse_sentencepiece_model(model);
  apply_side_files({.config = R"({"added_tokens_decoder": {"6": {"content": "b  b"}}})"}, spec);
  EXPECT_EQ(make_tokenizer(spec)->encode("b  b"), (Ids{6}));
  spec = parse_sentencepiece_model(model);
  apply_side_files({.config = R"({"added_tokens_decoder": {"1": {"content": "  "}}})"}, spec);
  EXPECT_EQ(make_tokenizer(spec)->encode("<x>  a"), (Ids{3, 2, 1, 3, 4}));
}

TEST(SentencePieceModel, OfCharactersHasNoLongerPieces) {
  const auto model = [](std::string_view last, char type) {
    std::string bytes;
    for (const auto& [text, kind] : std::vector<std::pair<std::string_view, char>>{
             {"<unk>", 2}, {"\u2581", 1}, {"a", 1}, {last, type}}) {
      const std::string body = std::string("\x0a") + static_cast<char>(text.size()) +
                               std::string(text) + std::string("\x18") + kind;
      bytes += std::string("\x0a") + static_cast<char>(body.size()) + body;
    }
    return bytes + "\x12\x02\x18\x04\x1a\x02\x18\x01";
  };
  EXPECT_EQ(make_tokenizer(parse_sentencepiece_model(model("b", 1)))->encode("ab"), (Ids{1, 2, 3}));
  EXPECT_EQ(make_tokenizer(parse_sentencepiece_model(model("ab", 4)))->encode("ab"), (Ids{1, 3}));
  for (const char type : {'\x01', '\x05'}) {
    try {
      (void)parse_sentencepiece_model(model("ab", type));
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("piece 3 has several: \"ab\""), std::string::npos)
          << error.what();
    }
  }
}

// Cut anywhere, between fields too, a real model is refused.
TEST(SentencePieceModel, RefusesCuts) {
  HASTEN_NEED_SHARED("data");
  for (const char* name :
       {"models/stories260K/tok512.model", "tokenizers/sentencepiece/test_model.model"}) {
    const std::string whole =
        hasten::testing::read_file(hasten::testing::shared_dir() / "data" / name);
    const size_t step = whole.size() / 100;
    for (size_t size = 0; size < whole.size(); size += step) {
      expect_error([&] { return parse_sentencepiece_model(whole.substr(0, size)); },
                   ErrorCode::invalid_data, "fetch it again");
    }
  }
}

TEST(VocabAndMerges, ReadsAndRefuses) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "Ġ": 3, "<s>": 4, "</s>": 5})";
  const std::string merges = "#version: 0.2\na b\r\n";
  EXPECT_EQ(make_tokenizer(parse_vocab_and_merges(vocab, merges))->encode("ab ba"),
            (Ids{2, 3, 1, 0}));
  const auto roberta = make_tokenizer(parse_vocab_and_merges(
      vocab, merges,
      {.config = R"({"tokenizer_class": "RobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
          "added_tokens_decoder": {"4": {"content": "<s>", "special": true},
                                   "6": {"content": "<mask>", "special": true}}})"}));
  EXPECT_EQ(roberta->encode("ab<mask>", {.parse_special = true}), (Ids{4, 2, 6, 5}));
  const auto refuse = [](std::string_view json, std::string_view lines, ErrorCode code,
                         std::string_view words) {
    expect_error([&] { return make_tokenizer(parse_vocab_and_merges(json, lines)); }, code, words);
  };
  refuse("[]", merges, ErrorCode::invalid_data, "vocab.json");
  refuse(R"({"a</w>": 0})", merges, ErrorCode::unsupported, "vocab.json marks the ends of words");
  for (const char* ctrl : {"#version: 0.2\na b</w>\n", "#version: 0.2\na b</w> 300\n"}) {
    refuse(R"({"a@@": 0, "b": 1, "ab": 2})", ctrl, ErrorCode::unsupported,
           "merges.txt marks the ends of words with </w>: such a tokenizer needs its");
  }
  refuse(vocab, "ab\n", ErrorCode::invalid_data, "merge 0");
  refuse(vocab, "a b\na x\n", ErrorCode::invalid_data, "merge 1, \"a x\", needs \"x\"");
  refuse(vocab, "", ErrorCode::invalid_data, "no merges");
}

// EXAONE's vocab.json holds its runs of spaces as they are written, which the config alone tells.
TEST(VocabAndMerges, PiecesAreAddedTokensWhereAFileSaysSo) {
  const std::string vocab = R"({"a": 0, "b": 1, "Ġ": 2, "ĠĠ": 3, "  ": 4})";
  const auto read = [&](const TokenizerSideFiles& files) {
    return make_tokenizer(parse_vocab_and_merges(vocab, "Ġ Ġ\n", files))->encode("a   b");
  };
  EXPECT_EQ(read({}), (Ids{0, 3, 2, 1}));
  EXPECT_EQ(read({.config = R"({"added_tokens_decoder": {"4": {"content": "  "}}})"}),
            (Ids{0, 4, 2, 1}));
  EXPECT_EQ(read({.added_tokens = R"({"  ": 4})"}), (Ids{0, 4, 2, 1}));
  // A config that means another vocabulary adds nothing.
  EXPECT_EQ(read({.config = R"({"added_tokens_decoder": {"4": {"content": "?"}}})"}),
            (Ids{0, 3, 2, 1}));
}

TEST(TekkenJson, ReadsAndRefuses) {
  // "a", "b", "ab", " ", of which the last is beyond the size that the file says.
  const std::string json = R"({
    "config": {"pattern": " ?\\p{L}+|\\s", "num_vocab_tokens": 4, "default_vocab_size": 8,
               "default_num_special_tokens": 5, "version": "v3"},
    "special_tokens": [{"rank": 0, "token_str": "<unk>", "is_control": true},
                       {"rank": 1, "token_str": "<s>", "is_control": true},
                       {"rank": 2, "token_str": "[INST]", "is_control": true}],
    "vocab": [{"rank": 0, "token_bytes": "YQ==", "token_str": "a"},
              {"rank": 1, "token_bytes": "Yg==", "token_str": "b"},
              {"rank": 2, "token_bytes": "YWI=", "token_str": "ab"},
              {"rank": 3, "token_bytes": "IA==", "token_str": " "}]})";
  const auto tokenizer = make_tokenizer(parse_tekken_json(json));
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->encode("aba<SPECIAL_4>[INST]", {.parse_special = true}),
            (Ids{1, 7, 5, 4, 2}));
  EXPECT_EQ(tokenizer->encode("a b"), (Ids{1, 5, 0, 6}));  // no space: it is unknown
  const auto refuse = [&](std::string_view from, std::string_view to, std::string_view words) {
    expect_error([&] { return parse_tekken_json(changed(json, from, to)); },
                 ErrorCode::invalid_data, words);
  };
  refuse("\"default_vocab_size\": 8", "\"default_vocab_size\": 10", "default_vocab_size is 10");
  refuse("YWI=", "YW!=", "entry 2 of vocab");
  expect_error([&] { return make_tokenizer(parse_tekken_json(changed(json, "YWI=", "Yg=="))); },
               ErrorCode::invalid_data, "ranks of tokens 6 and 7 are of the same bytes: \"b\"");
  refuse("\"rank\": 2, \"token_str\"", "\"rank\": 3, \"token_str\"", "special_tokens");
  refuse("\"rank\": 1, \"token_bytes\"", "\"rank\": 2, \"token_bytes\"", "order of its ranks");
  refuse("\"pattern\"", "\"no pattern\"", "tekken.json: \"pattern\"");
  refuse("\"default_vocab_size\": 8", "\"default_vocab_size\": -8",
         "tekken.json: default_vocab_size is -8, not within [0, ");
  refuse("\"default_vocab_size\": 8,", "", "tekken.json: default_vocab_size is missing");
  refuse("\"default_num_special_tokens\": 5", "\"default_num_special_tokens\": 5.5",
         "tekken.json: default_num_special_tokens is not a whole number");
  refuse(R"({"rank": 2, "token_str": "[INST]", "is_control": true})", "5",
         "tekken.json: entry 2 of special_tokens is not an object");
  refuse(
      R"("rank": 2, "token_str")", R"("rank": 3, "token_str")",
      R"(entry 2 of special_tokens, "[INST]", has rank 3: the list is not in the order of its ranks)");
  refuse(R"("rank": 2, "token_str")", R"("rank": "2", "token_str")",
         R"(the rank of entry 2 of special_tokens, "[INST]", is not a whole number)");
  refuse(R"("token_str": "[INST]")", R"("token_str": 5)",
         "the token_str of entry 2 of special_tokens is not a string");
  refuse(R"({"rank": 1, "token_bytes": "Yg==", "token_str": "b"})", "5",
         "tekken.json: entry 1 of vocab is not an object");
  refuse(R"("token_bytes": "Yg==")", R"("token_bytes": 5)",
         "the token_bytes of entry 1 of vocab is not a string");
  refuse(R"("token_bytes": "Yg==")", R"("token_bytes": "Y!==")",
         R"(the token_bytes of entry 1 of vocab are no Base64: "Y!==")");
  refuse(R"("rank": 1, "token_bytes")", R"("rank": 2, "token_bytes")",
         R"(entry 1 of vocab, "b", has rank 2: the list is not in the order of its ranks)");
  // A file that is long enough for them, of nothing.
  const std::string many = changed(changed(json, "size\": 8", "size\": 90000"),
                                   "special_tokens\": 5", "special_tokens\": 90000");
  expect_error([&] { return parse_tekken_json(many + std::string(100'000, ' ')); },
               ErrorCode::invalid_data, "default_num_special_tokens is 90000, of which 3");
}

// a, b, c, abc and d: no two tokens make abc.
TEST(TiktokenRanks, AWordThatIsATokenIsThatToken) {
  const std::string ranks = "YQ== 0\nYg== 1\nYw== 2\nYWJj 3\nZA== 4\n";
  for (const char* pre : {"gpt-2", "gpt-4o", "qwen2", "kimi-k2", "chatglm-bpe", "llama-bpe"}) {
    const auto tokenizer = make_tokenizer(parse_tiktoken_ranks(ranks, pre));
    EXPECT_EQ(tokenizer->encode("abc", {.add_special = false}), (Ids{3})) << pre;
    EXPECT_EQ(tokenizer->encode("abcd", {.add_special = false}), (Ids{0, 1, 2, 4})) << pre;
  }
}

TEST(TiktokenRanks, ReadsAndRefuses) {
  // "a", "b", "ab", " "
  const std::string ranks = "YQ== 0\nYg== 1\r\nYWI= 2\nIA== 3\n";
  const auto tokenizer = make_tokenizer(parse_tiktoken_ranks(ranks, "gpt-2", {"<s>"}));
  EXPECT_EQ(tokenizer->encode("ab ba<s>", {.parse_special = true}), (Ids{2, 3, 1, 0, 4}));
  // p50k_base leaves a rank out.
  EXPECT_EQ(make_tokenizer(parse_tiktoken_ranks("YQ== 0\nYg== 2\n", "gpt-2"))->encode("ab"),
            (Ids{0, 2}));
  const auto refuse = [](std::string_view text, std::string_view words) {
    expect_error([&] { return parse_tiktoken_ranks(text, "gpt-2"); }, ErrorCode::invalid_data,
                 words);
  };
  refuse("YQ== 17\n", "rank 17");
  EXPECT_EQ(parse_tiktoken_ranks("YQ== 15\nYg== 17\n", "gpt-2").tokens.size(), 18U);
  refuse("YQ== 15\nYg== 17\nYw== 19\n", "line 3");
  refuse("YQ== 0\nYg== 0\n", "line 2");
  expect_error(
      [] { return make_tokenizer(parse_tiktoken_ranks("YQ== 0\nYg== 1\nYQ== 3\n", "gpt-2")); },
      ErrorCode::invalid_data, "ranks of tokens 0 and 3 are of the same bytes: \"a\"");
  refuse("YQ= 0\n", "line 1");
  refuse("Y?== 0\n", "line 1");
  refuse("Y=== 0\n", "line 1");
  refuse("YQ==\n", "line 1");
  refuse("YQ== x\n", "line 1");
  refuse("YQ== 99999999999999999999\n", "line 1");
}

TEST(TiktokenFile, ThatLostItsEnd) {
  const auto refuse = [](std::string_view name, const TokenizerSideFiles& files,
                         std::string_view words) {
    expect_error([&] { return parse_tiktoken_file(name, "YQ== 0\nYg== 1\n", files); },
                 ErrorCode::invalid_data, words);
  };
  refuse("qwen.tiktoken", {},
         "qwen.tiktoken holds 2 ranks, a whole qwen.tiktoken has 151643: it looks cut");
  refuse("r50k_base.tiktoken", {}, "a whole r50k_base has 50256");
  const auto config = [](int id) {
    return R"({"tokenizer_class": "ChatGLM4Tokenizer", "added_tokens_decoder": {")" +
           std::to_string(id) + R"(": {"content": "<|user|>", "special": true}}})" +
           std::string(400, ' ');
  };
  const std::string near = config(18);
  const std::string far = config(19);
  EXPECT_EQ(
      parse_tiktoken_file("tokenizer.model", "YQ== 0\nYg== 1\n", {.config = near}).tokens.size(),
      19U);
  refuse("tokenizer.model", {.config = far},
         "tokenizer.model holds 2 ranks, but the first token that the files beside it add, "
         "\"<|user|>\", has id 19: it looks cut; fetch it again");
}

// As configs of models that were trained further do: the family's tokens go without saying.
TEST(TiktokenFile, WithOnlyTheAddedTokensOfTheirOwn) {
  HASTEN_NEED_SHARED("data/tokenizers");
  const std::string qwen = testing::read_tokenizer_file("qwen/qwen.tiktoken");
  TokenizerSpec spec = parse_tiktoken_file(
      "qwen.tiktoken", qwen,
      {.config = R"({"added_tokens_decoder": {"151851": {"content": "<own>", "special": true}}})"});
  EXPECT_EQ(spec.tokens.size(), 151852U);
  EXPECT_EQ(spec.tokens[151644], "<|im_start|>");
  EXPECT_EQ(spec.tokens[151850], "<|extra_204|>");
  EXPECT_EQ(spec.types[151850], static_cast<int32_t>(TokenType::control));
  EXPECT_EQ(spec.tokens[151851], "<own>");
  EXPECT_EQ(spec.eos, 151643);

  const std::string llama3 = testing::read_tokenizer_file("llama3/tokenizer.model");
  spec =
      parse_tiktoken_file("tokenizer.model", llama3,
                          {.config = R"({"bos_token": "<|python_tag|>", "eos_token": "<|im_end|>",
                     "added_tokens_decoder": {"128256": {"content": "<|im_end|>"}}})"});
  EXPECT_EQ(spec.tokens.size(), 128257U);
  EXPECT_EQ(spec.tokens[128009], "<|eot_id|>");
  EXPECT_EQ(spec.eos, 128256);
  EXPECT_EQ(spec.bos, 128010);
  spec = parse_tiktoken_file("tokenizer.model", llama3,
                             {.added_tokens = R"({"<|begin_of_text|>": 128300})"});
  EXPECT_EQ(spec.bos, 128300);
  EXPECT_EQ(spec.tokens[128000], "");  // listed elsewhere
  EXPECT_EQ(spec.tokens[128001], "<|end_of_text|>");
  spec = parse_tiktoken_file("tokenizer.model", llama3, {.added_tokens = R"({"<s>": 128000})"});
  EXPECT_EQ(spec.tokens.size(), 128001U);
}

TEST(TiktokenFile, ThatWasMadeSmaller) {
  const std::string_view ranks = "YQ== 0\nYg== 1\n";
  const auto spec =
      parse_tiktoken_file("qwen.tiktoken", ranks, {.added_tokens = R"({"<|endoftext|>": 2})"});
  EXPECT_EQ(spec.tokens, (std::vector<std::string>{"a", "b", "<|endoftext|>"}));
  EXPECT_THAT(
      spec.doubts,
      ElementsAre("qwen.tiktoken holds 2 ranks, a whole qwen.tiktoken has 151643: taken for "
                  "a smaller one, since the files beside it add tokens right behind"));
  expect_error(
      [&] {
        return parse_tiktoken_file("qwen.tiktoken", ranks, {.added_tokens = R"({"<s>": 3})"});
      },
      ErrorCode::invalid_data, "it looks cut; fetch it again (one that was made smaller needs");
}

TEST(TiktokenFile, PublishedOnesAreWhole) {
  HASTEN_NEED_SHARED("data/tokenizers");
  for (const char* path : {"tiktoken/cl100k_base.tiktoken", "tiktoken/o200k_base.tiktoken",
                           "qwen/qwen.tiktoken", "llama3/tokenizer.model"}) {
    const std::string name = std::string(path).substr(std::string(path).find('/') + 1);
    const std::string ranks = testing::read_tokenizer_file(path);
    EXPECT_GT(parse_tiktoken_file(name, ranks).tokens.size(), 100'000U) << name;
    const std::string cut = ranks.substr(0, ranks.rfind('\n', ranks.size() - 2) + 1);
    try {
      (void)parse_tiktoken_file(name, cut);
      ADD_FAILURE() << name << " without its last line";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("cut"), std::string_view::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace hasten::text
