// SPDX-License-Identifier: Apache-2.0
// Bytes into a checkpoint and out of it, for the tests of its readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"

namespace hasten::weights {

/// Bytes at an address like that of a mapped file.
inline std::vector<std::byte> aligned_copy(std::string_view bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

/// A sum over every byte of every tensor: what a reader accepts must be readable.
inline uint64_t touch(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const NamedTensor& named : checkpoint.tensors()) {
    const auto* bytes = static_cast<const uint8_t*>(named.tensor.data());
    for (int64_t i = 0; i < named.tensor.num_bytes(); ++i) sum += bytes[i];
  }
  return sum;
}

}  // namespace hasten::weights
