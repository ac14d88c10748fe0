// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of traces: every input is one clean error, or a trace that prompts can be made
// of.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "workload/prompts.h"
#include "workload/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hasten::workload::Trace trace = hasten::workload::parse_trace(
        {reinterpret_cast<const char*>(data), size}, "fuzz", {.tokens = 5000});
    hasten::workload::scale_lengths(trace, 0.25);
    for (size_t i = 0; i < trace.requests.size() && i < 8; ++i) {
      if (trace.requests[i].prompt_tokens == 0) continue;
      if (hasten::workload::make_prompt(trace, i, 100, 1).empty()) __builtin_trap();
    }
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
