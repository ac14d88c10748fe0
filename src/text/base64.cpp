// SPDX-License-Identifier: Apache-2.0
// Four characters to three bytes.
#include "text/base64.h"

#include <array>
#include <cstdint>

namespace hasten::text {
namespace {

constexpr std::array<int8_t, 256> kBase64Values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  int8_t value = 0;
  for (char c = 'A'; c <= 'Z'; ++c) values[static_cast<uint8_t>(c)] = value++;
  for (char c = 'a'; c <= 'z'; ++c) values[static_cast<uint8_t>(c)] = value++;
  for (char c = '0'; c <= '9'; ++c) values[static_cast<uint8_t>(c)] = value++;
  values['+'] = value++;
  values['/'] = value++;
  return values;
}();

}  // namespace

std::optional<std::string> decode_base64(std::string_view encoded) {
  if (encoded.empty() || encoded.size() % 4 != 0) return std::nullopt;
  const size_t padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(encoded.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const int8_t value = kBase64Values[static_cast<uint8_t>(encoded[i])];
    const bool pad = i + padding >= encoded.size();
    if (value < 0 && !pad) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(pad ? 0 : value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(bits >> shift));
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace hasten::text
