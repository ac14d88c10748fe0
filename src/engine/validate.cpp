// SPDX-License-Identifier: Apache-2.0
// Range checks of every field of a request, each with the field's name, value and limits.
#include "engine/validate.h"

#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/utf8.h"

namespace hasten::engine {
namespace {

/// NaN is in no range.
template <class T>
void check_range(const char* param, T value, T low, T high) {
  if (!(value >= low && value <= high))
    fail_param(param, "{} is {}; it must be from {} to {}", param, value, low, high);
}

/// (0, high].
void check_positive(const char* param, float value, float high) {
  if (!(value > 0.0F && value <= high))
    fail_param(param, "{} is {}; it must be above 0 and at most {}", param, value, high);
}

void check_token(const char* param, int32_t token, int64_t vocab_size) {
  if (token < 0 || token >= vocab_size)
    fail_param(param, "{} has token {}; the vocabulary has tokens 0 to {}", param, token,
               vocab_size - 1);
}

void check_count(const char* param, size_t count, int64_t limit) {
  if (static_cast<int64_t>(count) > limit)
    fail_param(param, "{} has {} entries; at most {} are allowed", param, count, limit);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const text::Utf8Char next = text::decode_utf8(text);
    if (!next.valid) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

void check_prompt(const Request& request, int64_t vocab_size, int64_t context) {
  if (request.prompt.empty()) fail_param("prompt", "prompt is empty; it needs at least one token");
  if (static_cast<int64_t>(request.prompt.size()) >= context)
    fail_param("prompt",
               "prompt has {} tokens; the context is {} tokens and one must be left for the answer",
               request.prompt.size(), context);
  for (const int32_t token : request.prompt) check_token("prompt", token, vocab_size);
}

void check_sampling(const Sampling& sampling, int64_t vocab_size) {
  check_range("temperature", sampling.temperature, 0.0F, 100.0F);
  if (sampling.top_k < 0)
    fail_param("top_k", "top_k is {}; it must not be negative", sampling.top_k);
  check_positive("top_p", sampling.top_p, 1.0F);
  check_range("min_p", sampling.min_p, 0.0F, 1.0F);
  check_positive("typical_p", sampling.typical_p, 1.0F);
  check_positive("repetition_penalty", sampling.repetition_penalty, 10.0F);
  check_range("presence_penalty", sampling.presence_penalty, -2.0F, 2.0F);
  check_range("frequency_penalty", sampling.frequency_penalty, -2.0F, 2.0F);
  check_count("logit_bias", sampling.logit_bias.size(), vocab_size);
  for (const auto& [token, bias] : sampling.logit_bias) {
    check_token("logit_bias", token, vocab_size);
    if (!std::isfinite(bias))
      fail_param("logit_bias", "logit_bias of token {} is {}; it must be finite", token, bias);
  }
}

void check_end(const Request& request, int64_t vocab_size) {
  if (request.max_tokens < 0)
    fail_param("max_tokens", "max_tokens is {}; it must not be negative", request.max_tokens);
  if (request.min_tokens < 0)
    fail_param("min_tokens", "min_tokens is {}; it must not be negative", request.min_tokens);
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens)
    fail_param("min_tokens", "min_tokens is {}, above max_tokens, which is {}", request.min_tokens,
               request.max_tokens);
  check_count("stop", request.stop.size(), kMaxStopStrings);
  for (const std::string& stop : request.stop) {
    if (stop.empty()) fail_param("stop", "stop has an empty string");
    if (static_cast<int64_t>(stop.size()) > kMaxStopBytes)
      fail_param("stop", "stop has a string of {} bytes; at most {} are allowed", stop.size(),
                 kMaxStopBytes);
    if (!is_utf8(stop)) fail_param("stop", "stop has a string that is not valid UTF-8");
  }
  check_count("stop_tokens", request.stop_tokens.size(), kMaxStopTokens);
  for (const int32_t token : request.stop_tokens) check_token("stop_tokens", token, vocab_size);
}

void check_cache_name(const char* param, const std::string& name) {
  if (static_cast<int64_t>(name.size()) > kMaxCacheNameBytes)
    fail_param(param, "{} has {} bytes; at most {} are allowed", param, name.size(),
               kMaxCacheNameBytes);
}

}  // namespace

void validate(const Request& request, int64_t vocab_size, int64_t context) {
  check_prompt(request, vocab_size, context);
  check_sampling(request.sampling, vocab_size);
  check_end(request, vocab_size);
  check_cache_name("cache_salt", request.cache_salt);
  check_cache_name("cache_group", request.cache_group);
  check_cache_name("program_id", request.program_id);
  check_range("program_calls_left", request.program_calls_left, -1, kMaxCallsLeft);
  if (request.deadline_us < 0 || request.deadline_us > kMaxDeadlineUs)
    fail_param("deadline_ms", "deadline_ms is {}; it must be from 0, which is none, to {}",
               static_cast<double>(request.deadline_us) / 1000, kMaxDeadlineUs / 1000);
  check_range("n", request.n, 1, kMaxChoices);
  check_range("logprobs", request.logprobs, -1, kMaxLogprobs);
  check_range("prompt_logprobs", request.prompt_logprobs, -1, kMaxLogprobs);
}

}  // namespace hasten::engine
