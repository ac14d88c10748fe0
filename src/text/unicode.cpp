// SPDX-License-Identifier: Apache-2.0
// Looks characters up in the generated two-stage table.
#include "text/unicode.h"

#include <array>
#include <string_view>

#include "text/unicode_tables.h"

namespace hasten::text {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<uint8_t, 128> kClassOfLetter = [] {
  std::array<uint8_t, 128> classes{};
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    classes[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return classes;
}();

}  // namespace

CharProperties char_properties(uint32_t code_point) {
  if (code_point > 0x10FFFF) return {Category::cn, false, false};
  const uint8_t block = tables::kBlockOf[code_point / tables::kBlockSize];
  const char letter = tables::kBlocks[block][code_point % tables::kBlockSize];
  return tables::kClasses[kClassOfLetter[static_cast<uint8_t>(letter)]];
}

}  // namespace hasten::text
