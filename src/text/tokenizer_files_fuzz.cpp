// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tokenizer file of each format: an Error, or a tokenizer that works.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/error.h"
#include "text/tokenizer.h"

namespace {

// A unigram vocabulary of some letters behind any character map.
hasten::text::TokenizerSpec mapped_unigram(std::string_view map) {
  hasten::text::TokenizerSpec spec;
  spec.kind = hasten::text::TokenizerKind::unigram;
  spec.tokens = {"<unk>", "\u2581", "l", "ll", "o", "ell", "\u2581w", "1"};
  spec.scores = {0, -1, -2, -1.5, -2, -3, -2, -1};
  spec.types = {2, 1, 1, 1, 1, 4, 1, 1};
  spec.unk = 0;
  spec.precompiled_charsmap = map;
  return spec;
}

// The same without a map, and tokens from files beside it.
hasten::text::TokenizerSpec with_side_files(const hasten::text::TokenizerSideFiles& files) {
  hasten::text::TokenizerSpec spec = mapped_unigram("");
  apply_side_files(files, spec);
  return spec;
}

int use(hasten::text::TokenizerSpec spec) {
  const auto tokenizer = hasten::text::make_tokenizer(std::move(spec));
  const auto tokens =
      tokenizer->encode("Hello  world's <s>\n\xff\u4e2d\u6587 123", {.parse_special = true});
  (void)tokenizer->decode(tokens, /*keep_special=*/true);
  return 0;
}

}  // namespace

// The first byte chooses the format; a zero byte parts the files of those that have two.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hasten::text;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const size_t cut = std::min(bytes.find('\0'), bytes.size());
    const std::string_view first = bytes.substr(0, cut);
    const std::string_view second = bytes.substr(std::min(cut + 1, bytes.size()));
    switch (data[0] % 10) {
      case 0:
        return use(parse_sentencepiece_model(bytes));
      case 1:
        return use(parse_tiktoken_ranks(bytes, "gpt-2", {"<s>"}));
      case 2:
        return use(parse_tokenizer_json(first, second));
      case 3:
        return use(parse_vocab_and_merges(first, second));
      case 4:
        return use(parse_rwkv_vocabulary(bytes));
      case 5:
        return use(parse_word_piece_vocabulary(first, {.config = second}));
      case 6: {
        const size_t end = std::min(second.find('\0'), second.size());
        return use(
            with_side_files({.config = first,
                             .special_tokens_map = second.substr(std::min(end + 1, second.size())),
                             .added_tokens = second.substr(0, end)}));
      }
      case 7:
        return use(parse_tiktoken_file("hy.tiktoken", first, {.config = second}));
      case 8:
        return use(parse_tekken_json(bytes));
      default:
        return use(mapped_unigram(bytes));
    }
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) throw;
  }
  return 0;
}
