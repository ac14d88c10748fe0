// SPDX-License-Identifier: Apache-2.0
// Remembers the tokens of short words: a text says few different words, many times each.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace hasten::text {

/// A word of up to 15 bytes as two integers, which compare and hash in a few instructions.
struct WordKey {
  static constexpr size_t kMaxBytes = 15;

  uint64_t low;   // the first 8 bytes, zeros behind the word
  uint64_t high;  // the others, and in the top byte the length: not 0 for any word

  /// `word` is the front of `text`, which may be read beyond it. `part`: the word is part of a
  /// longer one; as a whole word the same bytes may have other tokens.
  WordKey(std::string_view word, std::string_view text, bool part) {
    std::array<char, 16> copy{};
    const char* bytes = text.data();
    if (text.size() < copy.size()) {
      std::memcpy(copy.data(), bytes, word.size());
      bytes = copy.data();
    }
    std::memcpy(&low, bytes, sizeof low);
    std::memcpy(&high, bytes + sizeof low, sizeof high);
    const size_t bits = 8 * word.size();
    low &= bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    high &= bits <= 64 ? 0 : (uint64_t{1} << (bits - 64)) - 1;
    high |= uint64_t{word.size() | (part ? 0x80U : 0U)} << 56;
  }
};
static_assert(std::endian::native == std::endian::little);

/// One thread at a time. A bucket of two words is a cache line; the one not used last makes room.
class WordCache {
 public:
  static constexpr size_t kMaxTokens = 4;

  WordCache() : buckets_(kBuckets) {}

  /// Appends the tokens of a word that was put; false if there is none.
  bool find(const WordKey& key, std::vector<int32_t>& out) {
    Bucket& bucket = buckets_[bucket_of(key)];
    if (!bucket[0].is(key)) {
      if (!bucket[1].is(key)) return false;
      std::swap(bucket[0], bucket[1]);
    }
    const auto& tokens = bucket[0].tokens;
    out.push_back(tokens[0]);
    for (size_t i = 1; i < kMaxTokens && tokens[i] >= 0; ++i) out.push_back(tokens[i]);
    return true;
  }

  /// Does nothing for no token or more than kMaxTokens.
  void put(const WordKey& key, std::span<const int32_t> tokens) {
    if (tokens.empty() || tokens.size() > kMaxTokens) return;
    Bucket& bucket = buckets_[bucket_of(key)];
    bucket[1] = bucket[0];
    bucket[0] = {.low = key.low, .high = key.high, .tokens = {-1, -1, -1, -1}};
    std::copy(tokens.begin(), tokens.end(), bucket[0].tokens.begin());
  }

 private:
  struct Word {
    uint64_t low = 0;
    uint64_t high = 0;
    std::array<int32_t, kMaxTokens> tokens{};  // -1: no more

    bool is(const WordKey& key) const { return low == key.low && high == key.high; }
  };
  struct alignas(64) Bucket : std::array<Word, 2> {};
  static constexpr size_t kBuckets = 16384;  // 1 MiB

  static size_t bucket_of(const WordKey& key) {
    return mix64(key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) & (kBuckets - 1);
  }

  std::vector<Bucket> buckets_;
};

}  // namespace hasten::text
