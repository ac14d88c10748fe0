// SPDX-License-Identifier: Apache-2.0
// Options of scheduling that say nothing beside each other, of engines and of simulations.
#pragma once

#include "base/error.h"

namespace hasten::api {

/// Throws Error{invalid_argument} for an option that another one leaves without effect.
template <class Options>
void check_conflicts(const Options& options) {
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
  if (options.batch_wait_us != Options{}.batch_wait_us) {
    fail_param("batch_wait_us",
               "--batch-wait-ms is of dynamic batches: add --batching dynamic, or leave it out");
  }
}

}  // namespace hasten::api
