// SPDX-License-Identifier: Apache-2.0
// The backends of this build, by the names that users give them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace hasten::api {

/// "auto" and "cpu": the CPU backend; "reference": the scalar truth. `threads` 0: one per physical
/// core; without `repack` weights stay in the mapped file. Throws Error{invalid_argument} with the
/// known names.
std::unique_ptr<ops::Backend> make_backend(const std::string& devices, int32_t threads,
                                           bool repack = true);

}  // namespace hasten::api
