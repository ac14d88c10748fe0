// SPDX-License-Identifier: Apache-2.0
// Turns the spellings of a vocabulary file into bytes and indexes them.
#include "text/vocabulary.h"

#include <bit>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, SentencePiece's space

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

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte of "<0x0A>".
std::optional<uint8_t> parse_byte_spelling(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

bool known_type(int32_t type) { return type >= 1 && type <= 6; }

}  // namespace

std::optional<std::string> from_gpt2_alphabet(std::string_view piece) {
  std::string bytes;
  bytes.reserve(piece.size());
  while (!piece.empty()) {
    const Utf8Char next = decode_utf8(piece);
    if (!next.valid || next.code_point >= kGpt2Alphabet.byte_of.size()) return std::nullopt;
    const int16_t byte = kGpt2Alphabet.byte_of[next.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    piece.remove_prefix(next.length);
  }
  return bytes;
}

std::string to_gpt2_alphabet(std::string_view bytes) {
  std::string piece;
  for (const char byte : bytes) {
    append_utf8(piece, kGpt2Alphabet.character_of[static_cast<uint8_t>(byte)]);
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

Vocabulary::Vocabulary(const TokenizerSpec& spec) : kind_(spec.kind) {
  const size_t size = spec.tokens.size();
  if (size == 0) fail(ErrorCode::invalid_data, "the tokenizer has no tokens");
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    fail(ErrorCode::invalid_data, "the tokenizer has {} tokens; ids have 31 bits", size);
  }
  if (!spec.types.empty() && spec.types.size() != size) {
    fail(ErrorCode::invalid_data, "the tokenizer has {} tokens but {} token types", size,
         spec.types.size());
  }
  byte_tokens_.fill(-1);
  offsets_.reserve(size + 1);
  offsets_.push_back(0);
  types_.reserve(size);
  ordinary_.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const int32_t type = spec.types.empty() ? 1 : spec.types[i];
    if (!known_type(type)) {
      fail(ErrorCode::invalid_data, "token {} has type {}; known are 1 to 6", i, type);
    }
    if (spec.tokens[i].size() > kMaxTokenBytes) {
      fail(ErrorCode::invalid_data, "token {} is {} bytes long; the limit is {}", i,
           spec.tokens[i].size(), kMaxTokenBytes);
    }
    append(spec.tokens[i], static_cast<TokenType>(type));
  }
  build_index();
}

void Vocabulary::append(std::string_view piece, TokenType type) {
  const auto id = static_cast<int32_t>(types_.size());
  bool ordinary = type == TokenType::normal || type == TokenType::unused;
  if (type == TokenType::byte) {
    const std::optional<uint8_t> byte = parse_byte_spelling(piece);
    if (!byte) {
      fail(ErrorCode::invalid_data, "token {} is a byte but not written like <0x0A>: {}", id,
           printable(piece));
    }
    bytes_.push_back(static_cast<char>(*byte));
    if (byte_tokens_[*byte] < 0) byte_tokens_[*byte] = id;
  } else if (kind_ == TokenizerKind::spm || kind_ == TokenizerKind::unigram) {
    ordinary = ordinary || type == TokenType::user_defined;
    bytes_ += replace_space_symbol(piece);
  } else {
    const std::optional<std::string> bytes =
        ordinary ? from_gpt2_alphabet(piece) : std::optional<std::string>();
    ordinary = bytes.has_value();
    bytes_ += bytes ? std::string_view(*bytes) : piece;
    if (bytes && bytes->size() == 1) {
      int32_t& token = byte_tokens_[static_cast<uint8_t>(bytes->front())];
      if (token < 0) token = id;
    }
  }
  if (bytes_.size() > std::numeric_limits<uint32_t>::max()) {
    fail(ErrorCode::invalid_data, "the tokens take more than 4 GiB");
  }
  offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  types_.push_back(type);
  ordinary_.push_back(ordinary && offsets_[types_.size()] > offsets_[types_.size() - 1]);
}

void Vocabulary::build_index() {
  seed_ = hash_bytes(bytes_);
  slots_.assign(std::bit_ceil(2 * types_.size() + 1), Slot{});
  for (int32_t id = 0; id < size(); ++id) {
    if (!is_ordinary(id)) continue;
    const uint64_t hash = this->hash(bytes(id));
    Slot& slot = slots_[slot_of(bytes(id), hash)];
    if (slot.id < 0) slot = {.tag = static_cast<uint32_t>(hash >> 32), .id = id};
  }
}

// Where these bytes are, or would be.
size_t Vocabulary::slot_of(std::string_view bytes, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  for (; slots_[at].id >= 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && this->bytes(slots_[at].id) == bytes) break;
  }
  return at;
}

void Vocabulary::refuse(int32_t id) const {
  fail(ErrorCode::invalid_argument, "token {} is outside the vocabulary of {} tokens", id, size());
}

std::optional<int32_t> Vocabulary::find_spelling(std::string_view piece) const {
  int32_t id = -1;
  if (kind_ == TokenizerKind::bpe) {
    const std::optional<std::string> bytes = from_gpt2_alphabet(piece);
    if (bytes) id = find_ordinary(*bytes);
  } else {
    const std::optional<uint8_t> byte = parse_byte_spelling(piece);
    if (byte) id = byte_token(*byte);
    if (id < 0) id = find_ordinary(replace_space_symbol(piece));
  }
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace hasten::text
