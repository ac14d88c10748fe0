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

/// One thread.
class Programs {
 public:
  /// The trace must outlive it.
  explicit Programs(const Trace& trace);

  /// Those that come after a request has ended.
  const std::vector<size_t>& followers(size_t index) const { return followers_[index]; }
  /// All that come only after that, however many others stand between.
  std::vector<size_t> all_behind(size_t index) const;

  /// A request has come, at its arrival_us: says in it of which program it is the end, if it is.
  void arrive(size_t index, Answer& answer);

 private:
  const Trace& trace_;
  std::vector<std::vector<size_t>> followers_;  // [requests]
  std::vector<int64_t> begin_us_;               // [requests] arrival of the first of its program
};

}  // namespace hasten::workload
