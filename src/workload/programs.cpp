// SPDX-License-Identifier: Apache-2.0
// Chains of requests.
#include "workload/programs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hasten::workload {

Programs::Programs(const Trace& trace)
    : followers_(trace.requests.size()), indices_(trace.requests.size()) {
  using Name = std::pair<std::string_view, std::string_view>;  // with its tenant's
  std::map<Name, size_t> known;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    if (request.follows >= 0) followers_[static_cast<size_t>(request.follows)].push_back(i);
    indices_[i] = programs_.size();
    if (!request.program_id.empty())
      indices_[i] =
          known.emplace(Name(request.tenant, request.program_id), indices_[i]).first->second;
    if (indices_[i] == programs_.size()) programs_.emplace_back();
    ++program_of(i).num_left;
    if (request.ends_program) program_of(i).is_whole = true;
  }
}

std::vector<size_t> Programs::all_behind(size_t index) const {
  std::vector<size_t> behind = followers_[index];
  for (size_t i = 0; i < behind.size(); ++i) {
    const std::vector<size_t>& next = followers_[behind[i]];
    behind.insert(behind.end(), next.begin(), next.end());
  }
  return behind;
}

void Programs::arrive(size_t index, const Answer& answer) {
  int64_t& begin_us = program_of(index).begin_us;
  begin_us = begin_us < 0 ? answer.arrival_us : std::min(begin_us, answer.arrival_us);
}

void Programs::finish(size_t index, Answer& answer) {
  Program& program = program_of(index);
  if (--program.num_left == 0 && program.is_whole) answer.program_us = program.begin_us;
}

}  // namespace hasten::workload
