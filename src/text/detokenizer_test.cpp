// SPDX-License-Identifier: Apache-2.0
// Incremental text: whole characters, replacement of malformed bytes, the artificial space.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/tiny_vocabularies.h"

namespace hasten::text {
namespace {

std::string assemble(std::string_view bytes, size_t step) {
  Utf8Assembler assembler;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    assembler.append(bytes.substr(at, step), out);
  }
  assembler.flush(out);
  return out;
}

// The examples of the Unicode Standard, tables 3-8 to 3-11, and those of the WHATWG decoder.
TEST(Utf8Assembler, ReplacesMaximalSubparts) {
  const std::string r = "\uFFFD";
  const std::pair<std::string, std::string> cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"caf\xC3\xA9 \xF0\x9F\x98\x80", "café \U0001F600"},
      {"\xF0\x9F\x98", r},
  };
  for (const auto& [bytes, expected] : cases) {
    for (size_t step = 1; step <= bytes.size(); ++step) EXPECT_EQ(assemble(bytes, step), expected);
  }
}

TEST(Utf8Assembler, SameTextHoweverTheBytesArrive) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; --n) {
      constexpr std::string_view kBytes = "aZ\x80\xA0\x9F\xBF\xC3\xE2\xED\xF0\xF4\xFF";
      bytes.push_back(kBytes[random() % kBytes.size()]);
    }
    const std::string whole = assemble(bytes, std::max<size_t>(bytes.size(), 1));
    for (size_t step = 1; step < bytes.size(); ++step) ASSERT_EQ(assemble(bytes, step), whole);
    for (std::string_view rest = whole; !rest.empty();) {
      const Utf8Char c = decode_utf8(rest);
      ASSERT_TRUE(c.valid);
      rest.remove_prefix(c.length);
    }
  }
}

TEST(Detokenizer, HoldsBackHalfCharacters) {
  const auto tokenizer = make_tokenizer(testing::tiny_bpe_spec());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.append(259), "hello");
  EXPECT_EQ(detokenizer.append(0xF0), "");
  EXPECT_EQ(detokenizer.append(0x9F), "");
  EXPECT_EQ(detokenizer.append(0xA6), "");
  EXPECT_EQ(detokenizer.append(0x99), "\U0001F999");
  EXPECT_EQ(detokenizer.append(0xC3), "");
  EXPECT_EQ(detokenizer.append('x'), "\uFFFDx");
  EXPECT_EQ(detokenizer.append(0xE2), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, ShowsSpecialTokensWhenAsked) {
  const auto tokenizer = make_tokenizer(testing::tiny_bpe_spec());
  EXPECT_EQ(Detokenizer(*tokenizer).append(261), "");
  EXPECT_EQ(Detokenizer(*tokenizer, {.show_special = true}).append(261), "<|im_start|>");
  EXPECT_EQ(Detokenizer(*tokenizer).append(263), "<tool>");
}

TEST(Detokenizer, StripsTheArtificialSpaceOnce) {
  const auto tokenizer = make_tokenizer(testing::tiny_spm_spec());
  const int32_t word = tokenizer->find("▁ab").value();
  Detokenizer start(*tokenizer, {.at_text_start = true});
  EXPECT_EQ(start.append(tokenizer->bos()), "");
  EXPECT_EQ(start.append(word), "ab");
  EXPECT_EQ(start.append(word), " ab");
  Detokenizer continuation(*tokenizer);
  EXPECT_EQ(continuation.append(word), " ab");
}

// What Strip with stop does to a text, and a decoder of words that end with a space.
TEST(Detokenizer, LeavesTheLastSpaceAsDecodeDoes) {
  TokenizerSpec spec = testing::tiny_bpe_spec();
  spec.decoders = DecoderSteps{{.kind = DecoderStep::Kind::byte_level},
                               {.kind = DecoderStep::Kind::fuse},
                               {.kind = DecoderStep::Kind::strip, .content = " ", .stop = 1}};
  const auto tokenizer = make_tokenizer(spec);
  std::mt19937_64 random(6);
  for (int i = 0; i < 5000; ++i) {
    std::vector<int32_t> tokens;
    for (size_t n = random() % 8; n > 0; --n) {
      constexpr int32_t kTokens[] = {' ', ' ', ' ', 'a', 0xE2, 0x80, 260, 261};
      tokens.push_back(kTokens[random() % std::size(kTokens)]);
    }
    for (const bool show_special : {false, true}) {
      Detokenizer detokenizer(*tokenizer, {.show_special = show_special});
      std::string streamed;
      for (const int32_t token : tokens) detokenizer.append(token, streamed);
      streamed += detokenizer.flush();
      ASSERT_EQ(streamed, tokenizer->decode(tokens, show_special));
      EXPECT_EQ(detokenizer.flush(), "");
    }
  }
  // Where a control token stands behind a space, that is the last only if nothing follows.
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.append('a'), "a");
  EXPECT_EQ(detokenizer.append(' '), "");
  EXPECT_EQ(detokenizer.end_character(), "");
  EXPECT_EQ(detokenizer.append(261), "");
  EXPECT_EQ(detokenizer.append('b'), " b");
  Detokenizer showing(*tokenizer, {.show_special = true});
  EXPECT_EQ(showing.append(' '), "");
  EXPECT_EQ(showing.append(0xE2), " ");
  EXPECT_EQ(showing.append(' '), "");
  EXPECT_EQ(showing.end_character(), "\uFFFD ");
  EXPECT_EQ(showing.append(261), "<|im_start|>");
}

}  // namespace
}  // namespace hasten::text
