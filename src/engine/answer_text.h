// SPDX-License-Identifier: Apache-2.0
// Tokens to the text of an answer, up to a stop string, and where in it special tokens stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "engine/stop_matcher.h"
#include "hasten/request.h"
#include "text/detokenizer.h"

namespace hasten::engine {

/// One answer. One thread. Borrows the tokenizer and the stop strings.
class AnswerText {
 public:
  AnswerText(const text::Tokenizer& tokenizer, bool show_special, const StopStrings& stop);

  /// Adds to `chunk` the text that is certain with `token`, and the special tokens up to its
  /// end. True if a stop string ended the text: its name is then in the chunk, and nothing may
  /// follow. With `may_stop` false stop strings that are completed now pass as text.
  bool append(int32_t token, bool may_stop, Chunk& chunk);
  /// The answer has ended otherwise: adds what was held back.
  void finish(Chunk& chunk);

 private:
  /// What `append` returns of `piece`.
  bool take(const StopMatcher::Piece& piece, Chunk& chunk);
  /// Moves the special tokens whose place is certain to `chunk`, whose text is at `chunk_begin`.
  void take_special(int64_t chunk_begin, Chunk& chunk);

  const text::Tokenizer& tokenizer_;
  const bool show_special_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  // Stop strings see the text without hidden special tokens. Each of those has its place between
  // two bytes and comes with the chunk whose text gets there; a shown one with its own bytes.
  std::deque<SpecialToken> special_;  // not yet in a chunk; offsets into the whole answer
  int64_t num_written_ = 0;           // bytes that tokens have said
  int64_t num_certain_ = 0;           // bytes of them that went to a chunk
};

}  // namespace hasten::engine
