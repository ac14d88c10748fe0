// SPDX-License-Identifier: Apache-2.0
// Runs engine requests for one HTTP request and answers with what they generate, in the shape that
// an API family gives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hasten/engine.h"
#include "server/chunk_queue.h"
#include "server/context.h"
#include "server/http.h"

namespace hasten::server {

/// Gives the chunks of a generation the form of one API. On one strand.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// Takes the next chunk, in order. Returns the events that a stream sends for it; a whole answer
  /// does not ask for them.
  virtual std::string add(const Arrival& arrival) = 0;
  /// What a stream sends after its last chunk. `usage`: all requests together.
  virtual std::string stream_end(const Usage& usage) = 0;
  /// What a stream sends when it fails midway; nothing follows.
  virtual std::string stream_error(const std::string& error_json) = 0;
  /// The answer as one body, after its last chunk.
  virtual std::string body(const Usage& usage) = 0;
};

/// Submits `requests` and answers `exchange` with what `writer` makes of their chunks, as a stream
/// of events or whole. The requests are cancelled when the client leaves, which ends this by an
/// exception. Throws Error or ApiError for what goes wrong before the first byte is sent.
Task<> answer_generation(Context& context, Exchange& exchange, std::vector<Request> requests,
                         AnswerWriter& writer, bool stream);

/// Throws ApiError with code context_length_exceeded when a prompt leaves no room for an answer.
void check_context(const Context& context, const std::vector<int32_t>& prompt,
                   const std::string& param);

}  // namespace hasten::server
