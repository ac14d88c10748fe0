// SPDX-License-Identifier: Apache-2.0
// What a step of the engine took to run.
#pragma once

#include <cstdint>

namespace hasten {

/// A step that was run: what it held, and how long it took.
struct StepRecord {
  int64_t sequences = 0;     // that ran in it
  int64_t tokens = 0;        // of all of them
  int64_t key_reads = 0;     // keys in view, of each sequence once
  int64_t key_products = 0;  // keys in view, of each token
  int64_t duration_us = 0;   // from its plan to the delivery of what it brought
  // Tokens of all running sequences, of each cache group: for which memory is set aside, and which
  // have their keys and values in it. What is shared counts for each.
  int64_t kv_tokens_allocated = 0;
  int64_t kv_tokens_used = 0;
};

}  // namespace hasten
