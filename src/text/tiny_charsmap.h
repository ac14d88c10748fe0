// SPDX-License-Identifier: Apache-2.0
// For tests: a precompiled character map of a few entries, made here.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace hasten::text::testing {

/// The map as a file holds it. Keys have one or two bytes and share no first byte; they and the
/// values hold no zero byte.
inline std::string tiny_charsmap(const std::map<std::string, std::string>& entries) {
  constexpr uint32_t kValue = uint32_t{1} << 31;
  constexpr uint32_t kHasValue = uint32_t{1} << 8;
  // The root's children lie at 256 ^ byte. The k-th of them has its own block of 256 units.
  std::vector<uint32_t> units(256 * (entries.size() + 2));
  units[0] = 256U << 10;
  std::string values;
  uint32_t block = 512;
  for (const auto& [key, to] : entries) {
    uint32_t at = 256 ^ static_cast<uint8_t>(key[0]);
    uint32_t label = static_cast<uint8_t>(key[0]);
    if (key.size() == 2) {
      const uint32_t second = static_cast<uint8_t>(key[1]);
      units[at] = (at ^ block) << 10 | label;
      at = block ^ second;
      label = second;
    }
    // The value lies in the same block, at the place of the byte zero.
    units[at] = (at ^ block) << 10 | kHasValue | label;
    units[block] = kValue | static_cast<uint32_t>(values.size());
    values += to;
    values += '\0';
    block += 256;
  }
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string blob(sizeof bytes + bytes, '\0');
  std::memcpy(blob.data(), &bytes, sizeof bytes);
  std::memcpy(blob.data() + sizeof bytes, units.data(), bytes);
  return blob + values;
}

}  // namespace hasten::text::testing
