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
  if (tokenizer_.is_special(token)) {
    const std::string_view name = tokenizer_.token_bytes(token);
    // A character that was not whole stands in the text before a shown token.
    const int64_t before = show_special_ ? std::ssize(text) - std::ssize(name) : 0;
    if (before >= 0 && !name.empty())
      special_.push_back({num_written_ + before, std::string(name), show_special_});
  }
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
