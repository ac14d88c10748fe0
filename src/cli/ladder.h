// SPDX-License-Identifier: Apache-2.0
// The ladder: what each idea of the field adds to serving one workload, one switched on after the
// other, and what arithmetic expects of it beforehand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hasten/engine.h"
#include "hasten/machine.h"
#include "workload/trace.h"

namespace hasten::cli {

/// Which of the ideas a rung has.
struct Rung {
  std::string_view name;
  std::string_view batching;
  bool reserve_context = false;
  bool chunked_prefill = true;
  bool prefix_cache = true;
  bool quantized_weights = false;
  bool quantized_kv = false;
};

/// From static batches in contiguous memory up to all of them; each has what the one below it has.
/// Without a second model none has quantised weights.
std::vector<Rung> ladder_rungs(bool with_quantized_weights);

/// What a workload is to a prediction.
struct WorkloadShape {
  double prompt = 0;             // tokens, mean
  double output = 0;             // tokens, mean
  double reusable = 0;           // of a prompt, by a cache without bounds: tokens, mean
  int64_t longest_prompt = 0;    // tokens
  std::vector<int64_t> outputs;  // tokens, ascending
};

WorkloadShape shape_of(const workload::Trace& trace);

/// The mean of the largest of `count` lengths drawn from `ascending` ones, over the mean of all:
/// how much longer a static batch runs than its sequences do on average. 1 for none.
double expected_longest_over_mean(std::span<const int64_t> ascending, int64_t count);

/// A rung on a machine.
struct RungSetting {
  Rung rung;
  ModelInfo model;  // as loaded for it: its bytes, operations and sizes
  Ceilings ceilings;
  int64_t block_size = 16;
};

struct Prediction {
  int64_t concurrency = 0;       // sequences that fit memory and batch at a time
  double tokens_per_second = 0;  // of the answers, while there is enough to do
  std::string reason;            // what of the rung makes it so, with its numbers
};

/// By arithmetic from mean lengths: each prompt takes its operations, and each token its share of a
/// step of as many sequences as fit, all at the ceilings. A static batch has the mean of them in a
/// step. Its absolute values are limits; what it says is how rungs compare.
Prediction predict(const RungSetting& setting, const WorkloadShape& shape);

}  // namespace hasten::cli
