// SPDX-License-Identifier: Apache-2.0
// Small non-cryptographic hashing: a 64-bit mixer and a byte hash (FNV-1a, finished with the
// mixer).
#pragma once

#include <cstdint>
#include <string_view>

namespace hasten {

/// Bijective 64-bit finaliser (SplitMix64, Steele et al. 2014).
[[nodiscard]] constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

[[nodiscard]] constexpr uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0) {
  uint64_t h = 0xcbf29ce484222325ULL ^ mix64(seed);
  for (const char c : bytes) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return mix64(h);
}

}  // namespace hasten
