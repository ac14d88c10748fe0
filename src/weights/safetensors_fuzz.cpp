// SPDX-License-Identifier: Apache-2.0
// Fuzzes the safetensors parser: every input is one clean error, or tensors that can be read.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> image(begin, begin + size);  // aligned, ends where the input does
  try {
    const auto file = hasten::weights::parse_safetensors(image, "fuzz");
    volatile unsigned sum = 0;
    for (const auto& named : file.tensors) {
      for (int64_t i = 0; i < named.tensor.num_bytes(); ++i)
        sum = sum + static_cast<const uint8_t*>(named.tensor.data())[i];
    }
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
