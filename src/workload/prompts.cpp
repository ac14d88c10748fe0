// SPDX-License-Identifier: Apache-2.0
// Tokens by hash of seed, block and place.
#include "workload/prompts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"

namespace hasten::workload {
namespace {

// Common words that the usual vocabularies have as one token each.
constexpr auto kWords = std::to_array<std::string_view>(
    {"the",  "of",    "and",   "to",    "in",    "a",     "is",   "that",  "for",  "it",    "was",
     "on",   "with",  "as",    "be",    "at",    "by",    "this", "had",   "not",  "are",   "but",
     "from", "or",    "have",  "an",    "they",  "which", "one",  "you",   "were", "her",   "all",
     "she",  "there", "would", "their", "we",    "him",   "been", "has",   "when", "who",   "will",
     "more", "no",    "if",    "out",   "so",    "said",  "what", "up",    "its",  "about", "into",
     "than", "them",  "can",   "only",  "other", "new",   "some", "could", "time"});

/// Calls `place(hash)` for each token of the prompt, in order.
template <class Place>
void for_each_token(const Trace& trace, size_t index, uint64_t seed, Place place) {
  const TraceRequest& request = trace.requests[index];
  HASTEN_CHECK(request.prompt_tokens > 0);
  // Two kinds of keys, so that no block can equal what is a request's own.
  const uint64_t own = mix64(mix64(seed) ^ (2 * index + 1));
  uint64_t key = own;
  for (int64_t t = 0; t < request.prompt_tokens; ++t) {
    const int64_t offset = t % trace.block_tokens;
    const int64_t block = t / trace.block_tokens;
    if (offset == 0) {
      key = block < std::ssize(request.blocks)
                ? mix64(mix64(seed) ^
                        (2 * static_cast<uint64_t>(request.blocks[static_cast<size_t>(block)])))
                : mix64(own + static_cast<uint64_t>(block));
    }
    place(mix64(key + static_cast<uint64_t>(offset)));
  }
}

}  // namespace

std::vector<int32_t> make_prompt(const Trace& trace, size_t index, int64_t vocab_size,
                                 uint64_t seed) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(trace.requests[index].prompt_tokens));
  for_each_token(trace, index, seed, [&](uint64_t hash) {
    tokens.push_back(static_cast<int32_t>(hash % static_cast<uint64_t>(vocab_size)));
  });
  return tokens;
}

std::string make_prompt_text(const Trace& trace, size_t index, uint64_t seed) {
  std::string text;
  for_each_token(trace, index, seed, [&](uint64_t hash) {
    if (!text.empty()) text += ' ';
    text += kWords[hash % kWords.size()];
  });
  return text;
}

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  Trace trace;
  trace.requests.emplace_back().prompt_tokens = count;
  return make_prompt(trace, 0, vocab_size, seed);
}

}  // namespace hasten::workload
