// SPDX-License-Identifier: Apache-2.0
// Strips the artificial spaces and releases whole characters.
#include "text/detokenizer.h"

#include <utility>

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
  if (bytes.empty()) return;
  if (std::exchange(holds_space_, false)) assembler_.append(" ", out);
  if (tokenizer_.strips_last_space() && bytes.back() == ' ') {
    bytes.remove_suffix(1);
    holds_space_ = true;
  }
  assembler_.append(bytes, out);
}

std::string Detokenizer::append(int32_t id) {
  std::string out;
  append(id, out);
  return out;
}

std::string Detokenizer::end_character() {
  std::string out;
  assembler_.flush(out);
  if (options_.show_special && std::exchange(holds_space_, false)) out.push_back(' ');
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  assembler_.flush(out);
  holds_space_ = false;
  return out;
}

}  // namespace hasten::text
