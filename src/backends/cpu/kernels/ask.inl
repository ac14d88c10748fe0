// SPDX-License-Identifier: Apache-2.0
// Asking for lines into the cache that suits the processor: KernelTable::asks_into. Behind a simd
// header.
#pragma once

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/unroll.inl"

namespace hasten::cpu {
namespace {

/// Processors that gain by asking into the second-level cache have AVX-512; other tables ask into
/// the first, whatever a task says, and are not compiled twice.
constexpr bool kMayAskIntoSecond = kHasDotInstruction;

/// Has a line brought that is read soon; whether and when it comes is up to the core.
template <CacheLevel kInto>
HASTEN_INLINE inline void ask_for(const uint8_t* at) {
  if constexpr (kInto == CacheLevel::second)
    prefetch_far(at);
  else
    prefetch(at);
}

}  // namespace
}  // namespace hasten::cpu
