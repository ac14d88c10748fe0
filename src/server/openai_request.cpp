// SPDX-License-Identifier: Apache-2.0
// Reads and checks the fields of OpenAI's requests and of vLLM's additions to them.
#include "server/openai_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/json_fields.h"
#include "server/openai_messages.h"

namespace hasten::server {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();  // any count of tokens
constexpr int64_t kModelBytes = 1024;                                // of a model's name
// Priority classes to either side. By default waiting for a minute is worth one, so that whatever
// others ask for, a request comes first after 33 hours.
constexpr int64_t kMaxPriority = 1000;
constexpr int64_t kProgramBytes = 256;        // of a program's name, as the engine's
constexpr int64_t kMaxCallsLeft = 1'000'000;  // as the engine's
constexpr int64_t kMaxDeadlineMs = int64_t{7} * 24 * 3600 * 1000;  // a week, as the engine's

// Fields that change what the answer means and that cannot be honoured: saying so is kinder than an
// answer that breaks the promise.
constexpr std::array<std::string_view, 14> kUnsupported = {
    "functions",          "function_call",
    "structured_outputs", "guided_json",
    "guided_regex",       "guided_choice",
    "guided_grammar",     "grammar",
    "json_schema",        "audio",
    "web_search_options", "chat_template",
    "prompt_embeds",      "truncate_prompt_tokens"};

[[noreturn]] void fail_unsupported(const std::string& path, std::string_view why) {
  throw Error(ErrorCode::unsupported, fmt::format("{} {}", path, why), path);
}

json::Value parse_body(std::string_view body, const Limits& limits) {
  return json::parse(body, "the request body",
                     {.max_bytes = limits.body_bytes, .max_depth = limits.json_depth});
}

const json::Object& body_object(const json::Value& value) {
  if (!value.is_object()) fail(ErrorCode::invalid_data, "the request body must be a JSON object");
  return value.get_object();
}

std::vector<int32_t> read_tokens(const json::Array& items, const std::string& path,
                                 int64_t vocab_size) {
  std::vector<int32_t> tokens;
  tokens.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    tokens.push_back(
        static_cast<int32_t>(read_integer(items[i], item_path(path, i), 0, vocab_size - 1)));
  }
  return tokens;
}

void read_logit_bias(const Fields& body, const RequestBounds& bounds, Sampling& sampling) {
  const json::Object* biases = body.object("logit_bias");
  if (biases == nullptr) return;
  if (static_cast<int64_t>(biases->size()) > bounds.limits.logit_biases) {
    fail_param("logit_bias", "logit_bias has {} entries; the limit is {}", biases->size(),
               bounds.limits.logit_biases);
  }
  for (const auto& [key, value] : *biases) {
    int32_t token = -1;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, token);
    if (error != std::errc() || stop != end || token < 0 || token >= bounds.vocab_size) {
      fail_param("logit_bias", "logit_bias names the token \"{}\"; ids are 0 to {}",
                 std::string_view(key.data(), std::min<std::size_t>(key.size(), 64)),
                 bounds.vocab_size - 1);
    }
    const double bias = read_number(value, "logit_bias", {.min = -100, .max = 100});
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
}

Sampling read_sampling(const Fields& body, const RequestBounds& bounds) {
  Sampling sampling;
  const auto number = [&body](std::string_view name, float& field, const Range& range) {
    const auto value = body.number(name, range);
    if (!value) return;
    field = static_cast<float>(*value);
    // 1e-300 is above zero, but no float is so small.
    if (range.without_min) field = std::max(field, std::numeric_limits<float>::min());
  };
  number("temperature", sampling.temperature, {.min = 0, .max = 100});
  number("top_p", sampling.top_p, {.min = 0, .max = 1, .without_min = true});
  number("min_p", sampling.min_p, {.min = 0, .max = 1});
  number("typical_p", sampling.typical_p, {.min = 0, .max = 1, .without_min = true});
  number("repetition_penalty", sampling.repetition_penalty,
         {.min = 0, .max = 10, .without_min = true});
  number("presence_penalty", sampling.presence_penalty, {.min = -2, .max = 2});
  number("frequency_penalty", sampling.frequency_penalty, {.min = -2, .max = 2});
  // vLLM's clients write "all" as -1.
  sampling.top_k =
      static_cast<int32_t>(std::max<int64_t>(0, body.integer("top_k", -1, kMaxTokens).value_or(0)));
  if (const auto seed = body.integer("seed", std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  read_logit_bias(body, bounds, sampling);
  return sampling;
}

void read_stops(const Fields& body, const RequestBounds& bounds, Request& request) {
  const Limits& limits = bounds.limits;
  const auto add = [&](const json::Value& value, const std::string& path) {
    const std::string_view text = read_string(value, path, limits.stop_bytes);
    if (text.empty()) fail_param(path, "{} is empty; it would end every answer", path);
    request.stop.emplace_back(text);
  };
  if (const json::Value* stop = body.find("stop")) {
    if (stop->is_string()) {
      add(*stop, "stop");
    } else {
      if (!stop->is_array()) fail_param("stop", "stop must be a string or an array of strings");
      const json::Array& items = read_array(*stop, "stop", limits.stop_strings);
      for (std::size_t i = 0; i < items.size(); ++i) add(items[i], item_path("stop", i));
    }
  }
  if (const json::Array* tokens = body.array("stop_token_ids", limits.stop_tokens)) {
    request.stop_tokens = read_tokens(*tokens, "stop_token_ids", bounds.vocab_size);
  }
  request.ignore_eos = body.boolean("ignore_eos").value_or(false);
  request.show_special = !body.boolean("skip_special_tokens").value_or(true);
}

void read_stream(const Fields& body, GenerationFields& fields) {
  fields.stream = body.boolean("stream").value_or(false);
  const json::Object* options = body.object("stream_options");
  if (options == nullptr) return;
  if (!fields.stream) fail_param("stream_options", "stream_options needs \"stream\": true");
  fields.include_usage =
      Fields(*options, "stream_options").boolean("include_usage").value_or(false);
}

void refuse_unsupported(const Fields& body) {
  for (const std::string_view name : kUnsupported) {
    if (body.find(name) != nullptr) fail_unsupported(std::string(name), "is not supported");
  }
  if (body.boolean("continue_final_message").value_or(false)) {
    fail_unsupported("continue_final_message", "is not supported");
  }
  if (const json::Object* format = body.object("response_format")) {
    const Fields fields(*format, "response_format");
    const std::string_view type = read_string(fields.require("type"), fields.path("type"), 64);
    if (type == "json_schema" || type == "json_object") {
      fail_unsupported("response_format", "must be of type text: output cannot be constrained");
    }
    if (type != "text") fail_param(fields.path("type"), "response_format.type must be text");
  }
}

GenerationFields read_generation(const Fields& body, const RequestBounds& bounds) {
  refuse_unsupported(body);
  GenerationFields fields;
  fields.model = body.string("model", kModelBytes).value_or("");
  read_stream(body, fields);
  fields.request.sampling = read_sampling(body, bounds);
  read_stops(body, bounds, fields.request);
  fields.request.cache_salt = body.string("cache_salt", bounds.limits.salt_bytes).value_or("");
  // vLLM's clients call the more urgent one lower, the engine calls it higher.
  fields.request.priority =
      static_cast<int32_t>(-body.integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
  fields.request.deadline_us = 1000 * body.integer("deadline_ms", 1, kMaxDeadlineMs).value_or(0);
  fields.request.program_id = body.string("program_id", kProgramBytes).value_or("");
  fields.request.program_calls_left =
      static_cast<int32_t>(body.integer("program_calls_left", 0, kMaxCallsLeft).value_or(-1));
  fields.request.n = static_cast<int32_t>(body.integer("n", 1, bounds.limits.choices).value_or(1));
  fields.request.min_tokens = body.integer("min_tokens", 0, bounds.context).value_or(0);
  return fields;
}

void check_min_tokens(const Request& request) {
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens) {
    fail_param("min_tokens", "min_tokens is {}; it must not be above max_tokens, which is {}",
               request.min_tokens, request.max_tokens);
  }
}

std::vector<Prompt> read_prompts(const Fields& body, const RequestBounds& bounds) {
  const json::Value& value = body.require("prompt");
  if (value.is_string())
    return {std::string(read_string(value, "prompt", bounds.limits.body_bytes))};
  const json::Array& items = read_array(value, "prompt", bounds.limits.body_bytes);
  if (items.empty()) fail_param("prompt", "prompt is empty");
  if (items.front().is_number()) return {read_tokens(items, "prompt", bounds.vocab_size)};

  read_array(value, "prompt", bounds.limits.prompts);
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = item_path("prompt", i);
    if (items[i].is_string()) {
      prompts.emplace_back(std::string(read_string(items[i], path, bounds.limits.body_bytes)));
      continue;
    }
    const json::Array& tokens = read_array(items[i], path, bounds.limits.body_bytes);
    if (tokens.empty()) fail_param(path, "{} is empty", path);
    prompts.emplace_back(read_tokens(tokens, path, bounds.vocab_size));
  }
  return prompts;
}

}  // namespace

ChatRequest parse_chat_request(std::string_view text, const RequestBounds& bounds) {
  const json::Value value = parse_body(text, bounds.limits);
  const Fields body(body_object(value));
  ChatRequest result;
  result.common = read_generation(body, bounds);
  result.chat = read_chat(body, bounds.limits);

  Request& request = result.common.request;
  const auto max_tokens = body.integer("max_tokens", 1, kMaxTokens);
  const auto max_completion_tokens = body.integer("max_completion_tokens", 1, kMaxTokens);
  request.max_tokens = max_completion_tokens.value_or(max_tokens.value_or(0));
  check_min_tokens(request);

  const bool logprobs = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, bounds.limits.top_logprobs);
  if (top.value_or(0) > 0 && !logprobs) {
    fail_param("top_logprobs", "top_logprobs needs \"logprobs\": true");
  }
  if (logprobs) request.logprobs = static_cast<int32_t>(top.value_or(0));
  return result;
}

CompletionRequest parse_completion_request(std::string_view text, const RequestBounds& bounds) {
  const json::Value value = parse_body(text, bounds.limits);
  const Fields body(body_object(value));
  CompletionRequest result;
  result.common = read_generation(body, bounds);
  result.prompts = read_prompts(body, bounds);
  result.echo = body.boolean("echo").value_or(false);
  result.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  result.parse_special = body.boolean("parse_special").value_or(false);
  if (const auto suffix = body.string("suffix", bounds.limits.body_bytes);
      suffix && !suffix->empty()) {
    fail_unsupported("suffix", "is not supported");
  }

  Request& request = result.common.request;
  if (body.integer("best_of", 1, bounds.limits.choices).value_or(request.n) != request.n) {
    fail_unsupported("best_of", "must equal n: every answer that is made is returned");
  }
  // OpenAI's default; 0 is for those who want the prompt scored, which takes a step of one token.
  request.max_tokens = body.integer("max_tokens", 0, kMaxTokens).value_or(16);
  if (request.max_tokens == 0 && !result.echo)
    fail_param(
        "max_tokens",
        "max_tokens is 0; it must be from 1 to {}, or 0 with echo, where the prompt alone is "
        "wanted",
        kMaxTokens);
  check_min_tokens(request);
  if (request.max_tokens == 0) {
    if (request.n > 1) fail_param("n", "n is {}; with max_tokens 0 there is one answer", request.n);
    result.only_prompt = true;
    request.max_tokens = 1;
  }
  if (const auto logprobs = body.integer("logprobs", 0, bounds.limits.top_logprobs)) {
    request.logprobs = static_cast<int32_t>(*logprobs);
    if (result.echo) request.prompt_logprobs = request.logprobs;
  }
  return result;
}

TokenizeRequest parse_tokenize_request(std::string_view text, const RequestBounds& bounds) {
  const json::Value value = parse_body(text, bounds.limits);
  const Fields body(body_object(value));
  refuse_unsupported(body);  // it would change the prompt of a chat, which this stands for
  TokenizeRequest result;
  result.model = body.string("model", kModelBytes).value_or("");
  result.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  result.parse_special = body.boolean("parse_special").value_or(false);
  result.with_strings = body.boolean("return_token_strs").value_or(false);
  const bool has_prompt = body.find("prompt") != nullptr;
  const bool has_messages = body.find("messages") != nullptr;
  if (has_prompt == has_messages) {
    fail_param(
        "prompt", "{}; send one of them",
        has_prompt ? "both prompt and messages are given" : "prompt and messages are missing");
  }
  if (has_messages) {
    result.input = read_chat(body, bounds.limits);
  } else {
    result.input =
        std::string(read_string(body.require("prompt"), "prompt", bounds.limits.body_bytes));
  }
  return result;
}

DetokenizeRequest parse_detokenize_request(std::string_view text, const RequestBounds& bounds) {
  const json::Value value = parse_body(text, bounds.limits);
  const Fields body(body_object(value));
  DetokenizeRequest result;
  result.model = body.string("model", kModelBytes).value_or("");
  const json::Array& tokens =
      read_array(body.require("tokens"), "tokens", bounds.limits.body_bytes);
  result.tokens = read_tokens(tokens, "tokens", bounds.vocab_size);
  result.skip_special_tokens = body.boolean("skip_special_tokens").value_or(false);
  return result;
}

}  // namespace hasten::server
