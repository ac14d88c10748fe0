// SPDX-License-Identifier: Apache-2.0
// The UTF-8 decoder of the WHATWG Encoding Standard, and what assembles characters with it.
#include "text/utf8.h"

namespace hasten::text {

Utf8Char decode_utf8(std::string_view text) {
  if (text.empty()) return {.incomplete = true};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {.code_point = lead, .length = 1, .valid = true};

  size_t length = 0;
  uint32_t code_point = 0;
  uint8_t lower = 0x80;  // limits of the second byte
  uint8_t upper = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code_point = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code_point = lead & 0x0FU;
    if (lead == 0xE0) lower = 0xA0;  // overlong below
    if (lead == 0xED) upper = 0x9F;  // surrogates above
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code_point = lead & 0x07U;
    if (lead == 0xF0) lower = 0x90;  // overlong below
    if (lead == 0xF4) upper = 0x8F;  // above U+10FFFF
  } else {
    return {.length = 1};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.length = static_cast<uint8_t>(i), .incomplete = true};
    if (byte(i) < lower || byte(i) > upper) return {.length = static_cast<uint8_t>(i)};
    code_point = code_point << 6 | (byte(i) & 0x3FU);
    lower = 0x80;
    upper = 0xBF;
  }
  return {.code_point = code_point, .length = static_cast<uint8_t>(length), .valid = true};
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

void Utf8Assembler::append(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_.append(bytes);
    pending_.clear();
    bytes = joined;
  }
  size_t whole = 0;  // bytes at the front that are whole characters
  while (whole < bytes.size()) {
    if (static_cast<uint8_t>(bytes[whole]) < 0x80) {
      ++whole;
      continue;
    }
    const Utf8Char next = decode_utf8(bytes.substr(whole));
    if (next.incomplete) break;
    if (!next.valid) {
      out.append(bytes.substr(0, whole)).append(kReplacementUtf8);
      bytes.remove_prefix(whole + next.length);
      whole = 0;
      continue;
    }
    whole += next.length;
  }
  out.append(bytes.substr(0, whole));
  pending_.assign(bytes.substr(whole));
}

void Utf8Assembler::flush(std::string& out) {
  if (!pending_.empty()) out.append(kReplacementUtf8);
  pending_.clear();
}

}  // namespace hasten::text
