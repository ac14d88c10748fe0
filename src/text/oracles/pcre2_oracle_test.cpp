// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer scanners against PCRE2 on the expressions that they stand for.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hasten_test/random_inputs.h"
#include "text/oracles/random_text.h"
#include "text/pre_tokenizer.h"

namespace hasten::text {
namespace {

// The property White_Space spelled out: PCRE2's own \s also takes U+180E.
#define WS \
  R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define WHITE_SPACE "[" WS "]+(?![^" WS "])|[" WS "]+"
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" WS R"(\p{L}\p{N}]+|)" WHITE_SPACE
// Digits are cut out first, so that what stands before one ends there.
#define GPT2_DIGITS                                                                       \
  R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^)" WS R"(\p{L}\p{N}]+|[)" WS "]+(?![^" WS \
  R"(\p{N}]))"                                                                            \
  "|[" WS "]+"
#define LLAMA3(DIGITS)                                                             \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" DIGITS R"(| ?[^)" WS \
  R"(\p{L}\p{N}]+[\r\n]*|[)" WS R"(]*[\r\n]+|)" WHITE_SPACE
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define O200K(SUFFIX, DIGITS)                                                                 \
  R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" SUFFIX R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER \
  "*" SUFFIX "|" DIGITS R"(| ?[^)" WS R"(\p{L}\p{N}]+[\r\n/]*|[)" WS R"(]*[\r\n]+|)" WHITE_SPACE

class Expression {
 public:
  explicit Expression(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (!code_)
      throw std::runtime_error("PCRE2 refuses the expression at " + std::to_string(offset));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  /// The lengths of all matches, which must cover the text.
  std::vector<size_t> words(std::string_view text) const {
    std::vector<size_t> lengths;
    for (size_t at = 0; at < text.size();) {
      const int found =
          pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                      PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      if (found < 0) throw std::runtime_error("the expression does not match");
      const size_t end = pcre2_get_ovector_pointer(match_.get())[1];
      lengths.push_back(end - at);
      at = end;
    }
    return lengths;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

std::vector<size_t> scan(WordScanner scanner, std::string_view text) {
  std::vector<size_t> lengths;
  while (!text.empty()) {
    lengths.push_back(first_word_length(scanner, text));
    text.remove_prefix(lengths.back());
  }
  return lengths;
}

struct Case {
  const char* name;
  WordScanner scanner;
  std::string_view pattern;
};

class Pcre2Oracle : public ::testing::TestWithParam<Case> {};

TEST_P(Pcre2Oracle, SameWords) {
  const size_t num_texts = hasten::testing::num_random_texts(150000);
  const Expression expression(GetParam().pattern);
  testing::RandomText random(hasten::testing::random_seed(20240607));
  for (size_t i = 0; i < num_texts; ++i) {
    const std::string text = random.next(24);
    ASSERT_EQ(scan(GetParam().scanner, text), expression.words(text))
        << "text " << i << ": " << text;
  }
  std::printf("%s: %zu random texts\n", GetParam().name, num_texts);
}

// Every character of the planes that have any (of the others one in 97) alone, between letters,
// between spaces and after an apostrophe.
TEST_P(Pcre2Oracle, EveryCharacter) {
  const Expression expression(GetParam().pattern);
  for (uint32_t code_point = 1; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    const bool sparse = code_point >= 0x32000 && (code_point < 0xE0000 || code_point > 0xE0200);
    if (sparse && code_point % 97 != 0) continue;
    std::string c;
    append_utf8(c, code_point);
    const std::string text = c + "a" + c + c + " " + c + "1" + c + "\n" + c + "'" + c;
    ASSERT_EQ(scan(GetParam().scanner, text), expression.words(text)) << std::hex << code_point;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scanners, Pcre2Oracle,
    ::testing::Values(Case{"gpt2", WordScanner::gpt2, GPT2},
                      Case{"gpt2_digits", WordScanner::gpt2_digits, GPT2_DIGITS},
                      Case{"llama3", WordScanner::llama3, LLAMA3(R"(\p{N}{1,3})")},
                      Case{"qwen2", WordScanner::qwen2, LLAMA3(R"(\p{N})")},
                      Case{"o200k", WordScanner::o200k,
                           O200K("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", R"(\p{N}{1,3})")},
                      Case{"tekken", WordScanner::tekken, O200K("", R"(\p{N})")}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace hasten::text
