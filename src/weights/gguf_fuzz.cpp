// SPDX-License-Identifier: Apache-2.0
// Fuzzes the GGUF reader: every input is one clean error, or a model that can be read to its end.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "weights/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> image(begin, begin + size);  // aligned, ends where the input does
  try {
    const auto checkpoint = hasten::weights::open_gguf(image, "fuzz");
    volatile unsigned sum = 0;
    for (const auto& named : checkpoint->tensors()) {
      for (int64_t i = 0; i < named.tensor.num_bytes(); ++i)
        sum = sum + static_cast<const uint8_t*>(named.tensor.data())[i];
    }
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
