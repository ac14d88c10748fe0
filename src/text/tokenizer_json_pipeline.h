// SPDX-License-Identifier: Apache-2.0
// What the normaliser, pre-tokenizer and post-processor of a tokenizer.json amount to.
#pragma once

#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace hasten::text {

/// Sets normalizers, pre_steps and decoders of `spec` from "normalizer", "pre_tokenizer" and
/// "decoder". A kind of character_bpe becomes bpe or spm where these say the same in the terms of
/// such a kind. Throws Error{invalid_data, unsupported}.
void read_segmentation(const json::Object& root, TokenizerSpec& spec);

/// Sets bos, eos, add_bos and add_eos of `spec` from "post_processor", when it puts a token before
/// or behind a text, and tokens_before and tokens_after when it puts several there. Throws
/// Error{invalid_data, unsupported}.
void read_post_processor(const json::Object& root, TokenizerSpec& spec);

}  // namespace hasten::text
