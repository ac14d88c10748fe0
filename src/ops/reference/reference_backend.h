// SPDX-License-Identifier: Apache-2.0
// The reference backend: what every operation means, in plain loops that all kernels are held to.
#pragma once

#include <memory>

#include "ops/backend.h"

namespace hasten::ops {

/// A backend on the host, on the calling thread: double sums, float storage, every weight format,
/// KV caches of f32, f16 and bf16. Right and slow; it allocates in every call.
[[nodiscard]] std::unique_ptr<Backend> make_reference_backend();

}  // namespace hasten::ops
