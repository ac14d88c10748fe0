// SPDX-License-Identifier: Apache-2.0
// The pieces of OpenAI's answers that its API families share: usage, logprobs, finish reasons.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "hasten/engine.h"

namespace hasten::server {

/// Length of the well-formed UTF-8 sequence at the start of `bytes`, which are not empty; 0: there
/// is none (Unicode, table 3-7).
std::size_t sequence_length(std::string_view bytes);

/// `bytes` with what is not UTF-8 replaced by U+FFFD, as JSON wants its text.
std::string to_utf8(std::string_view bytes);
/// A token's bytes as text; "bytes:\\xNN…" for those that are no UTF-8, such as a part of a
/// character, so that each token keeps a name of its own.
std::string token_name(std::string_view bytes);

/// `bytes` with each that is no UTF-8 as \xNN, as hasten tokenize shows tokens.
std::string with_escapes(std::string_view bytes);

/// Counts the characters of a text that comes in pieces, which may split them.
class CharacterCount {
 public:
  void add(std::string_view bytes);
  /// Those that are complete, and what is not UTF-8 as to_utf8 replaces it.
  int64_t whole() const { return whole_; }

 private:
  int64_t whole_ = 0;
  std::string rest_;  // the beginning of a character
};

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}
json::Object usage_json(const Usage& usage);
/// "stop" or "length"; null while there is more to come.
json::Value finish_reason_json(Finish finish);
/// A logarithm as a JSON number: infinities and NaN, which JSON has not, become -9999.
double finite_logprob(float logprob);
/// How many of a chunk's tokens belong to its text: all but the one that ended the answer.
std::size_t num_text_tokens(const Chunk& chunk);

/// The fields that each object of a generation carries.
struct AnswerHeader {
  std::string id;         // "chatcmpl-…"
  std::string_view kind;  // "chat.completion.chunk"
  int64_t created_s = 0;  // Unix time
  std::string model;

  /// {"id", "object", "created", "model", "system_fingerprint"}
  json::Object json() const;
};

/// What a stream ends with: a chunk without choices that tells the usage, unless that is null, and
/// [DONE].
std::string last_events(const AnswerHeader& header, const Usage* usage);

}  // namespace hasten::server
