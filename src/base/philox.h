// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the same seed, stream and position give the same number, always.
#pragma once

#include <array>
#include <cstdint>

namespace hasten {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds
/// of multiplication turn a counter and a key into four independent words.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                                       std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A number in [0, 1) with 53 random bits, for one position of one stream: of a choice of a
/// request, for example.
[[nodiscard]] constexpr double uniform(uint64_t seed, int32_t stream, int64_t position) {
  const auto words = philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                             static_cast<uint32_t>(stream), 0},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace hasten
