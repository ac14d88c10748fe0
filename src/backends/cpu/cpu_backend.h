// SPDX-License-Identifier: Apache-2.0
// The CPU backend: how to make one, and which instruction sets it can run with here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace hasten::cpu {

struct CpuOptions {
  int32_t threads = 0;  // 0: one per physical core that affinity and cgroup leave to this process
  // "amx", "avx512_bf16", "avx512", "avx2", "generic", in no order; empty: what the environment
  // variable HASTEN_CPU_ISA names, else the best that this machine supports
  std::string isa = {};
  bool repack = true;  // false: leave weights in the mapped file; starts at once, runs slower,
                       // computes the same numbers
};

/// The instruction sets that were built and that this machine supports, best first.
[[nodiscard]] std::vector<std::string> supported_isas();

/// A backend with its own worker threads. Its operations are called by one thread at a time.
/// Throws Error{invalid_argument} for an unknown or unsupported ISA or a negative thread count.
[[nodiscard]] std::unique_ptr<ops::Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace hasten::cpu
