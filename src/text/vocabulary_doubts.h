// SPDX-License-Identifier: Apache-2.0
// What makes it doubtful that a vocabulary is whole: text that it has no tokens for.
#pragma once

#include <string>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace hasten::text {

/// Throws Error{invalid_data} where all ordinary tokens are the same, or there are none of text.
void check_has_tokens(const TokenizerSpec& spec, const Vocabulary& vocabulary);

/// Which bytes of text a vocabulary of bytes has no tokens for, in a sentence of "it"; empty: it
/// has one for each that people write, or is of another kind. Published ones lack some: their
/// makers' readers leave out, without a word, what has no token.
std::string doubt_of_bytes(const TokenizerSpec& spec, const Vocabulary& vocabulary);

}  // namespace hasten::text
