// SPDX-License-Identifier: Apache-2.0
// What tests of quantised activations and of products with them have in common.
#pragma once

#include <cstdint>

namespace hasten::cpu {

/// What the dot product of a block of a pair gets before it is shifted by `right`.
inline int32_t rounding_of(int64_t block, int right) {
  const int32_t half = 1 << right >> 1;
  return block % 2 == 1 && half > 0 ? half - 1 : half;
}

}  // namespace hasten::cpu
