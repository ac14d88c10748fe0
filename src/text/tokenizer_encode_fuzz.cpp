// SPDX-License-Identifier: Apache-2.0
// Any text through each kind of tokenizer: every byte comes back, control tokens stay out of
// literal ranges, and streaming gives the text of decoding at once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/nfc.h"
#include "text/tiny_vocabularies.h"
#include "text/token_spelling.h"
#include "text/tokenizer.h"

namespace {

using namespace hasten::text;

std::vector<std::unique_ptr<const Tokenizer>> make_tokenizers() {
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "tekken", "falcon",
                          "deepseek-v3", "afmoe", "tiny_aya", "laguna"}) {
    TokenizerSpec spec = hasten::text::testing::tiny_bpe_spec();
    spec.pre = pre;
    spec.normalize_nfc = false;
    tokenizers.push_back(make_tokenizer(std::move(spec)));
  }
  // Names that a text may begin again and again.
  TokenizerSpec named = hasten::text::testing::tiny_bpe_spec();
  named.normalize_nfc = false;
  for (const size_t length : {2, 3, 120, 250}) {
    named.tokens.push_back(std::string(length, 'a') + "b");
    named.types.push_back(static_cast<int32_t>(TokenType::user_defined));
  }
  tokenizers.push_back(make_tokenizer(std::move(named)));
  TokenizerSpec rwkv;
  rwkv.kind = TokenizerKind::rwkv;
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    rwkv.tokens.push_back(to_python_bytes({&character, 1}));
  }
  for (const char* token : {"ab", "abcd", "  ", "\\xe4\\xb8"}) rwkv.tokens.emplace_back(token);
  tokenizers.push_back(make_tokenizer(std::move(rwkv)));
  TokenizerSpec spm = hasten::text::testing::tiny_spm_spec();
  spm.space_prefix = SpacePrefix::none;
  tokenizers.push_back(make_tokenizer(spm));
  spm.kind = TokenizerKind::unigram;
  tokenizers.push_back(make_tokenizer(spm));
  return tokenizers;
}

// U+2581 reads back as a space from a SentencePiece tokenizer, by design.
std::string expected_bytes(const Tokenizer& tokenizer, std::string_view text) {
  const bool spm = tokenizer.find("▁").has_value();
  return spm ? replace_space_symbol(text) : std::string(text);
}

// No control token, whose bytes are its name, stands in a literal range, not even in part. Ranges
// are in bytes of the text: it has to come back as it is.
void check_literal(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                   std::span<const TextRange> literal) {
  int64_t begin = 0;
  for (const int32_t token : tokens) {
    const int64_t end = begin + std::ssize(tokenizer.token_bytes(token));
    for (const TextRange& range : literal) {
      const bool overlaps = std::max(begin, range.begin) < std::min(end, range.end);
      HASTEN_CHECK(!tokenizer.is_special(token) || !overlaps);
    }
    begin = end;
  }
}

void check(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  const std::vector<int32_t> tokens = tokenizer.encode(text, options);
  std::string bytes;
  size_t specials = 0;
  Detokenizer detokenizer(tokenizer, {.show_special = true, .at_text_start = true});
  std::string streamed;
  for (const int32_t token : tokens) {
    bytes += tokenizer.token_bytes(token);
    specials += tokenizer.is_special(token) ? 1 : 0;
    streamed += detokenizer.append(token);
  }
  streamed += detokenizer.flush();
  HASTEN_CHECK(bytes == expected_bytes(tokenizer, text));
  HASTEN_CHECK(streamed == tokenizer.decode(tokens, /*keep_special=*/true));
  HASTEN_CHECK(options.parse_special || specials == 0);
  if (bytes == text) check_literal(tokenizer, tokens, options.literal);
}

}  // namespace

// The first two bytes place a literal range, the third chooses the tokenizer; the rest is the text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = make_tokenizers();
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto clamp = [&](size_t at) { return static_cast<int64_t>(std::min(at, text.size())); };
  const std::vector<TextRange> everything{{0, clamp(text.size())}};
  const std::vector<TextRange> part{{clamp(data[0]), clamp(size_t{data[0]} + data[1])}};
  const Tokenizer& tokenizer = *tokenizers[data[2] % tokenizers.size()];
  check(tokenizer, text, {.add_special = false});
  check(tokenizer, text, {.add_special = false, .parse_special = true, .literal = part});
  HASTEN_CHECK(
      tokenizer.encode(text, {.add_special = false}) ==
      tokenizer.encode(text, {.add_special = false, .parse_special = true, .literal = everything}));
  for (const NormalizationForm form :
       {NormalizationForm::nfd, NormalizationForm::nfkc, NormalizationForm::nfkd}) {
    const std::string normalized = to_normalization_form(text, form);
    HASTEN_CHECK(to_normalization_form(normalized, form) == normalized);
  }
  const std::string nfc = to_nfc(text);
  HASTEN_CHECK(to_nfc(nfc) == nfc);
  return 0;
}
