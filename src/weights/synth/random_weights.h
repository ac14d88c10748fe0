// SPDX-License-Identifier: Apache-2.0
// Random weights in any format, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/nearly_normal.h"
#include "tensor/dtype.h"

namespace hasten::weights::synthetic {

/// A counter passed through a mixer: the same seed, the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed)) {}
  uint64_t next() { return mix64(state_++); }
  float normal() { return nearly_normal(next()); }

 private:
  uint64_t state_;
};

/// Makes the bytes of tensors. Small tensors are drawn and encoded element by element. Encoding all
/// of a large one would take minutes in the K formats: it is put together from random pieces of a
/// pool of encoded elements, one pool per format and deviation.
class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}

  using Append = std::function<void(std::span<const std::byte>)>;

  /// Appends `num_elements` (whole blocks) of mean and deviation, in parts of about a megabyte. The
  /// bytes depend on the seed and `salt` only.
  void generate(DType dtype, float mean, float deviation, int64_t num_elements, uint64_t salt,
                const Append& append);

 private:
  std::vector<std::byte> encode(DType dtype, float mean, float deviation, int64_t num_elements,
                                uint64_t salt) const;
  const std::vector<std::byte>& pool(DType dtype, float mean, float deviation);

  uint64_t seed_;
  std::map<std::pair<DType, std::pair<float, float>>, std::vector<std::byte>> pools_;
};

}  // namespace hasten::weights::synthetic
