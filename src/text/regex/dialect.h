// SPDX-License-Identifier: Apache-2.0
// Whose reading of a regular expression counts where engines differ.
#pragma once

#include <cstdint>

namespace hasten::text::regex {

enum class Dialect : uint8_t {
  ruby,  // Oniguruma, as tokenizer.json is read: ^ and $ at lines, x{2,3}+ repeats the repetition
  perl,  // as tiktoken reads: ^ and $ at the text's ends, x{2,3}+ is possessive
};

}  // namespace hasten::text::regex
