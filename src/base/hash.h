// SPDX-License-Identifier: Apache-2.0
// Small non-cryptographic hashing: a 64-bit mixer, and a hash of bytes that multiplies eight at a
// time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hasten {

/// Bijective 64-bit finaliser (SplitMix64, Steele et al. 2014).
[[nodiscard]] constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

static_assert(std::endian::native == std::endian::little);
/// At most the first eight bytes, the first the lowest, and zeros behind fewer. Without a loop.
[[nodiscard]] inline uint64_t front_word(std::string_view bytes) {
  const char* const at = bytes.data();
  const size_t size = bytes.size();
  uint64_t word = 0;
  if (size >= sizeof word) {
    std::memcpy(&word, at, sizeof word);
  } else if (size >= sizeof(uint32_t)) {  // two halves, which may share bytes
    uint32_t front = 0;
    uint32_t back = 0;
    std::memcpy(&front, at, sizeof front);
    std::memcpy(&back, at + size - sizeof back, sizeof back);
    word = front | uint64_t{back} << (8 * (size - sizeof back));
  } else if (size > 0) {
    const auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(at[i])} << (8 * i); };
    word = byte(0) | byte(size / 2) | byte(size - 1);
  }
  return word;
}

/// The same on every machine for the same bytes and seed.
[[nodiscard]] inline uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0) {
  const auto step = [](uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
    return h ^ (h >> 32);
  };
  uint64_t h = mix64(seed) ^ bytes.size();
  uint64_t word = 0;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
    std::memcpy(&word, at, sizeof word);
    h = step(h, word);
  }
  return mix64(step(h, front_word({at, left})));
}

}  // namespace hasten
