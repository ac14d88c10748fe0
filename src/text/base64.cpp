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
  std::string bytes;
  return decode_base64(encoded, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

bool decode_base64(std::string_view encoded, std::string& bytes) {
  if (encoded.empty() || encoded.size() % 4 != 0) return false;
  const size_t padding = encoded.ends_with("==") ? 2 : encoded.ends_with('=') ? 1 : 0;
  bytes.resize(encoded.size() / 4 * 3);
  char* to = bytes.data();
  int32_t all = 0;  // negative once a character is none of the alphabet
  const auto decode = [&](const char* four) {
    const auto value = [&](size_t i) {
      return int32_t{kBase64Values[static_cast<uint8_t>(four[i])]};
    };
    all |= value(0) | value(1) | value(2) | value(3);
    const auto bits = static_cast<uint32_t>(value(0)) << 18 |
                      static_cast<uint32_t>(value(1)) << 12 | static_cast<uint32_t>(value(2)) << 6 |
                      static_cast<uint32_t>(value(3));
    for (const int shift : {16, 8, 0}) *to++ = static_cast<char>(bits >> shift);
  };
  const size_t last = encoded.size() - 4;
  for (size_t i = 0; i < last; i += 4) decode(encoded.data() + i);
  std::array<char, 4> four{};
  for (size_t k = 0; k < four.size(); ++k) four[k] = k < 4 - padding ? encoded[last + k] : 'A';
  decode(four.data());
  bytes.resize(bytes.size() - padding);
  return all >= 0;
}

}  // namespace hasten::text
