// SPDX-License-Identifier: Apache-2.0
// Sampler: from a row of logits to a token and its log probability.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/adjust.h"
#include "engine/sampling/candidates.h"
#include "hasten/request.h"
#include "ops/row_scan.h"

namespace hasten::engine {

struct SampleInput {
  std::span<float> logits;                  // [vocab_size]; adjusted in place
  ops::RowScan scan;                        // of logits, before they are adjusted
  const Sampling& sampling;                 // within its ranges
  uint64_t seed = 0;                        // of the request
  int32_t choice = 0;                       // which of the request's answers
  std::span<const int32_t> prompt = {};     // token ids
  std::span<const int32_t> generated = {};  // token ids before this one
  std::span<const int32_t> banned = {};     // token ids that must not come now
  int32_t num_top_logprobs = -1;            // alternatives to report; -1: no log probability either
};

struct Sample {
  int32_t token = -1;
  TokenLogprob logprob;  // when asked for
};

/// The result depends on its input alone. Nothing is allocated but the alternatives that are asked
/// for. One thread.
class Sampler {
 public:
  explicit Sampler(int64_t vocab_size);

  /// Chooses the next token. Throws Error{internal} for logits that are NaN or +inf, and
  /// Error{invalid_argument} when everything is banned.
  Sample sample(const SampleInput& input);

  /// The log probability of a token of the prompt and of `num_top` alternatives, from the logits
  /// [vocab_size] of the token before it, and what a scan of them told. Throws like `sample`.
  TokenLogprob score(std::span<const float> logits, const ops::RowScan& scan, int32_t token,
                     int32_t num_top);

 private:
  LogitAdjuster adjuster_;
  Candidates candidates_;
  std::vector<float> raw_;      // [vocab_size], logits before adjustment
  std::vector<float> scratch_;  // [vocab_size]
  std::vector<int32_t> top_ids_;
};

}  // namespace hasten::engine
