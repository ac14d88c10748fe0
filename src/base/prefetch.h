// SPDX-License-Identifier: Apache-2.0
// prefetch: begins to bring what lies at an address into the caches.
#pragma once

namespace hasten {

/// The compiler drops calls of a function that has no effect, and GCC takes one that does nothing
/// but prefetch for such a one. It never drops a volatile statement.
inline void prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace hasten
