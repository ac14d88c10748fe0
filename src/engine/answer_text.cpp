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
  const std::string text = detokenizer_.append(token);
  if (!show_special_ && tokenizer_.is_special(token))
    hidden_.push_back({num_written_, std::string(tokenizer_.token_bytes(token))});
  num_written_ += std::ssize(text);
  return take(matcher_.append(text, may_stop), chunk);
}

void AnswerText::finish(Chunk& chunk) {
  take(matcher_.append(detokenizer_.flush(), false), chunk);
  take({.text = matcher_.flush()}, chunk);
}

bool AnswerText::take(StopMatcher::Piece piece, Chunk& chunk) {
  const int64_t chunk_begin = num_certain_ - std::ssize(chunk.text);
  num_certain_ += std::ssize(piece.text);
  chunk.text += piece.text;
  for (; !hidden_.empty() && hidden_.front().offset <= num_certain_; hidden_.pop_front()) {
    chunk.hidden.push_back(std::move(hidden_.front()));
    chunk.hidden.back().offset -= chunk_begin;
  }
  if (piece.match == nullptr) return false;
  chunk.stop_string = *piece.match;
  return true;
}

}  // namespace hasten::engine
