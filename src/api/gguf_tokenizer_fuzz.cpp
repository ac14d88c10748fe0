// SPDX-License-Identifier: Apache-2.0
// Fuzzes what is read of a GGUF file without weights: its tokenizer and its chat template.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "api/model_files.h"
#include "hasten/error.h"
#include "text/tokenizer.h"

namespace {

void use(const hasten::weights::Checkpoint& checkpoint) {
  (void)hasten::api::display_name(checkpoint);
  (void)hasten::api::read_chat_template(checkpoint);
  const auto tokenizer = hasten::text::make_tokenizer(hasten::api::read_tokenizer_spec(checkpoint));
  const auto tokens =
      tokenizer->encode("Hello  world's <s>\n\xff\u4e2d\u6587 123", {.parse_special = true});
  (void)tokenizer->decode(tokens, /*keep_special=*/true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    use(*hasten::weights::open_gguf(std::as_bytes(std::span(data, size)), "fuzz"));
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
