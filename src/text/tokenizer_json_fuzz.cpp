// SPDX-License-Identifier: Apache-2.0
// Any bytes as tokenizer.json, tokenizer.model or rank file: an Error, or a tokenizer that works.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/error.h"
#include "text/tokenizer.h"

namespace {

void use(hasten::text::TokenizerSpec spec) {
  const auto tokenizer = hasten::text::make_tokenizer(std::move(spec));
  const auto tokens =
      tokenizer->encode("Hello  world's <s>\n\xff\u4e2d\u6587 123", {.parse_special = true});
  (void)tokenizer->decode(tokens, /*keep_special=*/true);
}

}  // namespace

// The first byte chooses the format; a zero byte parts tokenizer.json from tokenizer_config.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hasten::text;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      use(parse_sentencepiece_model(bytes));
    } else if (data[0] % 3 == 1) {
      use(parse_tiktoken_ranks(bytes, "gpt-2", {"<s>"}));
    } else {
      const size_t cut = std::min(bytes.find('\0'), bytes.size());
      const size_t config = std::min(cut + 1, bytes.size());
      use(parse_tokenizer_json(bytes.substr(0, cut), bytes.substr(config)));
    }
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) throw;
  }
  return 0;
}
