// SPDX-License-Identifier: Apache-2.0
// For tests and fuzzers: vocabularies of a few tokens, made here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text::testing {

/// Ids 0 to 255 are the bytes; then he ll hell hello Ġhello, <|im_start|> <|im_end|> (control) and
/// <tool> (user-defined), 261 to 263.
inline TokenizerSpec tiny_bpe_spec() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::bpe;
  spec.pre = "qwen2";
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    spec.tokens.push_back(to_gpt2_alphabet({&character, 1}));
  }
  for (const char* token :
       {"he", "ll", "hell", "hello", "Ġhello", "<|im_start|>", "<|im_end|>", "<tool>"}) {
    spec.tokens.emplace_back(token);
  }
  spec.merges = {"h e", "l l", "he ll", "hell o", "Ġ hello"};
  spec.types.assign(spec.tokens.size(), static_cast<int32_t>(TokenType::normal));
  spec.types[261] = spec.types[262] = static_cast<int32_t>(TokenType::control);
  spec.types[263] = static_cast<int32_t>(TokenType::user_defined);
  return spec;
}

/// <unk> <s> </s>, the byte tokens, ▁ a b ab ▁ab xy, and the user-defined a▁b.
inline TokenizerSpec tiny_spm_spec() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::spm;
  const auto add = [&](std::string token, float score, TokenType type) {
    spec.tokens.push_back(std::move(token));
    spec.scores.push_back(score);
    spec.types.push_back(static_cast<int32_t>(type));
  };
  add("<unk>", 0, TokenType::unknown);
  add("<s>", 0, TokenType::control);
  add("</s>", 0, TokenType::control);
  for (const char high : std::string("0123456789ABCDEF")) {
    for (const char low : std::string("0123456789ABCDEF")) {
      add(std::string("<0x") + high + low + '>', 0, TokenType::byte);
    }
  }
  for (const char* piece : {"▁", "a", "b", "ab", "▁ab", "xy"}) {
    add(piece, -static_cast<float>(spec.tokens.size()), TokenType::normal);
  }
  add("a▁b", 0, TokenType::user_defined);
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  return spec;
}

}  // namespace hasten::text::testing
