// SPDX-License-Identifier: Apache-2.0
// How much of the heap this test program holds.
#pragma once

#include <cstdint>

namespace hasten::text::jinja {

/// Bytes that operator new has handed out and not got back, by any thread. 0 under a sanitizer.
int64_t heap_bytes();
/// The most that they were since the last call of this.
int64_t take_heap_peak();

}  // namespace hasten::text::jinja
