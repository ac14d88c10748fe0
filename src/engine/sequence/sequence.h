// SPDX-License-Identifier: Apache-2.0
// Sequence: the running state of one choice of a request, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/siphash.h"

namespace hasten::engine {

/// Of a sequence whose answer is of use at any time.
inline constexpr int64_t kNoDeadline = INT64_MAX;

/// A running sequence that is just computing most of what another one needs.
struct AwaitedSequence {
  int32_t slot = -1;  // -1: none
  int32_t choice = 0;
  int64_t request_id = 0;
  int64_t until = 0;  // it is worth waiting for while it has computed fewer tokens than these
};

/// One answer in the making. Its request owns what the views point to and outlives it. Only the
/// engine's thread touches it: the scheduler moves `num_computed`, `num_cached`, `num_scored`,
/// `tenant_index`, `program_index`, `queued_us`, `waited_us`, `load_until_us`, `num_found`,
/// `reads_ahead`, `awaited` and `slot`, the commit adds to `generated`.
struct Sequence {
  int64_t request_id = 0;             // ascending in order of submission
  int32_t choice = 0;                 // which of the request's n answers
  bool has_siblings = false;          // n is more than 1
  int32_t priority = 0;               // larger is more urgent
  std::string_view tenant;            // whose request it is
  int32_t tenant_index = -1;          // of `tenant` while it is queued; the scheduler's
  std::string_view program;           // of whose calls this is one; empty: of none
  int32_t program_index = -1;         // of `program` while it is queued; the scheduler's
  int32_t program_calls_left = -1;    // that are to come after this one; -1: not known
  Hash128 cache_domain;               // those with the same one share cached prefixes
  int64_t max_generated = 0;          // generated.size() at the end, at most; at least 1
  int64_t min_generated = 1;          // likewise, at least
  int64_t predicted_generated = 0;    // generated.size() at the end, as expected; 0: max_generated
  int64_t arrival_us = 0;             // when it was submitted, by the clock of the plans
  int64_t deadline_us = kNoDeadline;  // until when it must end to be of use, by the same clock

  // What each step looks at of each sequence, of thousands perhaps: one cache line.
  alignas(64) std::span<const int32_t> prompt;  // token ids, at least one
  std::vector<int32_t> generated;               // token ids drawn so far
  int64_t num_computed = 0;    // leading tokens whose keys and values lie in the cache
  int32_t slot = -1;           // where the scheduler keeps it; -1: it does not
  bool scores_prompt = false;  // the log probabilities of the prompt's tokens are wanted
  bool reads_ahead = false;    // what a lower tier has of it is read while it waits

  int64_t num_scored = 0;      // leading prompt tokens whose logits have been read for that
  int64_t num_cached = -1;     // of the prompt, found there when it first ran; -1: never yet
  int64_t queued_us = -1;      // since when it waits; -1: it runs
  int64_t waited_us = 0;       // how long it had waited before that
  int64_t load_until_us = -1;  // until when it waits for a lower tier; -1: it never did so
  int64_t num_found = 0;       // leading tokens that the cache had when it was last asked
  AwaitedSequence awaited;     // for which it waits

  int64_t num_prompt() const { return static_cast<int64_t>(prompt.size()); }
  int64_t num_tokens() const { return num_prompt() + static_cast<int64_t>(generated.size()); }
  /// The token id at `position`, in [0, num_tokens).
  int32_t token(int64_t position) const { return *token_address(position); }
  /// Where that lies.
  const int32_t* token_address(int64_t position) const {
    return position < num_prompt() ? prompt.data() + position
                                   : generated.data() + (position - num_prompt());
  }
  /// The tokens that it still has to compute, as far as is known.
  int64_t num_to_compute() const {
    return num_tokens() - (num_found > num_computed ? num_found : num_computed);
  }
  /// Whether logits of the prompt itself are still wanted. Those of its last token do not count:
  /// they belong to the first generated one.
  bool scoring() const { return scores_prompt && num_scored < num_prompt() - 1; }
};

}  // namespace hasten::engine
