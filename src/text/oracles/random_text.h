// SPDX-License-Identifier: Apache-2.0
// For tests: random text that visits what tokenizers tell apart.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace hasten::text::testing {

/// Valid UTF-8 from a seeded stream: words, contractions, runs of spaces and newlines, digits,
/// symbols, combining marks, and characters of every plane.
class RandomText {
 public:
  explicit RandomText(uint64_t seed) : random_(seed) {}

  /// Between 0 and `max_parts` pieces, some of them repeated.
  std::string next(size_t max_parts) {
    std::string text;
    for (size_t parts = below(max_parts + 1); parts > 0; --parts) {
      const std::string part = next_part();
      for (size_t repeat = below(8) == 0 ? 1 + below(6) : 1; repeat > 0; --repeat) text += part;
    }
    return text;
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  std::string next_part() {
    // clang-format off
    static constexpr std::string_view kParts[] = {
        " ", " ", " ", "  ", "\n", "\r", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085",
        "'", "'s", "'S", "'ll", "'Re", "'\u017f", "'t", "'VE", "'d", "'m",
        "a", "the", "The", "ing", "A", "HTTP", "aB", "é", "É", "e\u0301", "\u0301", "\u01c5", "\u02b0",
        "\u4e2d", "\u6587", "\u043f", "\u0e01", "\u0939\u093f",
        "\ud55c\uae00", "\u3072", "\u30ab", "\u3002", "\uff01", "\u3105",
        "1", "12", "2024", "1234567", "\u00b2", "\u0663", "\u2167",
        ".", ",", "!?", "-", "/", "(", "_", "\u2581", "\u2026", "\U0001F999", "\U0001F1E9\U0001F1EA",
        "\u200d", "\ufe0f", "\ufeff", "<s>", "</s>", "[INST]", "<0x0A>", "<sentinel:12>", "IMGIMGABZ"};
    // clang-format on
    std::string part;
    switch (below(8)) {
      case 0: {  // any character that is one
        uint32_t code_point = static_cast<uint32_t>(below(0x110000 - 0x800));
        if (code_point >= 0xD800) code_point += 0x800;
        append_utf8(part, code_point);
        return part;
      }
      case 1:  // of the plane that most scripts use
        append_utf8(part, static_cast<uint32_t>(1 + below(0x3000)));
        return part;
      case 2:
        append_utf8(part, static_cast<uint32_t>(1 + below(0x7F)));
        return part;
      default:
        return std::string(kParts[below(std::size(kParts))]);
    }
  }

  std::mt19937_64 random_;
};

}  // namespace hasten::text::testing
