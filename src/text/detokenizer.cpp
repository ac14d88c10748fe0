// SPDX-License-Identifier: Apache-2.0
// Strips the artificial leading space and releases whole characters.
#include "text/detokenizer.h"

namespace hasten::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      strip_space_(options.at_text_start && tokenizer.adds_space_prefix()) {}

void Detokenizer::append(int32_t id, std::string& out) {
  std::string_view bytes = tokenizer_.token_bytes(id);
  const bool repeats = tokenizer_.drops_repeats() && id == last_;
  last_ = id;
  if (repeats || (!options_.show_special && tokenizer_.is_special(id))) return;
  if (strip_space_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    strip_space_ = false;
  }
  assembler_.append(bytes, out);
}

std::string Detokenizer::append(int32_t id) {
  std::string out;
  append(id, out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  assembler_.flush(out);
  return out;
}

}  // namespace hasten::text
