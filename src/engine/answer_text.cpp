// SPDX-License-Identifier: Apache-2.0
// The way of an answer's text: detokenizer, stop strings, chunk.
#include "engine/answer_text.h"

#include <iterator>
#include <string>
#include <utility>

namespace hasten::engine {

AnswerText::AnswerText(const text::Tokenizer& tokenizer, bool show_special, const StopStrings& stop)
    : tokenizer_(tokenizer),
      show_special_(show_special),
      detokenizer_(tokenizer, {.show_special = show_special}),
      matcher_(stop) {}

bool AnswerText::append(int32_t token, bool may_stop, Chunk& chunk) {
  const bool is_special = tokenizer_.is_special(token);
  std::string text;
  if (is_special) text = detokenizer_.end_character();  // whole or not
  const size_t place = text.size();
  detokenizer_.append(token, text);
  if (is_special) {
    std::string name =
        show_special_ ? text.substr(place) : std::string(tokenizer_.token_bytes(token));
    special_.push_back(
        {num_written_ + static_cast<int64_t>(place), std::move(name), show_special_});
  }
  num_written_ += std::ssize(text);
  return take(matcher_.append(text, may_stop), chunk);
}

void AnswerText::finish(Chunk& chunk) {
  take(matcher_.append(detokenizer_.flush(), false), chunk);
  take({.text = matcher_.flush()}, chunk);
}

bool AnswerText::take(const StopMatcher::Piece& piece, Chunk& chunk) {
  const int64_t chunk_begin = num_certain_ - std::ssize(chunk.text);
  num_certain_ += std::ssize(piece.text);
  chunk.text += piece.text;
  take_special(chunk_begin, chunk);
  if (piece.match == nullptr) return false;
  chunk.stop_string = *piece.match;
  return true;
}

void AnswerText::take_special(int64_t chunk_begin, Chunk& chunk) {
  for (; !special_.empty() && special_.front().offset <= num_certain_; special_.pop_front()) {
    SpecialToken& token = special_.front();
    const auto num_shown = static_cast<size_t>(num_certain_ - token.offset);
    if (token.shown && num_shown < token.name.size()) {
      if (num_shown == 0) return;
      chunk.special.push_back({token.offset - chunk_begin, token.name.substr(0, num_shown), true});
      token.offset = num_certain_;
      token.name.erase(0, num_shown);
      return;
    }
    chunk.special.push_back(std::move(token));
    chunk.special.back().offset -= chunk_begin;
  }
}

}  // namespace hasten::engine
