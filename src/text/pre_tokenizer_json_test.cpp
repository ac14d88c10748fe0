// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers as tokenizer.json spells them.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace hasten::text {
namespace {

using Ids = std::vector<int32_t>;
using Kind = PreTokenizerStep::Kind;

// A tokenizer of single bytes, with the pieces of two bytes that `text` could be cut into.
TokenizerSpec spec_of(const std::string& pre_tokenizer) {
  return parse_tokenizer_json(R"({"pre_tokenizer": )" + pre_tokenizer + R"(,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "1": 3, "-": 4, "ab": 5, "Ġa": 6,
    "11": 7, "--": 8}, "merges": ["a b", "Ġ a", "1 1", "- -"]}})");
}

std::vector<int32_t> encode(const std::string& pre_tokenizer, std::string_view text) {
  return make_tokenizer(spec_of(pre_tokenizer))->encode(text);
}

std::string before_byte_level(const std::string& components) {
  return R"({"type": "Sequence", "pretokenizers": [)" + components +
         R"(, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
}

TEST(TokenizerJson, ReadsPreTokenizers) {
  const auto steps = [](const std::string& components) {
    PreTokenizerSteps read = *spec_of(before_byte_level(components)).pre_steps;
    EXPECT_EQ(read.back().kind, Kind::byte_alphabet);
    read.pop_back();
    return read;
  };
  EXPECT_EQ(steps(R"({"type": "Digits", "individual_digits": true})"), digits_steps(true));
  EXPECT_EQ(steps(R"({"type": "Digits", "individual_digits": false})"), digits_steps(false));
  EXPECT_EQ(steps(R"({"type": "Punctuation"})"), punctuation_steps(SplitBehavior::isolated));
  EXPECT_EQ(steps(R"({"type": "Punctuation", "behavior": "Contiguous"})"),
            punctuation_steps(SplitBehavior::contiguous));
  EXPECT_EQ(steps(R"({"type": "Whitespace"})"), whitespace_steps());
  EXPECT_EQ(steps(R"({"type": "WhitespaceSplit"})"), whitespace_split_steps());
  EXPECT_EQ(steps(R"({"type": "BertPreTokenizer"})"), bert_steps());
  EXPECT_EQ(steps(R"({"type": "CharDelimiterSplit", "delimiter": "-"})"),
            char_delimiter_steps("-"));
  EXPECT_EQ(steps(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext",
                      "invert": true})"),
            (PreTokenizerSteps{{.pattern = "-",
                                .literal = true,
                                .behavior = SplitBehavior::merged_with_next,
                                .invert = true}}));
  EXPECT_EQ(steps(R"({"type": "Split", "pattern": {"Regex": "\\s+$"}, "behavior": "Removed"})"),
            (PreTokenizerSteps{{.pattern = "\\s+$", .behavior = SplitBehavior::removed}}));
  EXPECT_EQ(spec_of(R"({"type": "ByteLevel"})").pre_steps->front().kind, Kind::add_prefix_space);
}

TEST(TokenizerJson, CutsByThem) {
  EXPECT_EQ(encode(R"({"type": "ByteLevel"})", "ab a"), (Ids{2, 5, 6}));
  EXPECT_EQ(encode(R"({"type": "ByteLevel", "add_prefix_space": false})", "ab a"), (Ids{5, 6}));
  EXPECT_EQ(encode(before_byte_level(R"({"type": "Digits", "individual_digits": true})"), "11"),
            (Ids{3, 3}));
  EXPECT_EQ(encode(before_byte_level(R"({"type": "Digits"})"), "11"), (Ids{7}));
  EXPECT_EQ(encode(before_byte_level(R"({"type": "WhitespaceSplit"})"), "ab a"), (Ids{5, 0}));
  EXPECT_EQ(encode(before_byte_level(R"({"type": "Punctuation"})"), "--a"), (Ids{4, 4, 0}));
  EXPECT_EQ(encode(before_byte_level(R"({"type": "Split", "pattern": {"Regex": "b"},
                                         "behavior": "Isolated"})"),
                   "ab a"),
            (Ids{0, 1, 6}));
}

TEST(TokenizerJson, RefusesPreTokenizers) {
  const auto code = [](const std::string& components) {
    try {
      (void)encode(before_byte_level(components), "a");
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code(R"({"type": "UnicodeScripts"})"), ErrorCode::unsupported);
  EXPECT_EQ(code(R"({"type": "Punctuation", "behavior": "Scattered"})"), ErrorCode::unsupported);
  EXPECT_EQ(code(R"({"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Isolated"})"),
            ErrorCode::unsupported);
  EXPECT_EQ(code(R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})"),
            ErrorCode::invalid_data);
  EXPECT_EQ(code(R"({"type": "Split", "behavior": "Isolated"})"), ErrorCode::invalid_data);
}

}  // namespace
}  // namespace hasten::text
