// SPDX-License-Identifier: Apache-2.0
// decode_utf8 with the commonest characters beyond ASCII decoded in place.
#pragma once

#include <string_view>

#include "text/utf8.h"

namespace hasten::text {

/// As decode_utf8(text.substr(at)).
inline Utf8Char decode_character(std::string_view text, size_t at) {
  // Three bytes, but for the leads after which not every continuation byte is allowed: CJK, kana,
  // Hangul and most of the rest of the first plane.
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead > 0xE0 && lead < 0xF0 && lead != 0xED && text.size() - at > 2) {
    const auto second = static_cast<uint8_t>(text[at + 1]);
    const auto third = static_cast<uint8_t>(text[at + 2]);
    if ((second & 0xC0) == 0x80 && (third & 0xC0) == 0x80) {
      return {.code_point = (lead & 0x0FU) << 12 | (second & 0x3FU) << 6 | (third & 0x3FU),
              .length = 3,
              .valid = true};
    }
  }
  return decode_utf8(text.substr(at));
}

}  // namespace hasten::text
