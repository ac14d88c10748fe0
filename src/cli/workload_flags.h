// SPDX-License-Identifier: Apache-2.0
// The flags that say which requests come when, shared by what replays, loads and simulates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/options.h"
#include "workload/arrivals.h"
#include "workload/statistics.h"
#include "workload/trace.h"

namespace hasten::cli {

struct WorkloadOptions {
  std::filesystem::path trace;  // empty: requests of equal lengths
  int64_t prompt = 512;         // tokens of each, without a trace
  int64_t gen = 64;             // likewise, and where the trace does not say
  int64_t requests = 0;         // 0: all of the trace, or 100
  double scale_lengths = 1;
  int64_t users = 0;  // closed loop; 0: open
  workload::Arrivals arrivals;
  workload::Targets targets;
  bool json = false;
};

/// Which requests come, and when.
struct Workload {
  workload::Trace trace;          // each with output_tokens
  std::vector<int64_t> times_us;  // of each; empty: closed loop
  int64_t users = 0;              // of a closed loop: requests under way at the same time
  /// Tokens of the longest prompt and answer of the whole trace, scaled, also where --requests
  /// leaves it out: what whoever serves such traffic must promise to each.
  int64_t longest = 0;
};

void add_workload_flags(Command command, WorkloadOptions& options);

/// Throws Error for a trace that cannot be read and for flags that do not fit together.
Workload load_workload(const WorkloadOptions& options);

/// Throws Error{invalid_argument} for a prompt whose tokens the trace does not count, with its line
/// and who needs them: "a simulation has no tokenizer to count them".
void check_lengths(const Workload& workload, std::string_view reason);

/// What was asked for, as JSON and in words: "19366 requests of trace.csv, Poisson, 2 a second".
json::Object to_json(const WorkloadOptions& options, const Workload& workload);
std::string describe(const WorkloadOptions& options, const Workload& workload);

}  // namespace hasten::cli
