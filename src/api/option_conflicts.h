// SPDX-License-Identifier: Apache-2.0
// Options of scheduling that say nothing beside each other, of engines and of simulations.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/scheduler/policy.h"

namespace hasten::api {

/// Throws Error{invalid_argument} for an option that is not the default and that the policy leaves
/// without effect.
template <class Options>
void check_conflicts_with_policy(const Options& options) {
  const Options defaults;
  const engine::Policy& policy = engine::find_policy(options.policy);
  const auto known = engine::length_predictors();
  const bool is_known = std::ranges::find(known, options.length_predictor, &NamedChoice::name) !=
                        known.end();  // of others, who looks it up says that
  if (is_known && options.length_predictor != defaults.length_predictor && !policy.by_length) {
    fail_param("length_predictor",
               "--length-predictor is of policies that go by lengths, and --policy {} does not: "
               "choose sjf, srtf or edf, or leave it out",
               policy.name);
  }
  if (options.aging_us != defaults.aging_us && !policy.ages) {
    fail_param("aging_us",
               "--aging is of policies that let some overtake others, and --policy {} needs none: "
               "choose another one, or leave it out",
               policy.name);
  }
  if (options.held_share != defaults.held_share && policy.displaces != nullptr) {
    fail_param("held_share",
               "--held-share is of policies that displace nobody, and --policy {} does: choose "
               "fcfs, sjf, vtc or program, or leave it out",
               policy.name);
  }
}

/// Throws Error{invalid_argument} for an option that another one leaves without effect.
template <class Options>
void check_conflicts(const Options& options) {
  const Options defaults;
  check_conflicts_with_policy(options);
  if (options.held_share != defaults.held_share && !options.prefix_cache) {
    fail_param("held_share",
               "--held-share is of the prefix cache, which --no-prefix-cache turns off: leave out "
               "one of them");
  }
  if (options.tenant_cache_share != defaults.tenant_cache_share && !options.prefix_cache) {
    fail_param("tenant_cache_share",
               "--tenant-cache-share is of the prefix cache, which --no-prefix-cache turns off: "
               "leave out one of them");
  }
  if (options.target_tbt_us > 0 && !options.chunked_prefill) {
    fail_param("target_tbt_us",
               "--target-tbt-ms holds a time by shorter chunks of prompts, which "
               "--no-chunked-prefill turns off: leave out one of them");
  }
  if (options.batching == "dynamic") return;
  if (options.preferred_batch > 0) {
    fail_param("preferred_batch",
               "--preferred-batch is of dynamic batches: add --batching dynamic, or leave it out");
  }
  if (options.batch_wait_us) {
    fail_param("batch_wait_us",
               "--batch-wait-ms is of dynamic batches: add --batching dynamic, or leave it out");
  }
}

}  // namespace hasten::api
