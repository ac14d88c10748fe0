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
  std::string bytes(encoded.size() / 4 * 3, '\0');
  char* to = bytes.data();
  int all = 0;  // negative once a character is none of the alphabet
  for (size_t i = 0; i < encoded.size(); i += 4) {
    uint32_t bits = 0;
    for (size_t k = i; k < i + 4; ++k) {
      const bool is_padding = k + padding >= encoded.size();
      const int value = is_padding ? 0 : kBase64Values[static_cast<uint8_t>(encoded[k])];
      all |= value;
      bits = bits << 6 | (static_cast<uint32_t>(value) & 63);
    }
    for (const int shift : {16, 8, 0}) *to++ = static_cast<char>(bits >> shift);
  }
  if (all < 0) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace hasten::text
