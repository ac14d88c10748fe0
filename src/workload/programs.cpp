// SPDX-License-Identifier: Apache-2.0
// Chains of requests.
#include "workload/programs.h"

namespace hasten::workload {

Programs::Programs(const Trace& trace)
    : trace_(trace), followers_(trace.requests.size()), begin_us_(trace.requests.size()) {
  for (size_t i = 0; i < trace.requests.size(); ++i)
    if (const int64_t before = trace.requests[i].follows; before >= 0)
      followers_[static_cast<size_t>(before)].push_back(i);
}

std::vector<size_t> Programs::all_behind(size_t index) const {
  std::vector<size_t> behind = followers_[index];
  for (size_t i = 0; i < behind.size(); ++i) {
    const std::vector<size_t>& next = followers_[behind[i]];
    behind.insert(behind.end(), next.begin(), next.end());
  }
  return behind;
}

void Programs::arrive(size_t index, Answer& answer) {
  const TraceRequest& request = trace_.requests[index];
  begin_us_[index] =
      request.follows < 0 ? answer.arrival_us : begin_us_[static_cast<size_t>(request.follows)];
  if (request.ends_program) answer.program_us = begin_us_[index];
}

}  // namespace hasten::workload
