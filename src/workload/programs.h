// SPDX-License-Identifier: Apache-2.0
// Programs: which requests of a trace come after which, and how long all of a program takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "workload/statistics.h"
#include "workload/trace.h"

namespace hasten::workload {

/// Why a request fails that follows one that failed.
inline constexpr std::string_view kNotReached = "the call before it failed";

/// All requests of a tenant with the same program_id are one program, whether they follow each
/// other or have times of their own. One thread.
class Programs {
 public:
  /// The trace must outlive it.
  explicit Programs(const Trace& trace);

  /// Those that come after a request has ended.
  const std::vector<size_t>& followers(size_t index) const { return followers_[index]; }
  /// All that come only after that, however many others stand between.
  std::vector<size_t> all_behind(size_t index) const;

  /// A request has come, at its arrival_us.
  void arrive(size_t index, const Answer& answer);
  /// A request has ended well, before the statistics are told: says in its answer when its program
  /// began, if all the others of it have ended well, too.
  void finish(size_t index, Answer& answer);

 private:
  struct Program {
    int64_t begin_us = -1;  // arrival of its first request; -1: none has come
    int64_t num_left = 0;   // requests that have not ended well
    bool is_whole = false;  // its last request is in the trace
  };

  Program& program_of(size_t index) { return programs_[indices_[index]]; }

  std::vector<std::vector<size_t>> followers_;  // [requests]
  std::vector<size_t> indices_;                 // [requests] of programs_
  std::vector<Program> programs_;
};

}  // namespace hasten::workload
