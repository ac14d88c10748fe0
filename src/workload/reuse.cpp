// SPDX-License-Identifier: Apache-2.0
// Chains of block ids, and how many tokens of the last one of each have been seen.
#include "workload/reuse.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"

namespace hasten::workload {

std::vector<int64_t> reusable_tokens(const Trace& trace, const std::vector<bool>& answered) {
  HASTEN_CHECK(trace.block_tokens > 0);
  HASTEN_CHECK(answered.empty() || answered.size() == trace.requests.size());
  std::unordered_map<uint64_t, int64_t> seen;  // by hash of a chain: tokens of its last block
  std::vector<int64_t> result;
  result.reserve(trace.requests.size());
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    if (!answered.empty() && !answered[i]) {
      result.push_back(0);
      continue;
    }
    uint64_t chain = hash_bytes(request.tenant);
    int64_t shared = 0;
    bool shares = true;  // all blocks so far, wholly
    for (size_t b = 0; b < request.blocks.size(); ++b) {
      const int64_t begin = static_cast<int64_t>(b) * trace.block_tokens;
      const int64_t size = std::min(trace.block_tokens, request.prompt_tokens - begin);
      if (size <= 0) break;
      chain = mix64(chain ^ mix64(static_cast<uint64_t>(request.blocks[b])));
      int64_t& known = seen[chain];
      if (shares) shared += std::min(size, known);
      shares = shares && known == trace.block_tokens;
      known = std::max(known, size);
    }
    result.push_back(
        std::clamp<int64_t>(shared, 0, std::max<int64_t>(0, request.prompt_tokens - 1)));
  }
  return result;
}

double reusable_fraction(const Trace& trace, const std::vector<bool>& answered) {
  const std::vector<int64_t> reusable = reusable_tokens(trace, answered);
  int64_t all = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i)
    if (answered.empty() || answered[i]) all += trace.requests[i].prompt_tokens;
  const int64_t sum = std::accumulate(reusable.begin(), reusable.end(), int64_t{0});
  return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(1, all));
}

}  // namespace hasten::workload
