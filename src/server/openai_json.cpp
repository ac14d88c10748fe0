// SPDX-License-Identifier: Apache-2.0
// Shared pieces of OpenAI's JSON.
#include "server/openai_json.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "hasten/version.h"
#include "server/sse.h"

namespace hasten::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// More bytes could make `bytes`, which are no whole sequence, one.
bool begins_sequence(std::string_view bytes) {
  // A second byte is limited from below after E0 and F0, from above after ED and F4.
  for (const std::string_view rest : {"\x80\x80\x80", "\xA0\x80\x80"}) {
    if (sequence_length(std::string(bytes).append(rest)) > bytes.size()) return true;
  }
  return false;
}

}  // namespace

std::size_t sequence_length(std::string_view bytes) {
  const auto byte = [&bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto in = [&](std::size_t i, unsigned low, unsigned high) {
    return i < bytes.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  if (first < 0xE0) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (first < 0xF0) {
    const bool second = in(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  const bool second = in(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
  return second && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    text += length > 0 ? bytes.substr(0, length) : kReplacement;
    bytes.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text;
}

std::string with_escapes(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length > 0) {
      text += bytes.substr(0, length);
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    }
    bytes.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text;
}

std::string token_name(std::string_view bytes) {
  if (std::string text = to_utf8(bytes); text == bytes) return text;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

void CharacterCount::add(std::string_view bytes) {
  rest_ += bytes;
  std::string_view rest = rest_;
  while (!rest.empty()) {
    const std::size_t length = sequence_length(rest);
    if (length == 0 && rest.size() < 4 && begins_sequence(rest)) break;
    rest.remove_prefix(std::max<std::size_t>(1, length));
    ++whole_;
  }
  rest_ = rest;
}

json::Object usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

json::Value finish_reason_json(Finish finish) {
  if (finish == Finish::stop) return "stop";
  if (finish == Finish::length) return "length";
  return nullptr;
}

double finite_logprob(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

std::size_t num_text_tokens(const Chunk& chunk) {
  const bool ended_by_token =
      chunk.finish == Finish::stop && chunk.stop_string.empty() && !chunk.tokens.empty();
  return chunk.tokens.size() - (ended_by_token ? 1 : 0);
}

json::Object AnswerHeader::json() const {
  return {{"id", id},
          {"object", kind},
          {"created", created_s},
          {"model", model},
          {"system_fingerprint", std::string("hasten-") + kVersion}};
}

std::string last_events(const AnswerHeader& header, const Usage* usage) {
  if (usage == nullptr) return std::string(kSseDone);
  json::Object chunk = header.json();
  chunk["choices"] = json::Array{};
  chunk["usage"] = usage_json(*usage);
  return sse_event(json::serialize(chunk)).append(kSseDone);
}

}  // namespace hasten::server
