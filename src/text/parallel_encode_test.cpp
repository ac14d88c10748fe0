// SPDX-License-Identifier: Apache-2.0
// Texts in parts and texts beside each other: the tokens of one thread, whatever the tokenizer, the
// parts and their order.
#include "text/parallel_encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "hasten_test/random_inputs.h"
#include "text/oracles/random_text.h"
#include "text/parted_text.h"
#include "text/pre_tokenizer.h"
#include "text/split_segment.h"
#include "text/tiny_vocabularies.h"

namespace hasten::text {
namespace {

using testing::RandomText;
using Ids = std::vector<int32_t>;

/// Bytes and thousands of their sequences in random text, within words and across: another cut of a
/// text is other tokens.
std::vector<std::string> pieces_of_random_text(size_t longest) {
  RandomText random(11);
  std::set<std::string> pieces;
  while (pieces.size() < 4000) {
    const std::string text = random.next(8);
    for (size_t at = 0; at + 1 < text.size(); ++at) {
      pieces.insert(text.substr(at, 2 + at % (longest - 1)));
    }
  }
  return {pieces.begin(), pieces.end()};
}

TokenizerSpec byte_level_spec(std::string_view pre) {
  TokenizerSpec spec = testing::tiny_bpe_spec();
  spec.pre = pre;
  spec.merges.clear();
  spec.merges_by_rank = true;
  const std::set<std::string> tiny(spec.tokens.begin(), spec.tokens.end());
  for (const std::string& piece : pieces_of_random_text(6)) {
    if (tiny.contains(to_gpt2_alphabet(piece))) continue;
    spec.tokens.push_back(to_gpt2_alphabet(piece));
    spec.types.push_back(static_cast<int32_t>(TokenType::normal));
  }
  return spec;
}

Ids encode_in_parts(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options,
                    size_t num_parts, size_t* num_jobs) {
  PartedText parted(tokenizer, text, options, num_parts);
  *num_jobs = parted.num_jobs();
  for (size_t i = *num_jobs; i-- > 0;) parted.do_job(i);
  return parted.take_tokens();
}

/// Compares random texts in two to nine parts with the whole. `is_parted`: whether this tokenizer
/// can part a stretch of text.
void expect_same(const TokenizerSpec& spec, const std::string& name, bool is_parted = true) {
  const auto tokenizer = make_tokenizer(spec);
  const size_t num_texts = hasten::testing::num_random_texts(400);
  RandomText random(hasten::testing::random_seed(23));
  size_t num_jobs = 0;
  for (size_t i = 0; i < num_texts; ++i) {
    std::string text = random.next(60);
    if (i % 7 == 0) text.insert(text.size() / 2, "<|im_end|>hello <tool>");
    if (i % 5 == 0) text.insert(text.size() / 3, "\xff\xe4\xb8");
    const EncodeOptions options{.add_special = i % 2 == 0, .parse_special = i % 3 == 0};
    ASSERT_EQ(encode_in_parts(*tokenizer, text, options, 2 + i % 8, &num_jobs),
              tokenizer->encode(text, options))
        << name << ", text " << i << " in " << 2 + i % 8 << " parts: \"" << text << "\"";
  }
  std::string plain;
  while (plain.size() < 1000) plain += "the end of a word ";
  EXPECT_EQ(encode_in_parts(*tokenizer, plain, {}, 4, &num_jobs), tokenizer->encode(plain)) << name;
  EXPECT_EQ(num_jobs > 1, is_parted) << name;
}

TEST(PartedText, EveryNamedPreTokenizer) {
  std::set<std::vector<std::string_view>> seen;
  for (const PreTokenizer& known : known_pre_tokenizers()) {
    const auto& cuts = known.expressions;
    if (!seen.insert({cuts.begin(), cuts.end()}).second) continue;
    // That of superbpe cuts at digits alone.
    expect_same(byte_level_spec(known.name), std::string(known.name), known.name != "superbpe");
  }
  EXPECT_GT(seen.size(), 20U);
}

TEST(PartedText, ByteLevelStepsOfTokenizerJson) {
  TokenizerSpec spec = byte_level_spec("gpt-2");
  for (const bool add_prefix_space : {false, true}) {
    for (const bool use_regex : {false, true}) {
      spec.pre_steps = digits_steps(/*individual_digits=*/true);
      const PreTokenizerSteps rest = byte_level_steps(add_prefix_space, use_regex);
      spec.pre_steps->insert(spec.pre_steps->end(), rest.begin(), rest.end());
      expect_same(spec, "digits and byte level", use_regex);
    }
  }
}

TEST(PartedText, Normalized) {
  TokenizerSpec spec = byte_level_spec("gpt-2");
  spec.normalizers = {{.kind = NormalizerStep::Kind::nfc}};
  expect_same(spec, "NFC");
  spec.normalizers = {{.kind = NormalizerStep::Kind::lowercase}};
  spec.added_token_rules = {{.id = 263, .normalized = true}};  // <tool>
  expect_same(spec, "lower case, and a token of normalized text");
}

// Pieces of SentencePiece's kind, with scores, spaces at the front only unless `spaces_inside`.
TokenizerSpec sentencepiece_spec(bool spaces_inside) {
  TokenizerSpec spec = testing::tiny_spm_spec();
  spec.tokens.back() = "<tool>";
  std::set<std::string> known(spec.tokens.begin(), spec.tokens.end());
  for (std::string piece : pieces_of_random_text(5)) {
    piece = replace_space_symbol(piece);
    const size_t word = std::min(piece.find_first_not_of(' '), piece.size());
    if (!spaces_inside && piece.find(' ', word) < piece.size()) continue;
    std::string spelled;
    for (const char c : piece) c == ' ' ? spelled += "▁" : spelled += c;
    if (!known.insert(spelled).second) continue;
    spec.tokens.push_back(spelled);
    spec.scores.push_back(-static_cast<float>(spec.tokens.size() % 977));
    spec.types.push_back(static_cast<int32_t>(TokenType::normal));
  }
  return spec;
}

TEST(PartedText, SentencePieceBpeAtSpaces) {
  TokenizerSpec spec = sentencepiece_spec(false);
  expect_same(spec, "SentencePiece BPE");
  spec.space_prefix = SpacePrefix::none;
  spec.remove_extra_whitespaces = true;
  expect_same(spec, "SentencePiece BPE without spaces");
  // Unknown characters are one token, however many parts they are in.
  for (int32_t& type : spec.types) {
    if (type == static_cast<int32_t>(TokenType::byte)) type = 5;
  }
  expect_same(spec, "SentencePiece BPE without bytes");
}

TEST(PartedText, SentencePieceWithSpacesInsideIsWhole) {
  expect_same(sentencepiece_spec(true), "SentencePiece BPE of phrases", /*is_parted=*/false);
  TokenizerSpec spec = sentencepiece_spec(false);
  spec.tokens.back() = "the▁The";
  spec.types.back() = static_cast<int32_t>(TokenType::user_defined);
  expect_same(spec, "a user-defined phrase", /*is_parted=*/false);
}

TEST(PartedText, Unigram) {
  TokenizerSpec spec = sentencepiece_spec(false);
  spec.kind = TokenizerKind::unigram;
  expect_same(spec, "Unigram", /*is_parted=*/false);
  spec.pre_steps = metaspace_steps("▁", PrependScheme::always, /*split=*/true);
  expect_same(spec, "Unigram of words");
}

TEST(PartedText, WordsOfOtherKinds) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::word_piece;
  spec.continuing_subword_prefix = "##";
  spec.tokens = {"[UNK]", "the", "##ing", "a", "##a", "##b", "http", ".", "##1", "1", "2", "'"};
  spec.unk = 0;
  expect_same(spec, "WordPiece");
  spec.kind = TokenizerKind::word_level;
  spec.pre_steps = whitespace_steps();
  expect_same(spec, "WordLevel");
  spec.kind = TokenizerKind::character_bpe;
  spec.continuing_subword_prefix = "";
  spec.tokens = {"[UNK]", "t", "h", "e", "th", "the", "a", "i", "n", "in"};
  spec.merges = {"t h", "i n", "th e"};
  spec.fuse_unk = true;
  expect_same(spec, "BPE over characters");
}

TEST(PartedText, RwkvWorld) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::rwkv;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != 'q')
      spec.tokens.push_back(to_python_bytes(std::string(1, static_cast<char>(byte))));
  }
  for (const std::string& piece : pieces_of_random_text(7)) {
    spec.tokens.push_back(to_python_bytes(piece));
  }
  expect_same(spec, "RWKV");
}

// Words as long as the text: a part begins where no word does, and finds none of its own.
TEST(PartedText, RunsOfOneCharacter) {
  const auto tokenizer = make_tokenizer(byte_level_spec("llama-bpe"));
  for (const char* unit : {"a", " ", "\n", "中", "!", "1", "\xff", "hello "}) {
    std::string text;
    while (text.size() < 50'000) text += unit;
    size_t num_jobs = 0;
    EXPECT_EQ(encode_in_parts(*tokenizer, text, {}, 7, &num_jobs), tokenizer->encode(text)) << unit;
    EXPECT_EQ(num_jobs, 7U);
  }
}

// Words between spaces, a token a byte: what is encoded is little more than the text.
TEST(SplitSegment, LongWordsAreEncodedOnce) {
  const std::string word(1 << 20, 'a');
  for (const std::string& text :
       {word, "some words " + word, word + " and others", word + " " + word}) {
    size_t encoded = 0;
    const auto split = split_at_steps(text, 8, [&]() -> EncodeStep {
      return [&](std::string_view whole, size_t at, size_t limit, Ids& out) -> size_t {
        const size_t end = std::min(whole.find(' ', at + 1), whole.size());
        if (end > limit) return 0;
        encoded += end - at;
        for (size_t i = at; i < end; ++i) out.push_back(static_cast<int32_t>(i));
        return end - at;
      };
    });
    EXPECT_EQ(split->num_parts(), 8U);
    for (size_t i = 0; i < 8; ++i) split->encode_part(i);
    Ids tokens, expected(text.size());
    split->append_to(tokens);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(tokens, expected);
    EXPECT_LT(encoded, text.size() / 2 * 3);
  }
}

TEST(EncodeAll, TextsOfEveryLengthOnThreads) {
  const auto tokenizer = make_tokenizer(byte_level_spec("gpt-4o"));
  RandomText random(5);
  std::vector<std::string> texts(40);
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t bytes = i == 7 || i == 30 ? size_t{3} << 20 : i * 100;
    while (texts[i].size() < bytes) texts[i] += random.next(40);
  }
  texts[30].insert(1 << 20, "<|im_end|>");
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<Ids> expected;
  for (const std::string& text : texts) {
    expected.push_back(tokenizer->encode(text, {.parse_special = true}));
  }
  for (const int num_threads : {0, 1, 2, 5}) {
    EXPECT_EQ(encode_all(*tokenizer, views, {.parse_special = true}, num_threads), expected)
        << num_threads;
  }
  EXPECT_TRUE(encode_all(*tokenizer, {}).empty());
}

TEST(EncodeAll, Refuses) {
  const auto tokenizer = make_tokenizer(testing::tiny_bpe_spec());
  const std::vector<std::string_view> texts{"a"};
  const std::vector<TextRange> range{{0, 1}};
  EXPECT_THROW(encode_all(*tokenizer, texts, {.literal = range}), Error);
  EXPECT_THROW(encode_all(*tokenizer, texts, {}, 257), Error);
  EXPECT_THROW(encode_all(*tokenizer, texts, {}, -1), Error);
  // What one text throws comes out: a thousandfold is more than a normalizer may make.
  TokenizerSpec spec = testing::tiny_bpe_spec();
  spec.normalizers = {
      {.kind = NormalizerStep::Kind::replace, .pattern = "a", .content = std::string(1000, 'b')}};
  const auto growing = make_tokenizer(spec);
  const std::string many(1000, 'a');
  EXPECT_THROW(encode_all(*growing, std::vector<std::string_view>{"x", many, "y"}, {}, 2), Error);
  // Of several, the first; the limit in its error is that of its length.
  const std::string long_text(size_t{1} << 20, 'a');
  try {
    (void)encode_all(*growing, std::vector<std::string_view>{"x", many, long_text}, {}, 2);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("more than 97536 bytes"), std::string_view::npos)
        << error.what();
  }
  EXPECT_THROW(encode_all(*growing, std::vector<std::string_view>{"x", long_text}, {}, 2), Error);
}

}  // namespace
}  // namespace hasten::text
