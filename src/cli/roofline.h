// SPDX-License-Identifier: Apache-2.0
// The physical limit of a piece of work: its bytes over the read bandwidth, its operations over the
// arithmetic peak, whichever takes longer (Williams et al., 2009).
#pragma once

#include <cstdint>

#include "hasten/engine.h"
#include "hasten/machine.h"
#include "workload/statistics.h"

namespace hasten::cli {

struct Limit {
  double tokens_per_second = 0;
  double bytes_per_token = 0;  // read from memory
  double ops_per_token = 0;    // multiplications and additions
  bool memory_bound = false;
};

/// The fastest arithmetic that can do the bulk of the weights.
double peak_ops_per_second(const ModelInfo& model, const Ceilings& ceilings);

/// One prompt of `prompt` tokens alone; the output matrix, and the last layer but for its keys and
/// values, work for the last one only.
Limit prefill_limit(const ModelInfo& model, const Ceilings& ceilings, int64_t prompt);

/// One token for each of `batch` sequences of `context` tokens; weights are read once for all.
Limit decode_limit(const ModelInfo& model, const Ceilings& ceilings, int64_t batch,
                   int64_t context);

/// The mean prompt alone, one of its answer's tokens alone, and all of the finished requests with
/// `concurrency` of them in each step; prompt tokens from the cache cost nothing.
workload::BestCase workload_limit(const ModelInfo& model, const Ceilings& ceilings,
                                  const workload::Statistics& statistics, int64_t concurrency);

}  // namespace hasten::cli
