// SPDX-License-Identifier: Apache-2.0
// The tokens of a vocabulary by id and by their bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "text/token_spelling.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

/// Every token as the bytes that it stands for, and the way back for ordinary tokens.
///
/// Ordinary tokens are those that merging makes: not control, unknown or byte tokens, and in
/// byte-level vocabularies not user-defined ones, which are matched as they are written. In
/// SentencePiece vocabularies U+2581 is a space, here and in the text that is encoded. WordPieces
/// that begin a word, and whole words of WordLevel, begin with a space.
/// Const after construction: any thread.
class Vocabulary {
 public:
  /// Throws Error{invalid_data} for a type that does not exist, a token longer than kMaxTokenBytes,
  /// or lists of different lengths.
  explicit Vocabulary(const TokenizerSpec& spec);

  // As spelled in the file; published vocabularies stay below 512. Bounds what matching costs.
  static constexpr size_t kMaxTokenBytes = 2048;

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  std::string_view bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  /// Whether files spell bytes in GPT-2's alphabet.
  bool is_byte_level() const { return kind_ == TokenizerKind::bpe; }
  /// A hash of all tokens: what hash tables of them are seeded with.
  uint64_t seed() const { return seed_; }
  /// Whether merging can make this token.
  bool is_ordinary(int32_t id) const { return ordinary_[static_cast<size_t>(id)]; }
  /// Whether two ordinary tokens have the same bytes.
  bool has_duplicates() const { return has_duplicates_; }
  /// Whether merging can make it, and no token before it has the same bytes.
  bool is_first_ordinary(int32_t id) const {
    return is_ordinary(id) && (!has_duplicates_ || find_ordinary(bytes(id)) == id);
  }
  /// Control and unknown tokens: not text that a model says.
  bool is_special(int32_t id) const {
    return type(id) == TokenType::control || type(id) == TokenType::unknown;
  }
  /// Throws Error{invalid_argument} for an id outside the vocabulary.
  void check(int32_t id) const {
    if (id < 0 || id >= size()) refuse(id);
  }

  /// The ordinary token of these bytes (the lowest id of equals), or -1. Allocates nothing.
  int32_t find_ordinary(std::string_view bytes) const { return find_ordinary(bytes, hash(bytes)); }
  /// The same in two steps, so that many look-ups can wait for memory together.
  int32_t find_ordinary(std::string_view bytes, uint64_t hash) const {
    return slots_[slot_of(bytes, hash)].id;
  }
  uint64_t hash(std::string_view bytes) const { return hash_bytes(bytes, seed_); }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
  /// The token for one byte where no character token serves, or -1.
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  /// The ordinary or byte token spelled so in the file.
  std::optional<int32_t> find_spelling(std::string_view piece) const;

 private:
  [[noreturn]] void refuse(int32_t id) const;
  void append(std::string_view piece, TokenType type);
  void build_index();
  /// A token and part of its hash, so that most comparisons need not look at the bytes.
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;  // -1: empty
  };
  size_t slot_of(std::string_view bytes, uint64_t hash) const;

  TokenizerKind kind_;
  TokenSpelling spelling_;
  std::string bytes_;              // all tokens, one after the other
  std::vector<uint32_t> offsets_;  // [size + 1] into bytes_
  std::vector<TokenType> types_;
  std::vector<bool> ordinary_;  // [size]
  std::array<int32_t, 256> byte_tokens_;
  // Open addressing, a power of two, at most 3/4 full. Seeded by the vocabulary itself, so that no
  // file can aim its tokens at one slot.
  std::vector<Slot> slots_;
  uint64_t seed_ = 0;
  bool has_duplicates_ = false;
};

}  // namespace hasten::text
