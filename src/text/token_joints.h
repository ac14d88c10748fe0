// SPDX-License-Identifier: Apache-2.0
// Where a word falls into parts that no token spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hasten::text {

/// Tells places of a text that no token reaches across: what stands on either side is merged apart
/// from the other, and the tokens are the same. Long words of scripts without spaces fall into
/// parts of a character or three. Errs only towards "may": a hash stands for each four bytes. Const
/// once filled: any thread.
class TokenJoints {
 public:
  TokenJoints() : inside_(kInsideBits / 64), first_(kPairBits / 64), last_(kPairBits / 64) {}

  void add(std::string_view token);

  /// Whether a token may hold both word[at - 1] and word[at]; 0 < at < word.size().
  [[nodiscard]] bool may_join(std::string_view word, size_t at) const {
    // Such a token begins here, or ends here, or holds two bytes on each side.
    const size_t pair = pair_of(word, at - 1);
    if (has(first_, pair) || has(last_, pair)) return true;
    return at >= 2 && at + 1 < word.size() && has(inside_, quad_of(word, at - 2));
  }

 private:
  static constexpr size_t kInsideBits = size_t{1} << 20;
  static constexpr size_t kPairBits = size_t{1} << 16;
  using Bits = std::vector<uint64_t>;

  static bool has(const Bits& bits, size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
  static void set(Bits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
  static size_t byte(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }
  static size_t pair_of(std::string_view text, size_t at) {
    return byte(text, at) << 8 | byte(text, at + 1);
  }
  static size_t quad_of(std::string_view text, size_t at) {
    const uint64_t quad = pair_of(text, at) << 16 | pair_of(text, at + 2);
    return static_cast<size_t>(quad * 0x9E3779B97F4A7C15ULL >> 44);  // Fibonacci hashing: 20 bits
  }

  Bits inside_;  // four bytes anywhere in a token
  Bits first_;   // the first two bytes of a token
  Bits last_;    // the last two
};

inline void TokenJoints::add(std::string_view token) {
  if (token.size() < 2) return;
  set(first_, pair_of(token, 0));
  set(last_, pair_of(token, token.size() - 2));
  for (size_t at = 0; at + 4 <= token.size(); ++at) set(inside_, quad_of(token, at));
}

}  // namespace hasten::text
