// SPDX-License-Identifier: Apache-2.0
// How often this test program has asked the heap for memory.
#pragma once

#include <cstdint>

namespace hasten::models {

/// Calls of operator new so far, by any thread.
int64_t allocation_count();

}  // namespace hasten::models
