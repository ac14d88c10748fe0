// SPDX-License-Identifier: Apache-2.0
// Fuzzes load_model on GGUF images: hyperparameters, names and shapes that do not fit together.
#include <cstddef>
#include <cstdint>
#include <span>

#include "hasten/error.h"
#include "models/model.h"
#include "ops/reference/reference_backend.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto backend = hasten::ops::make_reference_backend();
  try {
    const auto checkpoint =
        hasten::weights::open_gguf(std::as_bytes(std::span(data, size)), "fuzz");
    (void)hasten::models::load_model(*checkpoint, *backend);
  } catch (const hasten::Error& error) {
    if (error.code() == hasten::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
