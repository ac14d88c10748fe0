// SPDX-License-Identifier: Apache-2.0
// The bodies of OpenAI's requests, parsed and checked: every field with its type and range.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hasten/chat.h"
#include "hasten/request.h"
#include "server/server.h"

namespace hasten::server {

/// What a request is checked against.
struct RequestBounds {
  Limits limits;
  int64_t vocab_size = 0;  // of the model: token ids lie below it
  int64_t context = 0;     // tokens that one sequence may reach
};

/// What /v1/chat/completions and /v1/completions have in common.
struct GenerationFields {
  std::string model;  // empty: whichever is served
  bool stream = false;
  bool include_usage = false;  // a stream's last chunk says what was used
  Request request;             // all but its prompt
};

struct ChatRequest {
  GenerationFields common;
  Chat chat;
};

/// Text that is still to be tokenized, or token ids.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  GenerationFields common;
  std::vector<Prompt> prompts;     // at least one
  bool echo = false;               // the answer begins with the prompt
  bool add_special_tokens = true;  // such as BOS, before a text prompt
  bool parse_special = false;      // special tokens written in a text prompt count as such
  bool only_prompt = false;        // max_tokens was 0: only the prompt's own logprobs are wanted
};

/// /tokenize: a text or a conversation.
struct TokenizeRequest {
  std::string model;
  std::variant<std::string, Chat> input;
  bool add_special_tokens = true;
  bool parse_special = false;  // of a text: special tokens written in it count as such
  bool with_strings = false;   // the tokens' texts, too
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
  bool skip_special_tokens = false;
};

/// Parse and check one body. Unknown members are ignored; what would change the answer and is not
/// supported is refused. Throw Error with `param`: invalid_argument for a wrong type or range,
/// unsupported; and invalid_data, without one, for what is not JSON.
ChatRequest parse_chat_request(std::string_view body, const RequestBounds& bounds);
CompletionRequest parse_completion_request(std::string_view body, const RequestBounds& bounds);
TokenizeRequest parse_tokenize_request(std::string_view body, const RequestBounds& bounds);
DetokenizeRequest parse_detokenize_request(std::string_view body, const RequestBounds& bounds);

}  // namespace hasten::server
