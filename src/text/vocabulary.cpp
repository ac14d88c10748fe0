// SPDX-License-Identifier: Apache-2.0
// Turns the spellings of a vocabulary file into bytes and indexes them.
#include "text/vocabulary.h"

#include <bit>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace hasten::text {
namespace {

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

// The user-defined tokens that the model does not know, or never finds: no pieces. SentencePiece's
// knows none of those that files beside it list.
std::unordered_set<int32_t> tokens_beside_model(const TokenizerSpec& spec) {
  std::unordered_set<int32_t> ids(spec.never_found.begin(), spec.never_found.end());
  const bool all = spec.merges.empty() && !spec.pre_steps;
  for (const AddedTokenRule& rule : spec.added_token_rules) {
    if (all || rule.beside_model) ids.insert(rule.id);
  }
  return ids;
}

}  // namespace

Vocabulary::Vocabulary(const TokenizerSpec& spec) : kind_(spec.kind), spelling_(spec) {
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
  const std::unordered_set<int32_t> beside_model = tokens_beside_model(spec);
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
    if (beside_model.contains(static_cast<int32_t>(i)) &&
        types_.back() == TokenType::user_defined) {
      ordinary_.back() = false;
    }
    // A Unigram model of a tokenizer.json finds its unknown piece, too, where that is written out.
    if (types_.back() == TokenType::unknown && kind_ == TokenizerKind::unigram &&
        spec.lists_added_tokens) {
      ordinary_.back() = true;
    }
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
  } else {
    const bool sentencepiece = kind_ == TokenizerKind::spm || kind_ == TokenizerKind::unigram;
    const bool in_merges = sentencepiece || kind_ == TokenizerKind::character_bpe;
    ordinary = ordinary || (in_merges && type == TokenType::user_defined);
    const bool spelled = (ordinary || sentencepiece) && spelling_.append_bytes(piece, bytes_);
    ordinary = ordinary && spelled;
    if (!spelled) bytes_ += piece;
    if (kind_ == TokenizerKind::bpe && spelled && bytes_.size() == offsets_.back() + 1) {
      int32_t& token = byte_tokens_[static_cast<uint8_t>(bytes_.back())];
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
  slots_.assign(std::bit_ceil(types_.size() + types_.size() / 3 + 2), Slot{});
  // The slots are larger than the caches: those of the next tokens are fetched meanwhile.
  constexpr int32_t kAhead = 32;
  std::array<uint64_t, kAhead> hashes{};
  const auto prepare = [&](int32_t id) {
    if (id >= size()) return;
    hashes[static_cast<size_t>(id % kAhead)] = hash(bytes(id));
    prefetch(hashes[static_cast<size_t>(id % kAhead)]);
  };
  for (int32_t id = 0; id < kAhead; ++id) prepare(id);
  for (int32_t id = 0; id < size(); ++id) {
    const uint64_t hash = hashes[static_cast<size_t>(id % kAhead)];
    if (id < INT32_MAX - kAhead) prepare(id + kAhead);
    if (!is_ordinary(id)) continue;
    Slot& slot = slots_[slot_of(bytes(id), hash)];
    has_duplicates_ = has_duplicates_ || slot.id >= 0;
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
  const std::optional<uint8_t> byte =
      kind_ == TokenizerKind::bpe ? std::nullopt : parse_byte_spelling(piece);
  if (byte) id = byte_token(*byte);
  if (id < 0) {
    const std::optional<std::string> bytes = spelling_.bytes_of(piece);
    if (bytes) id = find_ordinary(*bytes);
  }
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace hasten::text
