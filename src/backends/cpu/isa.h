// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine supports, and which one a backend uses.
#pragma once

#include <span>
#include <string_view>

#include "backends/cpu/kernel_table.h"

namespace hasten::cpu {

/// The kernel tables that were built and that processor and operating system support, best first;
/// "generic" is always the last.
[[nodiscard]] std::span<const KernelTable* const> supported_kernels();

/// The table called `isa`, else HASTEN_CPU_ISA in the environment, else (both empty) the best one.
/// Throws Error{invalid_argument} when that one is not supported here.
[[nodiscard]] const KernelTable& select_kernels(std::string_view isa);

/// How a core of this processor reads memory fastest with these kernels.
[[nodiscard]] WeightStreams weight_streams(const KernelTable& kernels);

/// What measures the unit for bf16 dot products, as KernelTable::peak_f32 the one for f32; null
/// where the processor has none, whichever table is used.
using PeakKernel = int64_t (*)(int64_t rounds);
[[nodiscard]] PeakKernel bf16_peak_kernel();

}  // namespace hasten::cpu
