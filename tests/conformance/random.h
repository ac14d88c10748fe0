// SPDX-License-Identifier: Apache-2.0
// Random inputs that a printed seed reproduces, whatever the standard library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/nearly_normal.h"

namespace hasten::conformance {

/// The seed of this run: HASTEN_TEST_SEED, or a fresh one. Printed on first use.
uint64_t run_seed();

/// A stream of numbers. Copies continue independently from the same place.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed)) {}

  uint64_t bits() { return mix64(state_++); }
  /// Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  /// Uniform in (0, 1).
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  float normal() { return nearly_normal(bits()); }
  std::vector<float> normals(int64_t count, float scale = 1.0F) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = scale * normal();
    return values;
  }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  /// 0 .. count - 1 in random order.
  std::vector<int32_t> permutation(int64_t count) {
    std::vector<int32_t> order(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      order[i] = static_cast<int32_t>(i);
      std::swap(order[i], order[between(0, i)]);
    }
    return order;
  }

 private:
  uint64_t state_;
};

}  // namespace hasten::conformance
