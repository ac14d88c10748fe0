// SPDX-License-Identifier: Apache-2.0
// Alphabets, symbols, prefixes and escapes, each to bytes.
#include "text/token_spelling.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "text/utf8.h"

namespace hasten::text {
namespace {

// GPT-2 writes each byte as a printable character: itself where it is one, and the characters from
// U+0100 on, in order, for the 68 bytes that are not.
constexpr bool is_printable_latin1(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

struct Gpt2Alphabet {
  std::array<uint16_t, 256> character_of{};
  std::array<int16_t, 324> byte_of{};  // -1: not in the alphabet
};

constexpr Gpt2Alphabet kGpt2Alphabet = [] {
  Gpt2Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of) byte = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t character = is_printable_latin1(byte) ? byte : next++;
    alphabet.character_of[byte] = static_cast<uint16_t>(character);
    alphabet.byte_of[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}();

// The number that the `count` hexadecimal digits at the front of `text` write.
std::optional<uint32_t> hex_number(std::string_view text, size_t count) {
  if (text.size() < count) return std::nullopt;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, value, 16);
  if (error != std::errc() || end != text.data() + count) return std::nullopt;
  return value;
}

}  // namespace

bool append_from_gpt2_alphabet(std::string_view piece, std::string& out) {
  // The alphabet has characters of one and two bytes, which are read here as they stand.
  const size_t before = out.size();
  out.resize(before + piece.size());
  char* to = out.data() + before;
  for (size_t i = 0; i < piece.size(); ++i) {
    uint32_t character = static_cast<uint8_t>(piece[i]);
    if (character >= 0x80) {
      const uint32_t trail = i + 1 < piece.size() ? static_cast<uint8_t>(piece[++i]) : 0;
      const bool two_bytes = character >= 0xC2 && character < 0xE0 && (trail & 0xC0) == 0x80;
      character = two_bytes ? (character & 0x1F) << 6 | (trail & 0x3F) : UINT32_MAX;
    }
    const int16_t byte =
        character < kGpt2Alphabet.byte_of.size() ? kGpt2Alphabet.byte_of[character] : int16_t{-1};
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    *to++ = static_cast<char>(byte);
  }
  out.resize(static_cast<size_t>(to - out.data()));
  return true;
}

std::optional<std::string> from_gpt2_alphabet(std::string_view piece) {
  std::string bytes;
  return append_from_gpt2_alphabet(piece, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

std::string to_gpt2_alphabet(std::string_view bytes) {
  const auto character_of = [](char byte) {
    return kGpt2Alphabet.character_of[static_cast<uint8_t>(byte)];
  };
  size_t size = bytes.size();
  for (const char byte : bytes) size += character_of(byte) < 0x80 ? 0 : 1;
  std::string piece(size, '\0');
  char* to = piece.data();
  for (const char byte : bytes) {
    const uint32_t character = character_of(byte);
    if (character < 0x80) {
      *to++ = static_cast<char>(character);
    } else {  // none is beyond two bytes of UTF-8
      *to++ = static_cast<char>(0xC0 | character >> 6);
      *to++ = static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return piece;
}

std::string replace_space_symbol(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at; (at = text.find(kSpaceSymbol)) != std::string_view::npos;) {
    out.append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kSpaceSymbol.size());
  }
  return out.append(text);
}

std::optional<std::string> from_python_bytes(std::string_view literal) {
  static constexpr std::string_view kNames = "abfnrtv\\'\"";
  static constexpr std::string_view kBytes = "\a\b\f\n\r\t\v\\'\"";
  std::string bytes;
  while (!literal.empty()) {
    const char c = literal.front();
    literal.remove_prefix(1);
    if (c != '\\') {
      bytes.push_back(c);
      continue;
    }
    if (literal.empty()) return std::nullopt;
    const char name = literal.front();
    literal.remove_prefix(1);
    if (name == 'x') {
      const std::optional<uint32_t> byte = hex_number(literal, 2);
      if (!byte) return std::nullopt;
      bytes.push_back(static_cast<char>(*byte));
      literal.remove_prefix(2);
      continue;
    }
    const size_t known = kNames.find(name);
    if (known >= kNames.size()) return std::nullopt;
    bytes.push_back(kBytes[known]);
  }
  return bytes;
}

std::string to_python_bytes(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string literal;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '\n' || c == '\r' || c == '\t') {
      literal.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (c == '\\') {
      literal.append("\\\\");
    } else if (byte >= 0x20 && byte < 0x7F) {
      literal.push_back(c);
    } else {
      literal.append("\\x");
      literal.push_back(kDigits[byte / 16]);
      literal.push_back(kDigits[byte % 16]);
    }
  }
  return literal;
}

bool TokenSpelling::append_bytes(std::string_view piece, std::string& out) const {
  if (kind_ == TokenizerKind::bpe) return append_from_gpt2_alphabet(piece, out);
  const std::optional<std::string> bytes = bytes_of(piece);
  if (bytes) out += *bytes;
  return bytes.has_value();
}

std::optional<std::string> TokenSpelling::bytes_of(std::string_view piece) const {
  switch (kind_) {
    case TokenizerKind::bpe:
      return from_gpt2_alphabet(piece);
    case TokenizerKind::spm:
    case TokenizerKind::unigram:
      return replace_space_symbol(piece);
    case TokenizerKind::word_piece:
      if (continuing_prefix_.empty()) return replace_space_symbol(piece);
      if (piece.starts_with(continuing_prefix_)) {
        return std::string(piece.substr(continuing_prefix_.size()));
      }
      return ' ' + std::string(piece);
    case TokenizerKind::word_level:
      return ' ' + std::string(piece);
    case TokenizerKind::rwkv:
      return from_python_bytes(piece);
    case TokenizerKind::character_bpe:
      return std::string(piece);
  }
  return std::nullopt;
}

}  // namespace hasten::text
