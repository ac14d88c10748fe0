// SPDX-License-Identifier: Apache-2.0
// Options of scheduling that say nothing beside each other, of engines and of simulations.
#pragma once

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/scheduler/policy.h"

namespace hasten::api {

/// "sjf, srtf, edf".
template <class Is>
std::string policies_that(Is&& is) {
  std::string names;
  for (const engine::Policy* policy : engine::policies())
    if (is(*policy)) names += (names.empty() ? "" : ", ") + std::string(policy->name);
  return names;
}

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
               "choose one of {}, or leave it out",
               policy.name, policies_that([](const auto& any) { return any.by_length; }));
  }
  if (options.aging_us != defaults.aging_us && !policy.ages) {
    fail_param("aging_us",
               "--aging is of policies in which waiting makes more urgent, and in --policy {} it "
               "does not: "
               "choose one of {}, or leave it out",
               policy.name, policies_that([](const auto& any) { return any.ages; }));
  }
  if (options.held_share != defaults.held_share && options.held_share > 0 &&
      policy.displaces != nullptr) {
    fail_param("held_share",
               "--held-share is of policies that displace nobody, and --policy {} does: choose "
               "one of {}, or leave it out",
               policy.name,
               policies_that([](const auto& any) { return any.displaces == nullptr; }));
  }
}

/// Throws Error{invalid_argument} for an option that another one leaves without effect.
template <class Options>
void check_conflicts(const Options& options) {
  const Options defaults;
  check_conflicts_with_policy(options);
  if (options.held_share != defaults.held_share && options.held_share > 0 &&
      !options.prefix_cache) {
    fail_param("held_share",
               "--held-share is of the prefix cache, which --no-prefix-cache turns off: leave out "
               "one of them");
  }
  if (options.tenant_cache_share != defaults.tenant_cache_share && options.tenant_cache_share < 1 &&
      !options.prefix_cache) {
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
