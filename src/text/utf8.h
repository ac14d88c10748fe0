// SPDX-License-Identifier: Apache-2.0
// UTF-8, forgiving: decodes one character at a time, and assembles characters from pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hasten::text {

inline constexpr uint32_t kReplacementChar = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

/// One step through UTF-8 text.
struct Utf8Char {
  uint32_t code_point = kReplacementChar;
  uint8_t length = 0;       // bytes used; at least 1 unless the text is empty
  bool valid = false;       // false: `length` bytes are a maximal subpart that is no character
  bool incomplete = false;  // not valid, but more bytes could make it so
};

/// Decodes the character at the front of `text` by the WHATWG Encoding Standard: overlong forms,
/// surrogates and numbers above U+10FFFF are not valid.
[[nodiscard]] Utf8Char decode_utf8(std::string_view text);

/// Appends `code_point` (a Unicode scalar value) to `out`.
void append_utf8(std::string& out, uint32_t code_point);

/// Collects bytes and releases whole characters. One thread at a time.
class Utf8Assembler {
 public:
  /// Takes `bytes` and appends the characters now complete to `out`, U+FFFD for each maximal
  /// subpart that is none; at most 3 bytes are held back.
  void append(std::string_view bytes, std::string& out);
  /// Appends U+FFFD to `out` if bytes are held back, which are then forgotten.
  void flush(std::string& out);

 private:
  std::string pending_;  // the beginning of a character
};

}  // namespace hasten::text
