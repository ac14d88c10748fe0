// SPDX-License-Identifier: Apache-2.0
// What is asked of an engine, and what it answers: plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hasten {

/// How the next token is chosen from its logits. Applied in this order: logit bias, penalties,
/// temperature, top-k, typical, top-p, min-p, draw. The same seed gives the same text, whatever
/// else runs.
struct Sampling {
  float temperature = 1.0F;         // [0, 100]; 0: the likeliest token always (greedy)
  int32_t top_k = 0;                // the k likeliest only; 0: all
  float top_p = 1.0F;               // (0, 1]; the likeliest tokens that together reach p
  float min_p = 0.0F;               // [0, 1]; at least min_p times as likely as the likeliest
  float typical_p = 1.0F;           // (0, 1]; locally typical sampling (Meister et al., 2022)
  float repetition_penalty = 1.0F;  // (0, 10]; divides positive logits of tokens seen before
  float presence_penalty = 0.0F;    // [-2, 2]; subtracted once for tokens generated before
  float frequency_penalty = 0.0F;   // [-2, 2]; subtracted once for each time generated before
  std::vector<std::pair<int32_t, float>> logit_bias;  // token id, added to its logit
  std::optional<uint64_t> seed;                       // none: a fresh one for each request
};

struct Request {
  std::vector<int32_t> prompt;  // token ids; at least one, and fewer than the context
  Sampling sampling;
  int64_t max_tokens = 0;            // tokens to generate at most; 0: until the context is full
  int64_t min_tokens = 0;            // no end token, stop token or stop string before so many
  std::vector<std::string> stop;     // text that ends the answer; left out of it
  std::vector<int32_t> stop_tokens;  // tokens that end the answer; left out of its text
  bool ignore_eos = false;           // the model's own end tokens do not end the answer
  bool show_special = false;         // special tokens appear in the text, none is hidden
  int32_t n = 1;                     // independent answers, [1, 128]
  int32_t logprobs = -1;         // alternatives reported per generated token, [0, 20]; -1: nothing
  int32_t prompt_logprobs = -1;  // likewise for the prompt's tokens
  int32_t priority = 0;          // larger is more urgent; policies that know priorities use it
  // The answer is of no use later than so long after submit; 0: any time, 7 days at most. The
  // policy edf goes by it, and ends what cannot meet it with Finish::deadline before it has begun.
  int64_t deadline_us = 0;
  std::string tenant;  // whose request it is; "" is a tenant too
  // Requests of a tenant with the same one are the calls of one program, such as an agent: the
  // policy program goes by what remains of all of it, and between two calls the cached beginning
  // of the next one is held where that pays. 256 bytes; empty: of none.
  std::string program_id;
  int32_t program_calls_left = -1;  // that are to come after this one, [-1, 1000000]; -1: not known
  // Cached beginnings are found again only by requests of the same tenant with the same salt, so
  // that nobody else can tell from the time an answer takes what was asked before. 256 bytes.
  std::string cache_salt;
  // Tenants whose requests name the same group share as if they were one. Only for such as may know
  // what the others ask. 256 bytes; empty: the tenant shares with nobody.
  std::string cache_group;
};

enum class Finish {
  none,       // more to come
  stop,       // an end token, stop token or stop string
  length,     // max_tokens, or the context is full
  cancelled,  // the Generation was dropped or cancelled
  deadline,   // it could not be met any more, and nothing was generated; see Chunk::error
  error,      // see Chunk::error
};

struct TokenProbability {
  int32_t token = 0;
  float logprob = 0.0F;  // natural logarithm, of the distribution before temperature and filters
};

struct TokenLogprob {
  TokenProbability chosen;
  std::vector<TokenProbability> top;  // the likeliest ones, best first
};

/// What a request has used so far.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt, taken from the prefix cache
  int64_t completion_tokens = 0;  // all choices together
  int64_t queue_us = 0;           // from submit to the first step
  int64_t prefill_us = 0;         // from the first step to the first token
  int64_t decode_us = 0;          // from the first token to now
};

/// A special token of an answer: what tells a mark of the model's from text that spells one.
struct SpecialToken {
  int64_t offset = 0;  // bytes of the chunk's text that come before it
  std::string name;    // "[TOOL_CALLS]"
  // The name stands in the text, from the offset on. Where stop strings hold back a part of it,
  // each chunk tells of the part in its text.
  bool shown = false;
};

/// A piece of an answer. A request's chunks come one at a time, in order.
struct Chunk {
  int32_t choice = 0;                         // which of the n answers
  std::vector<int32_t> tokens;                // tokens that this chunk adds, the end token included
  std::string text;                           // whole characters only
  std::vector<SpecialToken> special;          // left out of the text or shown in it, in order
  std::vector<TokenLogprob> logprobs;         // one per token, when asked for
  std::vector<TokenLogprob> prompt_logprobs;  // tokens 1.. of the prompt, in choice 0's first chunk
  Finish finish = Finish::none;               // of this choice
  std::string error;                          // why, when finish is error or deadline
  std::string stop_string;                    // which stop string ended it, if one did
  bool last = false;                          // no chunk of this request follows
  Usage usage;
};

}  // namespace hasten
