// SPDX-License-Identifier: Apache-2.0
// SipHash: a hash of bytes that nobody can steer who does not know its key.
#pragma once

#include <cstdint>
#include <string_view>

namespace hasten {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

/// SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012).
[[nodiscard]] Hash128 siphash(std::string_view bytes, const Hash128& key);

/// A key that no other process has.
[[nodiscard]] Hash128 random_key();

}  // namespace hasten
