// SPDX-License-Identifier: Apache-2.0
// Random numbers that are nearly normal, the same on every machine.
#pragma once

#include <cstdint>

namespace hasten {

/// Of 64 random bits a number of mean 0 and deviation 1: four uniform ones added, which end at 3.46
/// deviations. Exact ones, by logarithm and cosine, would take most of the time of some tests.
inline float nearly_normal(uint64_t bits) {
  const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                      (bits >> 32 & 0xffff) + (bits >> 48));
  // Each has mean 65535 / 2 and deviation 65536 / sqrt(12); the sum of four twice the latter.
  return (sum - 131070.0F) * (1.7320508F / 65536.0F);
}

}  // namespace hasten
