// SPDX-License-Identifier: Apache-2.0
// The characters that an expression cannot tell apart, as one symbol each.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/regex/code_point_set.h"
#include "text/regex/decode.h"

namespace hasten::text::regex {

/// Symbols are numbered from 0; the last, `edge`, is no character: what stands before the first and
/// behind the last one of a text.
class Alphabet {
 public:
  /// Throws Error{unsupported} where the sets make too many symbols.
  explicit Alphabet(const std::vector<CodePointSet>& sets);

  uint32_t num_symbols() const { return num_symbols_; }  // with edge
  uint32_t edge() const { return num_symbols_ - 1; }

  uint32_t symbol(uint32_t code_point) const {
    return blocks_[block_of_[code_point / kBlockSize] * kBlockSize + code_point % kBlockSize];
  }
  uint32_t ascii_symbol(uint8_t byte) const { return ascii_[byte]; }

  /// The symbols of a set that was given to the constructor: [num_symbols], 1 or 0; never edge.
  const std::vector<uint8_t>& symbols_of(int32_t set) const {
    return symbols_of_[static_cast<size_t>(set)];
  }

  struct Step {
    uint32_t symbol;
    uint32_t length;  // bytes
  };
  /// The symbol at `at`, which is within `text`. Malformed bytes are U+FFFD.
  Step step(std::string_view text, size_t at) const {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) return {ascii_[byte], 1};
    const Utf8Char next = decode_character(text, at);
    return {symbol(next.code_point), next.length};
  }

 private:
  static constexpr uint32_t kBlockSize = 256;  // code points

  void number_symbols(const std::vector<CodePointSet>& sets);
  void build_blocks();

  // Where intervals of equal membership begin, and their symbols.
  std::vector<uint32_t> starts_;
  std::vector<uint16_t> symbol_of_interval_;
  uint32_t num_symbols_ = 0;
  std::array<uint16_t, 128> ascii_;
  std::vector<uint16_t> block_of_;  // [0x110000 / kBlockSize]
  std::vector<uint16_t> blocks_;    // [number of blocks, kBlockSize]
  std::vector<std::vector<uint8_t>> symbols_of_;
};

}  // namespace hasten::text::regex
