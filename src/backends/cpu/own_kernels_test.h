// SPDX-License-Identifier: Apache-2.0
// Which tables of kernels a test has to meet.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"

namespace hasten::cpu {

/// Of the tables supported here, those that do not share these kernels with one before them: a
/// table that adds some to another's has all others from it. `kernels`: an array of KernelTable.
template <class Kernels>
std::vector<const KernelTable*> tables_with_own(Kernels KernelTable::*kernels) {
  std::vector<const KernelTable*> own;
  for (const KernelTable* table : supported_kernels()) {
    const auto shared = [&](const KernelTable* other) {
      return std::ranges::equal(table->*kernels, other->*kernels);
    };
    if (std::ranges::none_of(own, shared)) own.push_back(table);
  }
  return own;
}

}  // namespace hasten::cpu
