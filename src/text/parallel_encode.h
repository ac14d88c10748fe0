// SPDX-License-Identifier: Apache-2.0
// Many texts, or a long one, to tokens on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace hasten::text {

/// The tokens of each text, as Tokenizer::encode gives them: not one differs, however many threads
/// there are. Texts beside each other share the threads, and so do the parts of a text of a MiB or
/// more, with the tokenizers that can be parted: of byte-level BPE, WordPiece and their kin each
/// word stands alone, SentencePiece BPE falls apart at spaces, RWKV's goes on alike from any place
/// that it reaches; a Unigram of tokenizer.model cannot. `num_threads`: 0 for as many as the
/// machine has, at most 256, this one included; they live as long as the call. `literal` of the
/// options must be empty. Throws what encode throws for the first text that it refuses, and
/// Error{invalid_argument} for options that do not fit. Any thread.
std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             const EncodeOptions& options = {},
                                             int num_threads = 0);

}  // namespace hasten::text
